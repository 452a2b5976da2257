// Nests: loops around points, one variable of them in vectors.
//
// Which one is decided by how the body's accesses move with it: neighbours in memory are best, the
// same element for all lanes costs nothing, anything else is gathered lane by lane. Where no
// variable moves linearly through every access, the nest is scalar code.
#include <algorithm>
#include <limits>

#include "tile/cpu/lower_points.h"
#include "tile/ir/fail.h"

namespace tessera::tile::cpu {

namespace {

using ir::Kind;
using ir::Op;
using llvm::Value;

// Sums of a reduction that are formed side by side, so that additions need not wait for each other.
constexpr int kReductionSums = 4;

class NestLowering {
 public:
  NestLowering(LowerContext& context, const Op& nest)
      : c_(context), nest_(nest), points_(context, nest.blocks[0]) {
    const Kind last = nest.blocks[0].back().kind;
    reduces_ = last == Kind::kAccumulateSum || last == Kind::kAccumulateMax;
    choose_vector();
  }

  void run() {
    std::vector<ir::Var> outer;
    for (std::size_t i = 0; i < nest_.vars.size(); ++i) {
      if (static_cast<int>(i) != vector_ && !nest_.vars[i].reduces) outer.push_back(nest_.vars[i]);
    }
    loops(outer, 0);
  }

 private:
  void choose_vector() {
    const int lanes = c_.b.lanes();
    double best = 0;
    for (std::size_t i = 0; i < nest_.vars.size(); ++i) {
      double cost = 0;
      for (const Op& op : nest_.blocks[0]) {
        const bool accesses = op.kind == Kind::kLoad || op.kind == Kind::kStore;
        const bool accumulates = op.kind == Kind::kAccumulateSum || op.kind == Kind::kAccumulateMax;
        if (!accesses && !(accumulates && !nest_.vars[i].reduces)) continue;
        const Movement move = movement(c_.offset_of(op), nest_.vars[i].name);
        if (!move.known) {
          cost = std::numeric_limits<double>::infinity();
        } else if (move.is(1)) {
          cost += 1;
        } else if (move.is(2)) {
          cost += 3;  // most often one of a pair
        } else if (!move.is(0)) {
          cost += lanes;
        }
      }
      // A vector that is mostly empty does little.
      const ir::Range extent = range_of(nest_.vars[i].extent, c_.ranges);
      const auto n = static_cast<double>(std::max<std::int64_t>(1, extent.high.value_or(lanes)));
      cost = (cost + 1) / std::min<double>(n, lanes);
      // All of a scalar loop costs about what one element does.
      if (cost >= static_cast<double>(nest_.blocks[0].size())) continue;
      if (vector_ < 0 || cost <= best) {
        best = cost;
        vector_ = static_cast<int>(i);
      }
    }
  }

  const ir::Var* vector_var() const {
    return vector_ < 0 ? nullptr : &nest_.vars[static_cast<std::size_t>(vector_)];
  }

  void loops(const std::vector<ir::Var>& outer, std::size_t depth) {
    if (depth < outer.size()) {
      return c_.loop(outer[depth], [&] { loops(outer, depth + 1); });
    }
    const ir::Var* var = vector_var();
    if (!reduces_) return var == nullptr ? scalar_store() : vector_store(*var);
    if (var == nullptr || var->reduces) return reduce_row();
    reduce_columns(*var);
  }

  void scalar_store() { points_.emit({}); }

  // In whole vectors, then what is left under a mask.
  template <typename Emit>
  void strips(const ir::Var& var, Emit&& emit) {
    llvm::IRBuilder<>& ir = c_.ir();
    const int lanes = c_.b.lanes();
    Value* count = c_.eval(var.extent);
    Value* rest = ir.CreateURem(count, c_.number(lanes));
    Value* whole = ir.CreateSub(count, rest);
    Points points;
    points.vector_var = var.name;
    emit_loop(ir, c_.number(0), whole, lanes,
              [&](Value* index) { c_.with(var, index, [&] { emit(points); }); });
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(rest);
    if (known != nullptr && known->isZero()) return;
    const auto tail = [&] {
      points.count = rest;
      points.mask = c_.b.first_lanes(rest);
      c_.with(var, whole, [&] { emit(points); });
    };
    if (known != nullptr) return tail();
    c_.when(ir.CreateICmpNE(rest, c_.number(0)), tail);
  }

  void vector_store(const ir::Var& var) {
    Points points;
    points.vector_var = var.name;
    points_.hoist(points);
    strips(var, [&](const Points& p) { points_.emit(p); });
  }

  Value* start(bool vector) {
    const float value = points_.sums() ? 0.0f : -std::numeric_limits<float>::infinity();
    return vector ? c_.b.constant(value) : llvm::ConstantFP::get(c_.ir().getFloatTy(), value);
  }

  std::vector<ir::Var> scalar_reductions() const {
    std::vector<ir::Var> vars;
    for (std::size_t i = 0; i < nest_.vars.size(); ++i) {
      if (nest_.vars[i].reduces && static_cast<int>(i) != vector_) vars.push_back(nest_.vars[i]);
    }
    return vars;
  }

  // Loops over the reducing variables that are not in vectors, carrying the sums.
  Values reduction_loops(const std::vector<ir::Var>& vars, std::size_t depth, const Values& sums,
                         const std::function<Values(const Values&)>& inner) {
    if (depth == vars.size()) return inner(sums);
    const ir::Var& var = vars[depth];
    return emit_loop(c_.ir(), c_.number(0), c_.eval(var.extent), 1, sums,
                     [&](Value* index, const Values& carried) {
                       Values next;
                       c_.with(var, index,
                               [&] { next = reduction_loops(vars, depth + 1, carried, inner); });
                       return next;
                     });
  }

  Value* accumulate(const Points& points, Value* sum) {
    points_.emit(points);
    return points_.accumulated(points, sum);
  }

  void store_result(Value* result, const Points& points) {
    const Op& op = nest_.blocks[0].back();
    const ir::IndexExpr offset = c_.offset_of(op);
    Value* address = c_.address(op, offset);
    const cpu::Element element = storage(c_.kernel.find_memory(op.memory)->element);
    if (points.vector_var.empty()) return c_.b.store_scalar(element, result, address);
    const Movement move = movement(offset, points.vector_var);
    if (move.is(1)) return c_.b.store(element, result, address, points.mask);
    c_.b.store_strided(element, result, address, c_.eval(move.stride * element_bytes(element)),
                       points.count);
  }

  // One result; the vector (if any) runs along what is summed.
  void reduce_row() {
    const ir::Var* var = vector_var();
    if (var == nullptr) {
      const Values sums = reduction_loops(
          scalar_reductions(), 0, {start(false)},
          [&](const Values& carried) { return Values{accumulate({}, carried[0])}; });
      return store_result(sums[0], {});
    }
    Values sums(kReductionSums, start(true));
    sums = reduction_loops(scalar_reductions(), 0, sums,
                           [&](const Values& c) { return reduce_strip(*var, c); });
    // As a tree, so that the order is fixed.
    const auto join = [&](Value* a, Value* b) {
      return points_.sums() ? c_.b.add(a, b) : c_.b.maximum(a, b);
    };
    Value* all = join(join(sums[0], sums[1]), join(sums[2], sums[3]));
    store_result(points_.sums() ? c_.b.sum(all) : c_.b.max(all), {});
  }

  Values reduce_strip(const ir::Var& var, const Values& initial) {
    llvm::IRBuilder<>& ir = c_.ir();
    const int lanes = c_.b.lanes();
    Value* count = c_.eval(var.extent);
    const auto floor_to = [&](std::int64_t step) {
      return ir.CreateSub(count, ir.CreateURem(count, c_.number(step)));
    };
    Value* blocks = floor_to(lanes * kReductionSums);
    Value* whole = floor_to(lanes);
    Points points;
    points.vector_var = var.name;
    points_.hoist(points);
    Values sums =
        emit_loop(ir, c_.number(0), blocks, lanes * kReductionSums, initial,
                  [&](Value* index, const Values& carried) {
                    Values next;
                    for (int i = 0; i < kReductionSums; ++i) {
                      Value* at = ir.CreateAdd(index, c_.number(i * lanes));
                      c_.with(var, at, [&] {
                        next.push_back(accumulate(points, carried[static_cast<std::size_t>(i)]));
                      });
                    }
                    return next;
                  });
    const Values first =
        emit_loop(ir, blocks, whole, lanes, {sums[0]}, [&](Value* index, const Values& carried) {
          Values next;
          c_.with(var, index, [&] { next.push_back(accumulate(points, carried[0])); });
          return next;
        });
    sums[0] = first[0];
    Value* rest = ir.CreateSub(count, whole);
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(rest);
    if (known != nullptr && known->isZero()) return sums;
    points.count = rest;
    points.mask = c_.b.first_lanes(rest);
    c_.with(var, whole, [&] { sums[0] = accumulate(points, sums[0]); });
    return sums;
  }

  // A vector of results; what is summed runs in loops.
  void reduce_columns(const ir::Var& var) {
    strips(var, [&](const Points& points) {
      const Values sums = reduction_loops(
          scalar_reductions(), 0, {start(true)},
          [&](const Values& carried) { return Values{accumulate_column(points, carried[0])}; });
      store_result(sums[0], points);
    });
  }

  Value* accumulate_column(const Points& points, Value* sum) {
    PointEmitter fresh(c_, nest_.blocks[0]);
    fresh.hoist(points);
    fresh.emit(points);
    return fresh.accumulated(points, sum);
  }

  LowerContext& c_;
  const Op& nest_;
  PointEmitter points_;
  bool reduces_ = false;
  int vector_ = -1;
};

}  // namespace

void lower_nest(LowerContext& context, const Op& nest) {
  NestLowering(context, nest).run();
}

}  // namespace tessera::tile::cpu
