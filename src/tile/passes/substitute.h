// Replacing names in every index expression of operations.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

// rewrite is applied to every index, extent and valid extent of the block, inner blocks included.
void rewrite_indices(ir::Block& block,
                     const std::function<ir::IndexExpr(const ir::IndexExpr&)>& rewrite);
void rewrite_indices(ir::Op& op, const std::function<ir::IndexExpr(const ir::IndexExpr&)>& rewrite);

void substitute(ir::Block& block, const std::map<std::string, ir::IndexExpr>& values);
void substitute(ir::Op& op, const std::map<std::string, ir::IndexExpr>& values);

// visit for every operation, outer ones first.
void for_each_op(const ir::Block& block, const std::function<void(const ir::Op&)>& visit);
void for_each_op(ir::Block& block, const std::function<void(ir::Op&)>& visit);

// A name that no symbol, tensor or variable of the kernel has: stem, or stem with a number.
std::string fresh_name(const ir::Kernel& kernel, const std::string& stem);

}  // namespace tessera::tile::passes
