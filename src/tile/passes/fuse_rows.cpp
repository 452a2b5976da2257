#include "tile/passes/fuse_rows.h"

#include <map>
#include <optional>

#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

// Every access to a temporary value names the nest's first variable, alone, in the same dim.
bool rows_match(const ir::Kernel& kernel, const ir::Block& nests) {
  std::map<std::string, std::optional<std::size_t>> row_dim;
  bool match = true;
  for (const Op& nest : nests) {
    const std::string& row = nest.vars[0].name;
    for (const Op& op : nest.blocks[0]) {
      const ir::Memory* memory = op.memory.empty() ? nullptr : kernel.find_memory(op.memory);
      if (memory == nullptr || memory->kind != ir::MemoryKind::kTemp) continue;
      std::optional<std::size_t> dim;
      for (std::size_t d = 0; d < op.index.size(); ++d) {
        const std::string* name = op.index[d].as_name();
        if (name != nullptr && *name == row) dim = d;
      }
      const auto [known, first] = row_dim.emplace(op.memory, dim);
      match = match && dim && known->second == dim;
    }
  }
  return match;
}

}  // namespace

void fuse_rows(const ir::Kernel& kernel, ir::Block& nests) {
  if (nests.size() < 2) return;
  for (const Op& nest : nests) {
    const bool has_rows = nest.kind == Kind::kNest && !nest.vars.empty() && !nest.vars[0].reduces &&
                          nest.vars[0].extent == nests[0].vars[0].extent;
    if (!has_rows) return;
  }
  if (!rows_match(kernel, nests)) return;
  Op loop;
  loop.kind = Kind::kLoop;
  loop.location = nests[0].location;
  loop.vars.push_back({fresh_name(kernel, "r"), nests[0].vars[0].extent, false});
  for (Op& nest : nests) {
    substitute(nest, {{nest.vars[0].name, IndexExpr::name(loop.vars[0].name)}});
    nest.vars.erase(nest.vars.begin());
  }
  loop.blocks.push_back(std::move(nests));
  nests.clear();
  nests.push_back(std::move(loop));
}

}  // namespace tessera::tile::passes
