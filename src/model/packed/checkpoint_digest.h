// What tells one checkpoint from another without reading all of it.
#pragma once

#include <string>

#include "io/checkpoint.h"

namespace tessera {

// A hash of the tensors' names, types and shapes, and of samples of their data: the same for copies
// of a checkpoint, and another one after any training step. 32 hex digits.
std::string checkpoint_digest(const Checkpoint& checkpoint);

// A hash of the names, sizes and times of change of the files that hold it.
std::string checkpoint_files_digest(const Checkpoint& checkpoint);

}  // namespace tessera
