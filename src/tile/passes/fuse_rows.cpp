#include "tile/passes/fuse_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

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

bool writes(const Op& op) {
  return op.kind == Kind::kStore || op.kind == Kind::kAccumulateSum ||
         op.kind == Kind::kAccumulateMax;
}

// In some dim every access to the tensor has one index, which moves with the row: different rows
// are different elements.
bool rows_apart(const ir::Block& nests, const std::string& memory) {
  std::vector<std::vector<IndexExpr>> accesses;  // in terms of the first nest's row
  const std::string& row = nests[0].vars[0].name;
  for (const Op& nest : nests) {
    for (const Op& op : nest.blocks[0]) {
      if (op.memory != memory) continue;
      accesses.emplace_back();
      for (const IndexExpr& index : op.index) {
        accesses.back().push_back(index.substitute({{nest.vars[0].name, IndexExpr::name(row)}}));
      }
    }
  }
  for (std::size_t d = 0; d < accesses[0].size(); ++d) {
    const IndexExpr& index = accesses[0][d];
    if (index.coefficient(row) == 0 || index.uses_inside_atom(row)) continue;
    if (std::ranges::all_of(accesses, [&](const auto& a) { return a[d] == index; })) return true;
  }
  return false;
}

// No nest touches what another one stores, but for the row that both are at.
bool arguments_match(const ir::Kernel& kernel, const ir::Block& nests) {
  std::map<std::string, std::set<const Op*>> touched;
  std::set<std::string> written;
  for (const Op& nest : nests) {
    for (const Op& op : nest.blocks[0]) {
      if (op.memory.empty()) continue;
      if (kernel.find_memory(op.memory)->kind == ir::MemoryKind::kTemp) continue;
      touched[op.memory].insert(&nest);
      if (writes(op)) written.insert(op.memory);
    }
  }
  return std::ranges::all_of(written, [&](const std::string& memory) {
    return touched[memory].size() == 1 || rows_apart(nests, memory);
  });
}

}  // namespace

void fuse_rows(const ir::Kernel& kernel, ir::Block& nests) {
  if (nests.size() < 2) return;
  for (const Op& nest : nests) {
    const bool has_rows = nest.kind == Kind::kNest && !nest.vars.empty() && !nest.vars[0].reduces &&
                          nest.vars[0].extent == nests[0].vars[0].extent;
    if (!has_rows) return;
  }
  if (!rows_match(kernel, nests) || !arguments_match(kernel, nests)) return;
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
