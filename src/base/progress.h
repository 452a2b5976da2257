// How the library tells its caller how far a long job is. The library itself prints nothing.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

// Called from one thread at a time, with done rising to total.
using ProgressFn = std::function<void(std::size_t bytes_done, std::size_t bytes_total)>;

}  // namespace tessera
