// Contracts: register blocks of rows and columns over a packed weight, and what takes their sums.
//
// A sink knows its columns as base + sum of factor * variable. Where the runs of neighbouring
// columns are whole vectors, a vector of sums belongs to one run: one comparison decides, and the
// sink's body runs on the register. Otherwise the vector goes through 64 bytes of stack, lane by
// lane: right for any shape, and only odd ones pay.
#include <algorithm>

#include "tile/cpu/lower_points.h"
#include "tile/cpu/matmul_emitter.h"
#include "tile/cpu/prepare_rows.h"
#include "tile/cpu/prepared_product.h"
#include "tile/ir/fail.h"
#include "tile/ir/print.h"

namespace tessera::tile::cpu {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;
using llvm::Value;

// Packed activations of a block may take this much of a thread's stack.
constexpr std::int64_t kMaxPackedBytes = 1 << 20;

// One variable of a sink and how many columns it steps over.
struct ColumnVar {
  const ir::Var* var;
  std::int64_t factor;
  std::int64_t extent;
};

struct Sink {
  const Op* nest;
  const ir::Var* row = nullptr;  // nullptr: row 0 alone
  std::int64_t first_column = 0;
  std::vector<ColumnVar> columns;  // the largest factor first; the last one steps by 1
  bool in_vectors = false;
};

class ContractLowering {
 public:
  ContractLowering(LowerContext& context, const Op& op) : c_(context), op_(op) {
    if (op.index.size() != 1)
      fail_at(code::kCannotLower, op.location, "{}: columns not shared out", print(op));
    const ir::Memory& weight = *c_.kernel.find_memory(op.blocks[0][1].memory);
    shape_ = {weight_layout(weight.element), weight.dims[0].constant(), weight.dims[1].constant()};
    for (const Op& nest : op.blocks[1]) sinks_.push_back(describe(nest));
  }

  void run() {
    if (op_.vars[0].extent.is_constant()) {
      const std::int64_t m = op_.vars[0].extent.constant();
      const MatmulBlock best = choose(m);
      std::int64_t first = 0;
      for (int count : cut_rows(m, best.rows)) {
        MatmulBlock block = best;
        block.rows = count;
        rows_block(block, c_.number(first), first);
        first += count;
      }
      return;
    }
    // A number of rows that varies: one by one, the weight's panel stays near.
    emit_loop(c_.ir(), c_.number(0), c_.eval(op_.vars[0].extent), 1,
              [&](Value* row) { rows_block(choose(1), row, 0); });
  }

 private:
  MatmulBlock choose(std::int64_t m) {
    MatmulBlock block = choose_block(c_.b.target(), shape_.layout, m);
    const ir::Option* cube = c_.kernel.find_option("cube_tile");
    if (cube != nullptr && cube->values[0] > 0) {
      block.rows = static_cast<int>(std::min<std::int64_t>(block.rows, cube->values[0]));
    }
    block.vectors = std::min(block.vectors, kPanelColumns / c_.b.lanes());
    return block;
  }

  Sink describe(const Op& nest) {
    Sink sink;
    sink.nest = &nest;
    const Op* acc = nullptr;
    for (const Op& op : nest.blocks[0]) {
      if (op.kind == Kind::kAcc) acc = &op;
    }
    if (acc == nullptr) fail_at(code::kCannotLower, nest.location, "a sink without acc");
    const auto find = [&](const std::string& name) -> const ir::Var* {
      for (const ir::Var& var : nest.vars) {
        if (var.name == name) return &var;
      }
      return nullptr;
    };
    const std::string* row = acc->index[0].as_name();
    if (row != nullptr) sink.row = find(*row);
    const IndexExpr& column = acc->index[1];
    sink.first_column = column.constant();
    for (const IndexExpr::Term& term : column.terms()) {
      const ir::Var* var =
          term.atom->kind == ir::Atom::Kind::kName ? find(term.atom->name) : nullptr;
      if (var == nullptr || !var->extent.is_constant() || term.coefficient < 1) {
        fail_at(code::kCannotLower, nest.location, "a sink that takes column {}",
                column.to_string());
      }
      sink.columns.push_back({var, term.coefficient, var->extent.constant()});
    }
    std::sort(sink.columns.begin(), sink.columns.end(),
              [](const ColumnVar& a, const ColumnVar& b) { return a.factor > b.factor; });
    const int lanes = c_.b.lanes();
    sink.in_vectors = !sink.columns.empty() && sink.columns.back().factor == 1 &&
                      sink.columns.back().extent % lanes == 0 && sink.first_column % lanes == 0;
    for (std::size_t i = 0; i + 1 < sink.columns.size(); ++i) {
      sink.in_vectors = sink.in_vectors && sink.columns[i].factor % lanes == 0;
    }
    // Every access of the body must move linearly with the column.
    for (const Op& op : nest.blocks[0]) {
      if ((op.kind != Kind::kLoad && op.kind != Kind::kStore) || !sink.in_vectors) continue;
      sink.in_vectors = movement(c_.offset_of(op), sink.columns.back().var->name).known;
    }
    return sink;
  }

  // Rows first ... first + block.rows - 1, all columns of the panel. first_known is first where
  // that is a constant.
  void rows_block(const MatmulBlock& block, Value* first, std::int64_t first_known) {
    const bool quantised = is_quantised(shape_.layout);
    const RowOperand rows =
        quantised ? RowOperand{quantised_rows(block, first)} : row_operand(block, first);
    llvm::IRBuilder<>& ir = c_.ir();
    Value* column = c_.eval(op_.index[0]);
    Value* panel = ir.CreateUDiv(column, c_.number(kPanelColumns));
    Value* panels = c_.base.at(op_.blocks[0][1].memory);
    PanelOperand weight;
    weight.panel_stride = c_.number(static_cast<std::int64_t>(shape_.panel_bytes()));
    weight.panel = c_.b.at(panels, ir.CreateMul(panel, weight.panel_stride));
    MatmulEmitter emitter(c_.b, block);
    const int columns = block.vectors * c_.b.lanes();
    for (int begin = 0; begin < kPanelColumns; begin += columns) {
      weight.first_column = begin;
      Values sums;
      if (quantised) {
        // In one go: the scales of rows and columns come behind the sums.
        sums = emit_prepared_product(c_.b, block, rows.base, weight.panel, begin,
                                     c_.number(shape_.k_groups()));
      } else {
        sums = products(emitter, rows, weight);
      }
      emitter.finish(sums, [&](int row, int vector, Value* sum) {
        Value* at_row = ir.CreateAdd(first, c_.number(row));
        Value* at = ir.CreateAdd(column, c_.number(begin + vector * c_.b.lanes()));
        for (const Sink& sink : sinks_) take(sink, at_row, first_known + row, at, sum);
      });
    }
  }

  Values products(MatmulEmitter& emitter, const RowOperand& rows, const PanelOperand& weight) {
    const ir::Option* cube = c_.kernel.find_option("cube_tile");
    const std::int64_t k = shape_.k;
    const std::int64_t step = cube != nullptr && cube->values[1] > 0 ? cube->values[1] : k;
    Values sums = emitter.zeros();
    for (std::int64_t at = 0; at < k; at += step) {
      sums = emitter.multiply(rows, weight, c_.number(at), c_.number(std::min(k, at + step)), sums);
    }
    return sums;
  }

  // The address of a contract's row `row` (i64), and bytes from one row to the next.
  struct RowsInMemory {
    Value* base;
    Value* stride;
  };
  RowsInMemory rows_in_memory(Value* row) {
    const Op& load = op_.blocks[0][0];
    const IndexExpr offset = c_.offset_of(load);
    const Movement along_m = movement(offset, op_.vars[0].name);
    if (!along_m.known || !movement(offset, op_.vars[2].name).is(1)) {
      fail_at(code::kCannotLower, load.location, "{}: rows that are not rows in memory",
              print(load));
    }
    Value* base = nullptr;
    c_.with(op_.vars[0], row,
            [&] { c_.with(op_.vars[2], c_.number(0), [&] { base = c_.address(load, offset); }); });
    const int size = element_bytes(storage(load.type.element));
    return {base, c_.eval(along_m.stride * size)};
  }

  // Stack for rows of a block, as many bytes as the first and largest block needs.
  Value* packed_rows(const MatmulBlock& block, std::int64_t bytes) {
    if (bytes > kMaxPackedBytes) {
      fail_at(code::kTileTooLarge, op_.location,
              "matmul: {} rows of {} need {} bytes to be converted; use fewer rows", block.rows,
              shape_.k, bytes);
    }
    if (packed_ == nullptr) packed_ = c_.stack(bytes);
    return packed_;
  }

  // The block's rows as quantised weights take them. Rows that do not change while the function
  // runs are quantised for the first panel and found again for the next ones.
  Value* quantised_rows(const MatmulBlock& block, Value* first) {
    const RowsInMemory rows = rows_in_memory(first);
    const ProductPlan form = prepared_form(c_.b.target(), shape_.layout);
    const std::int64_t bytes = block.rows * form.prepared_row_bytes(shape_.k);
    PreparedBlock to;
    to.rows = c_.number(block.rows);
    to.k = c_.number(shape_.k);
    to.source = [&](Value* r) { return c_.b.at(rows.base, c_.ir().CreateMul(r, rows.stride)); };
    const ir::Memory& memory = *c_.kernel.find_memory(op_.blocks[0][0].memory);
    kept_bytes_ += bytes;
    if (memory.kind == ir::MemoryKind::kTemp || kept_bytes_ > kMaxPackedBytes) {
      to.memory = packed_rows(block, bytes);
      emit_prepare_block(c_.b, shape_.layout, to);
      return to.memory;
    }
    to.memory = c_.stack(bytes);
    Value* kept = c_.stack_pointer();  // whose rows they are
    Value* last = c_.ir().CreateAlignedLoad(c_.ir().getPtrTy(), kept, llvm::Align(8));
    c_.when(c_.ir().CreateICmpNE(last, rows.base), [&] {
      emit_prepare_block(c_.b, shape_.layout, to);
      c_.ir().CreateAlignedStore(rows.base, kept, llvm::Align(8));
    });
    return to.memory;
  }

  RowOperand row_operand(const MatmulBlock& block, Value* first) {
    const RowsInMemory rows = rows_in_memory(first);
    const cpu::Element from = storage(op_.blocks[0][0].type.element);
    const cpu::Element to = activation_element(c_.b.target(), shape_.layout);
    const int g = k_interleave(shape_.layout);
    if (from == to) return {rows.base, rows.stride, c_.number(g * element_bytes(from))};
    const std::int64_t bytes = block.rows * ((shape_.k + g - 1) / g) * g * element_bytes(to);
    return emit_pack_rows(c_.b, block.rows, g, c_.number(shape_.k), from, rows.base, rows.stride,
                          to, packed_rows(block, bytes));
  }

  void take(const Sink& sink, Value* row, std::int64_t row_known, Value* column, Value* sum) {
    // Rows that the sink does not have: only where its row count differs from the block's.
    if (sink.row == nullptr) {
      if (row_known == 0 && op_.vars[0].extent == IndexExpr(1))
        return columns(sink, row, column, sum);
      return c_.when(c_.ir().CreateICmpEQ(row, c_.number(0)),
                     [&] { columns(sink, row, column, sum); });
    }
    if (sink.row->extent == op_.vars[0].extent) return columns(sink, row, column, sum);
    c_.when(c_.ir().CreateICmpSLT(row, c_.eval(sink.row->extent)),
            [&] { columns(sink, row, column, sum); });
  }

  void columns(const Sink& sink, Value* row, Value* column, Value* sum) {
    if (sink.row != nullptr) {
      c_.names[sink.row->name] = row;
      ir::add_ranges({*sink.row}, c_.ranges);
    }
    if (sink.in_vectors) {
      Points points;
      points.vector_var = sink.columns.back().var->name;
      points.acc = sum;
      at_column(sink, column, points);
    } else {
      by_lane(sink, column, sum);
    }
    if (sink.row != nullptr) {
      c_.names.erase(sink.row->name);
      c_.ranges.erase(sink.row->name);
    }
  }

  void by_lane(const Sink& sink, Value* column, Value* sum) {
    llvm::IRBuilder<>& ir = c_.ir();
    if (lanes_ == nullptr) lanes_ = c_.stack(64);
    ir.CreateAlignedStore(sum, lanes_, llvm::Align(4));
    emit_loop(ir, c_.number(0), c_.number(c_.b.lanes()), 1, [&](Value* lane) {
      Points points;
      points.acc = ir.CreateAlignedLoad(
          ir.getFloatTy(), c_.b.at(lanes_, ir.CreateMul(lane, c_.number(4))), llvm::Align(4));
      at_column(sink, ir.CreateAdd(column, lane), points);
    });
  }

  // The sink's variables at this column, if it is one of the sink's, and its body.
  void at_column(const Sink& sink, Value* column, const Points& points) {
    llvm::IRBuilder<>& ir = c_.ir();
    std::int64_t end = sink.first_column + 1;
    for (const ColumnVar& v : sink.columns) end += (v.extent - 1) * v.factor;
    // Columns as unsigned numbers: those before the first wrap around and are too large.
    Value* rest = ir.CreateSub(column, c_.number(sink.first_column));
    const bool all = sink.first_column == 0 && end >= shape_.panels() * kPanelColumns;
    Value* mine = all ? nullptr : ir.CreateICmpULT(rest, c_.number(end - sink.first_column));
    const auto body = [&] { with_columns(sink, rest, 0, points); };
    if (mine == nullptr) return body();
    c_.when(mine, body);
  }

  void with_columns(const Sink& sink, Value* rest, std::size_t i, const Points& points) {
    llvm::IRBuilder<>& ir = c_.ir();
    if (i == sink.columns.size()) {
      PointEmitter emitter(c_, sink.nest->blocks[0]);
      return emitter.emit(points);
    }
    const ColumnVar& v = sink.columns[i];
    const bool last = i + 1 == sink.columns.size();
    Value* at = v.factor == 1 ? rest : ir.CreateUDiv(rest, c_.number(v.factor));
    Value* inner = v.factor == 1 ? c_.number(0) : ir.CreateURem(rest, c_.number(v.factor));
    const auto inside = [&] {
      c_.with(*v.var, at, [&] { with_columns(sink, inner, i + 1, points); });
    };
    // The columns between the runs belong to other sinks; behind the last variable there must be
    // none.
    const std::int64_t outer = i == 0 ? 0 : sink.columns[i - 1].factor;
    Value* mine = i == 0 || outer == v.factor * v.extent
                      ? nullptr
                      : ir.CreateICmpULT(at, c_.number(v.extent));
    if (last && v.factor != 1) {
      Value* exact = ir.CreateICmpEQ(inner, c_.number(0));
      mine = mine == nullptr ? exact : ir.CreateAnd(mine, exact);
    }
    if (mine == nullptr) return inside();
    c_.when(mine, inside);
  }

  LowerContext& c_;
  const Op& op_;
  PackedShape shape_;
  std::vector<Sink> sinks_;
  Value* packed_ = nullptr;
  std::int64_t kept_bytes_ = 0;
  Value* lanes_ = nullptr;
};

}  // namespace

void lower_contract(LowerContext& context, const Op& contract) {
  ContractLowering(context, contract).run();
}

}  // namespace tessera::tile::cpu
