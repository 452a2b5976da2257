// From an object file to an image (tile/jit/code_image.h).
#pragma once

#include <span>
#include <string>

#include "tile/jit/code_image.h"

namespace tessera::tile::cpu {

// Lays out the object's sections in one block and resolves the references between them, which are
// relative to where they stand, so the block runs at any page. Every global function is an entry.
// Throws Error(kCompiler) for a reference to another object or to an absolute address, naming it.
CodeImage link_image(std::span<const char> object_file);

}  // namespace tessera::tile::cpu
