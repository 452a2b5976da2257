#include "tile/passes/parallel.h"

#include <algorithm>

#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

// Points of work below which a task is not worth handing out (about 2 us).
constexpr std::int64_t kGrain = 16 * 1024;
// Columns of a packed weight that lie together (tile/packed/panel_layout.h).
constexpr std::int64_t kPanel = 32;

std::int64_t product(const std::vector<ir::Var>& vars, ir::Ranges& ranges) {
  std::int64_t n = 1;
  for (const ir::Var& var : vars) {
    const std::int64_t extent =
        std::max<std::int64_t>(1, range_of(var.extent, ranges).high.value_or(64));
    if (__builtin_mul_overflow(n, extent, &n)) return INT64_MAX / 4;
  }
  return n;
}

// About how many points a block computes.
std::int64_t work(const ir::Block& block, ir::Ranges& ranges) {
  std::int64_t total = 1;
  for (const Op& op : block) {
    std::int64_t points = product(op.vars, ranges);
    if (op.kind == Kind::kLoop)
      points *= std::min(work(op.blocks[0], ranges), INT64_MAX / 4 / points);
    total += std::min(points, INT64_MAX / 4);
  }
  return total;
}

void share_rows(const ir::Kernel& kernel, Op& tasks, ir::Ranges& ranges) {
  // A single loop inside few iterations is shared too, where there is enough to share.
  Op* only = tasks.blocks[0].size() == 1 ? &tasks.blocks[0][0] : nullptr;
  const std::int64_t outer = product(tasks.vars, ranges);
  const std::int64_t all = work(tasks.blocks[0], ranges);
  const bool simple_nest = only != nullptr && only->kind == Kind::kNest && only->vars.size() >= 2 &&
                           !only->vars[0].reduces && !only->vars[1].reduces;
  if (outer < 16 && all > 2 * kGrain && only != nullptr &&
      (only->kind == Kind::kLoop || simple_nest)) {
    tasks.vars.push_back(only->vars[0]);
    if (only->kind == Kind::kLoop) {
      ir::Block inner = std::move(only->blocks[0]);
      tasks.blocks[0] = std::move(inner);
    } else {
      only->vars.erase(only->vars.begin());
    }
  }
  const ir::Option* option = kernel.find_option("vec_tile");
  const std::int64_t chunk =
      option != nullptr ? option->values[0]
                        : std::max<std::int64_t>(1, kGrain / work(tasks.blocks[0], ranges));
  tasks.ints = {chunk};
}

void share_columns(const ir::Kernel& kernel, Op& tasks, ir::Ranges& ranges) {
  Op& contract = tasks.blocks[0][0];
  const std::int64_t columns =
      contract.vars[1].extent.is_constant() ? contract.vars[1].extent.constant() : kPanel;
  const std::int64_t panels = (columns + kPanel - 1) / kPanel;
  const std::int64_t iterations = product(tasks.vars, ranges);
  // Chunks of a matmul with few rows: long enough to stream (2-panel chunks lose a fifth), short
  // enough that a thread which is held up costs little.
  std::int64_t chunk = std::clamp<std::int64_t>(panels / 16, 1, 16);
  const ir::Option* cube = kernel.find_option("cube_tile");
  if (cube != nullptr && cube->values[2] > 0)
    chunk = std::max<std::int64_t>(1, cube->values[2] / kPanel);
  const ir::Option* axis = kernel.find_option("parallel_axis");
  const std::int64_t wish = axis == nullptr ? 0 : axis->values[0];
  const bool rows_too = wish == 1 || (wish == 0 && panels < 8 && iterations >= 16);
  std::vector<ir::Var> loops = std::move(tasks.vars);
  ir::Var column{fresh_name(kernel, "p"), panels, false};
  contract.index = {IndexExpr::name(column.name) * kPanel};
  contract.ints = {kPanel};
  if (rows_too) {
    // Row by row of the grid: all columns of an iteration, then the next iteration.
    tasks.vars = loops;
    tasks.vars.push_back(column);
    tasks.ints = {wish == 1 ? panels : chunk};
    return;
  }
  tasks.vars = {column};
  tasks.ints = {chunk};
  // The loops move inside.
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    Op op;
    op.kind = Kind::kLoop;
    op.location = tasks.location;
    op.vars = {*loop};
    op.blocks.push_back(std::move(tasks.blocks[0]));
    tasks.blocks[0] = {std::move(op)};
  }
}

// The weight of the contract that tasks over columns are made of; nullptr for other tasks.
const std::string* weight_of(const Op& tasks) {
  const Op* op = &tasks.blocks[0].back();
  while (op->kind == Kind::kLoop) op = &op->blocks[0].back();
  const bool by_columns = op->kind == Kind::kContract && tasks.vars.size() == 1;
  return by_columns ? &op->blocks[0][1].memory : nullptr;
}

// Tasks over the columns of one weight become one: see the header.
void merge_columns(ir::Block& sections) {
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string* weight = weight_of(sections[i]);
    for (std::size_t j = i + 1; weight != nullptr && j < sections.size();) {
      const std::string* other = weight_of(sections[j]);
      const bool same = other != nullptr && *other == *weight &&
                        sections[i].ints == sections[j].ints &&
                        sections[i].vars[0].extent == sections[j].vars[0].extent;
      if (!same) {
        ++j;
        continue;
      }
      ir::Block body = std::move(sections[j].blocks[0]);
      substitute(body, {{sections[j].vars[0].name, IndexExpr::name(sections[i].vars[0].name)}});
      for (Op& op : body) sections[i].blocks[0].push_back(std::move(op));
      sections.erase(sections.begin() + static_cast<std::ptrdiff_t>(j));
      weight = weight_of(sections[i]);
    }
  }
}

}  // namespace

void parallel(ir::Kernel& kernel) {
  for (Op& phase : kernel.body) {
    for (Op& tasks : phase.blocks[0]) {
      ir::Ranges ranges = kernel.symbol_ranges();
      const bool contract =
          tasks.blocks[0].size() == 1 && tasks.blocks[0][0].kind == Kind::kContract;
      if (contract) {
        share_columns(kernel, tasks, ranges);
      } else {
        share_rows(kernel, tasks, ranges);
      }
    }
    merge_columns(phase.blocks[0]);
  }
}

}  // namespace tessera::tile::passes
