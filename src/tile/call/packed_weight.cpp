#include <tessera/tile.h>

#include "base/thread_pool.h"
#include "tile/ir/fail.h"
#include "tile/packed/pack.h"

namespace tessera::tile {

namespace {

DType dtype_of(Element element) {
  switch (element) {
    case Element::kF32:
      return DType::kF32;
    case Element::kBF16:
      return DType::kBF16;
    case Element::kF16:
      return DType::kF16;
    default:
      fail_at(code::kBadCall, {}, "a weight of {} to pack: it must be floating-point",
              to_string(element));
  }
}

}  // namespace

struct PackedWeight::State {
  cpu::PackedWeight panels;
  Element element;
};

PackedWeight::PackedWeight(const void* rows, Element element, std::int64_t n, std::int64_t k,
                           std::optional<Element> as, int n_threads) {
  const DType dtype = dtype_of(element);
  const Element packed = as.value_or(element);
  if (!is_weight_element(packed) || rows == nullptr || n < 1 || k < 1) {
    fail_at(code::kBadCall, {}, "a weight [{}, {}] at {} cannot be packed as {}", n, k, rows,
            to_string(packed));
  }
  ThreadPool pool(n_threads);
  const cpu::PackSource source{static_cast<const std::byte*>(rows), dtype, n, k, k, 1};
  state_ = std::make_shared<const State>(
      State{cpu::pack(source, cpu::weight_layout(packed), pool), packed});
}

Argument PackedWeight::argument() const {
  const cpu::PackedShape& shape = state_->panels.shape();
  return packed_argument(state_->panels.data(), state_->element, shape.n, shape.k);
}

}  // namespace tessera::tile
