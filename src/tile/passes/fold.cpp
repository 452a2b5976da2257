#include "tile/passes/fold.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "tile/ir/fail.h"
#include "tile/ir/print.h"
#include "tile/passes/join_nests.h"
#include "tile/passes/overlap.h"
#include "tile/passes/point_builder.h"
#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;
using Exprs = std::vector<IndexExpr>;

// The variables of a nest, and what each axis of the tile is in terms of them.
struct Domain {
  std::vector<ir::Var> vars;
  Exprs axes;
};

class Folder {
 public:
  explicit Folder(ir::Kernel& kernel) : kernel_(kernel), ranges_(kernel.symbol_ranges()) {
    for_each_op(kernel.body,
                [&](const Op& op) { next_value_ = std::max(next_value_, op.result + 1); });
    prefix_ = fresh_name(kernel, "d");
    find_last_uses();
  }

  void run() { kernel_.body = block(kernel_.body); }

 private:
  ir::Block block(ir::Block& block) {
    ir::Block result;
    ir::Block* outer = out_;
    out_ = &result;
    for (Op& op : block) one(op);
    out_ = outer;
    return result;
  }

  // Operations that take their operands at their own place; others do where their result is used.
  static bool takes_at_once(Kind kind) {
    return kind == Kind::kAssemble || kind == Kind::kScatter || kind == Kind::kSum ||
           kind == Kind::kMaxOver || kind == Kind::kMatmul;
  }

  void find_last_uses() {
    std::vector<const Op*> order;
    for_each_op(kernel_.body, [&](const Op& op) { order.push_back(&op); });
    for (std::size_t i = order.size(); i-- > 0;) {
      const Op& op = *order[i];
      const int place = takes_at_once(op.kind) ? static_cast<int>(i) : last_use_[op.result];
      for (int operand : op.operands) last_use_[operand] = std::max(last_use_[operand], place);
    }
  }

  void one(Op& op) {
    ++place_;
    switch (op.kind) {
      case Kind::kLoop:
      case Kind::kParallel: {
        Op loop = op;
        ir::add_ranges(op.vars, ranges_);
        // Memory that a use inside the loop made necessary is the loop's own.
        const std::map<int, std::string> outside = tiles_.memory;
        loop.blocks = {block(op.blocks[0])};
        tiles_.memory = outside;
        out_->push_back(std::move(loop));
        ranges_.erase(op.vars[0].name);
        return;
      }
      case Kind::kAssemble:
      case Kind::kScatter:
        return store(op);
      default:
        tiles_.defined[op.result] = op;
    }
    if (op.kind == Kind::kSum || op.kind == Kind::kMaxOver) reduce(op);
    if (op.kind == Kind::kMatmul) matmul(op);
  }

  // A variable for each axis that has more than one position.
  Domain domain(const Exprs& extents) {
    Domain domain;
    for (const IndexExpr& extent : extents) {
      if (extent == IndexExpr(1)) {
        domain.axes.emplace_back(0);
        continue;
      }
      const std::string name = prefix_ + std::to_string(domain.vars.size());
      domain.vars.push_back({name, extent, false});
      domain.axes.push_back(IndexExpr::name(name));
    }
    return domain;
  }

  // Builds the nests of a statement, again and again until no variable has to be split or cut.
  // make(builder, axes) fills the body.
  using Make = std::function<void(PointBuilder&, const Exprs& axes)>;
  void nests(Domain domain, const Location& location, const Make& make, int depth = 0) {
    if (depth > 64)
      fail_at(code::kCannotLower, location, "fold: the shapes of this statement never settle");
    PointBuilder builder(tiles_, ranges_, domain.vars, next_value_);
    try {
      make(builder, domain.axes);
    } catch (const SplitVar& split) {
      return nests(split_var(domain, split), location, make, depth + 1);
    } catch (const CutVar& cut) {
      nests(cut_var(domain, cut, true), location, make, depth + 1);
      return nests(cut_var(domain, cut, false), location, make, depth + 1);
    } catch (const NeedsMemory& needs) {
      materialise(needs.value);
      return nests(std::move(domain), location, make, depth + 1);
    }
    Op nest;
    nest.kind = Kind::kNest;
    nest.vars = std::move(domain.vars);
    nest.blocks.push_back(builder.take());
    nest.location = location;
    out_->push_back(std::move(nest));
  }

  Domain split_var(const Domain& domain, const SplitVar& split) {
    Domain result;
    std::map<std::string, IndexExpr> values;
    for (const ir::Var& var : domain.vars) {
      const std::string name = prefix_ + std::to_string(result.vars.size());
      if (var.name != split.name) {
        result.vars.push_back({name, var.extent, var.reduces});
        values[var.name] = IndexExpr::name(name);
        continue;
      }
      const std::string inner = prefix_ + std::to_string(result.vars.size() + 1);
      result.vars.push_back({name, var.extent.constant() / split.inner, var.reduces});
      result.vars.push_back({inner, split.inner, var.reduces});
      values[var.name] = IndexExpr::name(name) * split.inner + IndexExpr::name(inner);
    }
    for (const IndexExpr& axis : domain.axes) result.axes.push_back(axis.substitute(values));
    return result;
  }

  Domain cut_var(const Domain& domain, const CutVar& cut, bool first) {
    Domain result = domain;
    std::map<std::string, IndexExpr> values;
    for (ir::Var& var : result.vars) {
      if (var.name != cut.name) continue;
      if (first) {
        var.extent = simplify(IndexExpr::min(var.extent, cut.at), ranges_);
      } else {
        var.extent = simplify(IndexExpr::max(var.extent - cut.at, 0), ranges_);
        values[var.name] = IndexExpr::name(var.name) + cut.at;
      }
    }
    for (IndexExpr& axis : result.axes) axis = axis.substitute(values);
    // A part of one position needs no variable.
    for (auto var = result.vars.begin(); var != result.vars.end(); ++var) {
      if (!(var->extent == IndexExpr(1))) continue;
      for (IndexExpr& axis : result.axes) axis = axis.substitute({{var->name, 0}});
      result.vars.erase(var);
      break;
    }
    return result;
  }

  void store(const Op& op) {
    if (kernel_.find_memory(op.memory)->kind != ir::MemoryKind::kInOut) return store_nests(op);
    keep_views(op);
    ir::Block made;
    ir::Block* outer = out_;
    out_ = &made;
    store_nests(op);
    out_ = outer;
    // Copies that turned out to be needed come first, then the stores, together if they can be.
    const auto first = std::stable_partition(made.begin(), made.end(), [&](const Op& nest) {
      return nest.blocks[0].back().memory != op.memory;
    });
    ir::Block stores(std::make_move_iterator(first), std::make_move_iterator(made.end()));
    made.erase(first, made.end());
    out_->insert(out_->end(), std::make_move_iterator(made.begin()),
                 std::make_move_iterator(made.end()));
    while (stores.size() > 1 && same_vars(stores[0], stores[1])) {
      join_points(stores[0].blocks[0], std::move(stores[1].blocks[0]));
      stores.erase(stores.begin() + 1);
    }
    if (!loads_own_points(stores, op.memory)) {
      materialise(op.operands[0]);
      return store_nests(op);
    }
    out_->insert(out_->end(), std::make_move_iterator(stores.begin()),
                 std::make_move_iterator(stores.end()));
  }

  // Tiles of the tensor that are used after this store get memory before it.
  void keep_views(const Op& store) {
    std::vector<int> kept;
    for (const auto& [value, op] : tiles_.defined) {
      const bool later = op.kind == Kind::kView && op.memory == store.memory &&
                         !tiles_.memory.contains(value) && last_use_[value] > place_;
      if (later) kept.push_back(value);
    }
    for (int value : kept) materialise(value);
  }

  // Each element that the nests load of memory is one that the same point stores, or one that none
  // of them stores.
  bool loads_own_points(const ir::Block& nests, const std::string& memory) const {
    for (const Op& nest : nests) {
      for (const Op& load : nest.blocks[0]) {
        if (load.kind != Kind::kLoad || load.memory != memory) continue;
        const bool own = std::ranges::any_of(nest.blocks[0], [&](const Op& op) {
          return op.kind == Kind::kStore && op.index == load.index;
        });
        const bool none = std::ranges::all_of(nests, [&](const Op& other) {
          return std::ranges::all_of(other.blocks[0], [&](const Op& op) {
            return op.kind != Kind::kStore ||
                   apart({load.index, nest.vars}, {op.index, other.vars}, ranges_);
          });
        });
        if (!own && !none) return false;
      }
    }
    return true;
  }

  void store_nests(const Op& op) {
    const int tile = op.operands[0];
    nests(domain(tiles_.defined.at(tile).type.valid), op.location,
          [&](PointBuilder& builder, const Exprs& axes) {
            Op store;
            store.kind = Kind::kStore;
            store.operands = {builder.value_at(tile, axes)};
            store.memory = op.memory;
            store.location = op.location;
            std::map<std::string, IndexExpr> values;
            for (std::size_t d = 0; d < axes.size(); ++d) values[ir::axis_name(d)] = axes[d];
            for (std::size_t d = 0; d < op.index.size(); ++d) {
              IndexExpr at = op.kind == Kind::kScatter
                                 ? op.index[d].substitute(values)
                                 : op.index[d] + axes[d] * (op.ints.empty() ? 1 : op.ints[d]);
              store.index.push_back(simplify(at, builder.ranges()));
            }
            builder.finish(std::move(store));
          });
  }

  std::string new_temp(const Op& op, Element element) {
    ir::Memory memory;
    memory.kind = ir::MemoryKind::kTemp;
    memory.name = fresh_name(kernel_, fmt::format("t{}", op.result));
    memory.element = element;
    memory.dims.assign(op.type.shape.begin(), op.type.shape.end());
    kernel_.memories.push_back(memory);
    return memory.name;
  }

  void materialise(int value) {
    const Op op = tiles_.defined.at(value);
    if (op.type.element == Element::kBool) {
      fail_at(code::kUnsupportedShape, op.location,
              "{} of comparisons {}: choose with where() first", to_string(op.kind),
              print(op.type));
    }
    const std::string temp = new_temp(op, op.type.element);
    nests(domain(op.type.valid), op.location, [&](PointBuilder& builder, const Exprs& axes) {
      Op store;
      store.kind = Kind::kStore;
      store.operands = {builder.value_at(value, axes)};
      store.memory = temp;
      store.index = axes;
      store.location = op.location;
      builder.finish(std::move(store));
    });
    tiles_.memory[value] = temp;
  }

  void reduce(const Op& op) {
    const auto axis = static_cast<std::size_t>(op.ints[0]);
    const int from = op.operands[0];
    Exprs extents = tiles_.defined.at(from).type.valid;
    const IndexExpr count = extents[axis];
    extents[axis] = 1;
    Domain over = domain(extents);
    // Always a variable, so that the sum of one element is one too.
    const std::string name = prefix_ + std::to_string(over.vars.size());
    over.vars.push_back({name, count, true});
    over.axes[axis] = IndexExpr::name(name);
    const std::string temp = new_temp(op, Element::kF32);
    nests(over, op.location, [&](PointBuilder& builder, const Exprs& axes) {
      Op accumulate;
      accumulate.kind = op.kind == Kind::kSum ? Kind::kAccumulateSum : Kind::kAccumulateMax;
      accumulate.operands = {builder.value_at(from, axes)};
      accumulate.memory = temp;
      accumulate.index = axes;
      accumulate.index[axis] = 0;
      accumulate.location = op.location;
      builder.finish(std::move(accumulate));
    });
    tiles_.memory[op.result] = temp;
  }

  // A load whose last index is the summed variable and whose others are linear in the row.
  static bool is_row_major(const Op& op, const std::vector<ir::Var>& vars) {
    const std::string& row = vars[0].name;
    const std::string& k = vars[2].name;
    if (op.kind != Kind::kLoad || op.index.empty()) return false;
    const std::string* last = op.index.back().as_name();
    if (last == nullptr || *last != k) return false;
    for (std::size_t d = 0; d + 1 < op.index.size(); ++d) {
      if (op.index[d].uses(k) || op.index[d].uses_inside_atom(row)) return false;
    }
    return true;
  }

  // The load that a matmul operand is, at [row, column]; other operands are stored first.
  Op operand_load(int tile, const Exprs& at, const std::vector<ir::Var>& vars) {
    const Op& defined = tiles_.defined.at(tile);
    if (defined.kind == Kind::kWeight) {
      Op load;
      load.kind = Kind::kLoad;
      load.memory = defined.memory;
      load.type.element = defined.type.element;
      load.index = at;
      load.location = defined.location;
      load.result = next_value_++;
      return load;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      PointBuilder builder(tiles_, ranges_, vars, next_value_);
      try {
        builder.value_at(tile, at);
        if (builder.ops().size() == 1 && builder.ops()[0].kind == Kind::kLoad) {
          Op load = builder.ops()[0];
          // A sum over one element: its index was simplified away, but lowering looks for it.
          if (vars[2].extent == IndexExpr(1) && !load.index.empty() &&
              load.index.back().is_zero()) {
            load.index.back() = IndexExpr::name(vars[2].name);
          }
          // Columns are shared out: a task would read what another one has overwritten.
          const bool in_place = kernel_.find_memory(load.memory)->kind == ir::MemoryKind::kInOut;
          if (!in_place && is_row_major(load, vars)) return load;
        }
      } catch (const SplitVar&) {
      } catch (const CutVar&) {
      } catch (const NeedsMemory&) {
      }
      materialise(tile);
    }
    fail_at(code::kCannotLower, defined.location, "fold: a matmul operand that cannot be loaded");
  }

  void matmul(const Op& op) {
    const ir::Type& a = tiles_.defined.at(op.operands[0]).type;
    const ir::Type& b = tiles_.defined.at(op.operands[1]).type;
    const bool a_trans = op.ints[0] != 0;
    const bool b_trans = op.ints[1] != 0;
    const IndexExpr k_extent =
        simplify(IndexExpr::min(a.valid[a_trans ? 0 : 1], b.valid[b_trans ? 1 : 0]), ranges_);
    const std::string temp = new_temp(op, op.type.element);
    if (tiles_.defined.at(op.operands[1]).kind != Kind::kWeight) {
      dense_matmul(op, k_extent, temp);
      tiles_.memory[op.result] = temp;
      return;
    }
    Op contract;
    contract.kind = Kind::kContract;
    contract.location = op.location;
    contract.vars = {{prefix_ + "m", op.type.valid[0], false},
                     {prefix_ + "n", op.type.valid[1], false},
                     {prefix_ + "k", k_extent, true}};
    const IndexExpr m = IndexExpr::name(contract.vars[0].name);
    const IndexExpr n = IndexExpr::name(contract.vars[1].name);
    const IndexExpr k = IndexExpr::name(contract.vars[2].name);
    Op left = operand_load(op.operands[0], a_trans ? Exprs{k, m} : Exprs{m, k}, contract.vars);
    Op right = operand_load(op.operands[1], {n, k}, contract.vars);
    contract.blocks = {{std::move(left), std::move(right)}, {}};
    // The sums go to memory; the pass `epilogue` replaces this by what uses them.
    Domain over = domain(op.type.valid);
    Op acc;
    acc.kind = Kind::kAcc;
    acc.result = next_value_++;
    acc.type.element = Element::kF32;
    acc.index = over.axes;
    Op store;
    store.kind = Kind::kStore;
    store.operands = {acc.result};
    store.memory = temp;
    store.index = over.axes;
    Op sink;
    sink.kind = Kind::kNest;
    sink.vars = over.vars;
    sink.blocks = {{std::move(acc), std::move(store)}};
    contract.blocks[1].push_back(std::move(sink));
    out_->push_back(std::move(contract));
    tiles_.memory[op.result] = temp;
  }

  void dense_matmul(const Op& op, const IndexExpr& k_extent, const std::string& temp) {
    Domain over = domain(op.type.valid);
    const std::string k = prefix_ + std::to_string(over.vars.size());
    over.vars.push_back({k, k_extent, true});
    Exprs axes = over.axes;
    axes.push_back(IndexExpr::name(k));
    over.axes = axes;
    nests(over, op.location, [&](PointBuilder& builder, const Exprs& at) {
      const Exprs a = op.ints[0] != 0 ? Exprs{at[2], at[0]} : Exprs{at[0], at[2]};
      const Exprs b = op.ints[1] != 0 ? Exprs{at[1], at[2]} : Exprs{at[2], at[1]};
      Op product;
      product.kind = Kind::kMul;
      product.type.element = Element::kF32;
      product.operands = {builder.value_at(op.operands[0], a), builder.value_at(op.operands[1], b)};
      Op accumulate;
      accumulate.kind = Kind::kAccumulateSum;
      accumulate.operands = {builder.add(std::move(product))};
      accumulate.memory = temp;
      accumulate.index = {at[0], at[1]};
      accumulate.location = op.location;
      builder.finish(std::move(accumulate));
    });
  }

  ir::Kernel& kernel_;
  ir::Ranges ranges_;
  TileValues tiles_;
  ir::Block* out_ = nullptr;
  int next_value_ = 0;
  int place_ = -1;               // of the operation at hand, in order
  std::map<int, int> last_use_;  // where a tile is last taken
  std::string prefix_;
};

}  // namespace

void fold(ir::Kernel& kernel) {
  Folder(kernel).run();
}

}  // namespace tessera::tile::passes
