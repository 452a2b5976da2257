#include "tile/cpu/lower_product.h"

#include <cassert>
#include <optional>
#include <string>
#include <vector>

#include <llvm/IR/Module.h>

#include "base/fail.h"
#include "tile/cpu/code_generator.h"
#include "tile/cpu/matmul_emitter.h"
#include "tile/cpu/prepare_rows.h"
#include "tile/cpu/prepared_product.h"
#include "tile/cpu/product_epilogue.h"

namespace tessera::tile::cpu {

namespace {

using llvm::Value;

// More rows than any block takes: asks choose_block for its largest.
constexpr std::int64_t kManyRows = 1 << 20;

class ProductLowering {
 public:
  ProductLowering(PanelLayout layout, const Target& target, llvm::LLVMContext& context)
      : layout_(layout),
        target_(target),
        module_(std::make_unique<llvm::Module>("product", context)),
        ir_(context),
        b_(ir_, target_),
        plan_(prepared_form(target, layout)) {
    prepare_module(*module_, target);
    plan_.max_block_rows = choose_block(target, layout, kManyRows).rows;
  }

  std::unique_ptr<llvm::Module> run() {
    emit_plan();
    emit_prepare();
    for (int rows = 1; rows <= plan_.max_block_rows; ++rows) emit_block(rows);
    emit_dispatch();
    emit_finish();
    emit_multiply();
    return std::move(module_);
  }

 private:
  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }

  // `pointers` pointers, then `numbers` i64; the builder stands in its entry block.
  llvm::Function* begin_function(const std::string& name, unsigned pointers, unsigned numbers,
                                 bool is_entry) {
    std::vector<llvm::Type*> types(pointers, ir_.getPtrTy());
    types.insert(types.end(), numbers, ir_.getInt64Ty());
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(ir_.getVoidTy(), types, false),
        is_entry ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage, name,
        *module_);
    prepare_function(*function, target_);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", function));
    return function;
  }

  Value* pointer(Value* arguments, std::size_t offset) {
    return load_pointer(b_, arguments, offset);
  }
  Value* number(Value* arguments, std::size_t offset) { return load_number(b_, arguments, offset); }

  // Calls cases[i] where value is first + i.
  void emit_switch(Value* value, std::int64_t first,
                   const std::vector<std::function<void()>>& cases) {
    llvm::Function* function = ir_.GetInsertBlock()->getParent();
    auto* after = llvm::BasicBlock::Create(ir_.getContext(), "after", function);
    llvm::SwitchInst* choice = ir_.CreateSwitch(value, after);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      auto* block = llvm::BasicBlock::Create(ir_.getContext(), "case", function);
      choice->addCase(ir_.getInt64(static_cast<std::uint64_t>(first) + i), block);
      ir_.SetInsertPoint(block);
      cases[i]();
      ir_.CreateBr(after);
    }
    ir_.SetInsertPoint(after);
  }

  void emit_plan() {
    llvm::Function* function = begin_function("plan", 1, 0, true);
    const auto set = [&](std::size_t offset, std::int64_t value) {
      ir_.CreateAlignedStore(constant(value),
                             b_.at(function->getArg(0), static_cast<std::int64_t>(offset)),
                             llvm::Align(8));
    };
    set(offsetof(ProductPlan, max_block_rows), plan_.max_block_rows);
    set(offsetof(ProductPlan, unit), plan_.unit);
    set(offsetof(ProductPlan, unit_bytes), plan_.unit_bytes);
    set(offsetof(ProductPlan, row_bytes), plan_.row_bytes);
    ir_.CreateRetVoid();
  }

  // How the rows of a call are cut: the first `larger` blocks have smaller_rows + 1 rows.
  struct Cut {
    Value* smaller_rows;
    Value* larger;
  };
  Cut cut(Value* arguments) {
    Value* rows = number(arguments, offsetof(ProductArguments, rows));
    Value* most = constant(plan_.max_block_rows);
    Value* blocks = ir_.CreateUDiv(ir_.CreateAdd(rows, ir_.CreateSub(most, constant(1))), most);
    return {ir_.CreateUDiv(rows, blocks), ir_.CreateURem(rows, blocks)};
  }

  struct Block {
    Value* first;
    Value* rows;
  };
  Block block_at(const Cut& cut, Value* index) {
    Value* before = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, cut.larger);
    Value* is_larger = ir_.CreateZExt(ir_.CreateICmpSLT(index, cut.larger), ir_.getInt64Ty());
    return {ir_.CreateAdd(ir_.CreateMul(index, cut.smaller_rows), before),
            ir_.CreateAdd(cut.smaller_rows, is_larger)};
  }

  Value* units(Value* arguments) {
    Value* k = number(arguments, offsetof(ProductArguments, k));
    return ir_.CreateUDiv(ir_.CreateAdd(k, constant(plan_.unit - 1)), constant(plan_.unit));
  }
  Value* prepared_row_bytes(Value* units) {
    return ir_.CreateAdd(ir_.CreateMul(units, constant(plan_.unit_bytes)),
                         constant(plan_.row_bytes));
  }

  void emit_prepare() {
    llvm::Function* function = begin_function("prepare", 1, 2, true);
    Value* arguments = function->getArg(0);
    const Cut rows = cut(arguments);
    Value* x = pointer(arguments, offsetof(ProductArguments, x));
    Value* x_index = pointer(arguments, offsetof(ProductArguments, x_index));
    Value* x_stride = number(arguments, offsetof(ProductArguments, x_stride));
    Value* prepared = pointer(arguments, offsetof(ProductArguments, prepared));
    Value* k = number(arguments, offsetof(ProductArguments, k));
    Value* row_bytes = prepared_row_bytes(units(arguments));
    emit_loop(ir_, function->getArg(1), function->getArg(2), 1, [&](Value* index) {
      const Block block = block_at(rows, index);
      PreparedBlock to;
      to.memory = b_.at(prepared, ir_.CreateMul(block.first, row_bytes));
      to.rows = block.rows;
      to.k = k;
      to.source = [&](Value* r) {
        Value* row = indexed_row(b_, x_index, ir_.CreateAdd(block.first, r));
        return b_.at(x, ir_.CreateMul(row, x_stride));
      };
      emit_prepare_block(b_, layout_, to);
    });
    ir_.CreateRetVoid();
  }

  // block_R: the sums of R prepared rows and a whole panel.
  //   arguments: prepared rows, panel, tile, units
  void emit_block(int rows) {
    llvm::Function* function = begin_function("block_" + std::to_string(rows), 3, 1, false);
    MatmulBlock block = choose_block(target_, layout_, rows);
    assert(block.rows == rows);
    const int columns = block.vectors * b_.lanes();
    for (int first = 0; first < kPanelColumns; first += columns) {
      const Values sums = emit_prepared_product(b_, block, function->getArg(0), function->getArg(1),
                                                first, function->getArg(3));
      for (int row = 0; row < rows; ++row) {
        for (int v = 0; v < block.vectors; ++v) {
          const std::int64_t column = first + v * b_.lanes();
          b_.store(Element::kF32, sums[static_cast<std::size_t>(row * block.vectors + v)],
                   b_.at(function->getArg(2), row * kTileRowBytes + column * 4));
        }
      }
    }
    ir_.CreateRetVoid();
    blocks_.push_back(function);
  }

  // block: the same for any number of rows up to max_block_rows, the last argument.
  void emit_dispatch() {
    dispatch_ = begin_function("block", 3, 2, false);
    std::vector<std::function<void()>> cases;
    for (llvm::Function* block : blocks_) {
      cases.emplace_back([this, block] {
        ir_.CreateCall(block, {dispatch_->getArg(0), dispatch_->getArg(1), dispatch_->getArg(2),
                               dispatch_->getArg(3)});
      });
    }
    emit_switch(dispatch_->getArg(4), 1, cases);
    ir_.CreateRetVoid();
  }

  // finish: the epilogue of a block.
  //   arguments: ProductArguments, tile, second tile, strip, first row, rows
  void emit_finish() {
    finish_ = begin_function("finish", 3, 3, false);
    EpilogueBlock block;
    block.arguments = finish_->getArg(0);
    block.tile = finish_->getArg(1);
    block.second_tile = finish_->getArg(2);
    block.strip = finish_->getArg(3);
    block.first_row = finish_->getArg(4);
    block.rows = finish_->getArg(5);
    std::vector<std::function<void()>> cases;
    for (int i = 0; i < kEpilogues; ++i) {
      cases.emplace_back([this, i, block] { emit_epilogue(b_, static_cast<Epilogue>(i), block); });
    }
    emit_switch(number(block.arguments, offsetof(ProductArguments, epilogue)), 0, cases);
    ir_.CreateRetVoid();
  }

  Value* stack_tile() {
    llvm::AllocaInst* tile =
        ir_.CreateAlloca(ir_.getInt8Ty(), constant(plan_.max_block_rows * kTileRowBytes));
    tile->setAlignment(llvm::Align(64));
    return tile;
  }

  void emit_multiply() {
    llvm::Function* function = begin_function("multiply", 1, 4, true);
    Value* arguments = function->getArg(0);
    Value* tile = stack_tile();
    Value* second_tile = stack_tile();
    const Cut rows = cut(arguments);
    Value* weight = pointer(arguments, offsetof(ProductArguments, weight));
    Value* prepared = pointer(arguments, offsetof(ProductArguments, prepared));
    Value* n_units = units(arguments);
    Value* row_bytes = prepared_row_bytes(n_units);
    const PackedShape shape{layout_, 0, 0};
    Value* panel_bytes = ir_.CreateAdd(
        ir_.CreateMul(n_units, constant(static_cast<std::int64_t>(shape.group_bytes()))),
        constant(static_cast<std::int64_t>(scale_bytes(layout_))));
    Value* epilogue = number(arguments, offsetof(ProductArguments, epilogue));
    Value* in_pairs =
        ir_.CreateICmpEQ(epilogue, constant(static_cast<std::int64_t>(Epilogue::kSwiglu)));
    Value* panels = ir_.CreateSelect(in_pairs, constant(2), constant(1));
    Value* strip_bytes = ir_.CreateMul(panel_bytes, panels);

    emit_loop(ir_, function->getArg(1), function->getArg(2), 1, [&](Value* strip) {
      Value* panel = b_.at(weight, ir_.CreateMul(strip, strip_bytes));
      emit_loop(ir_, function->getArg(3), function->getArg(4), 1, [&](Value* block) {
        const Block at = block_at(rows, block);
        Value* operand = b_.at(prepared, ir_.CreateMul(at.first, row_bytes));
        // The gate's sums, then those of up.
        emit_loop(ir_, constant(0), panels, 1, [&](Value* which) {
          Value* to = ir_.CreateSelect(ir_.CreateICmpEQ(which, constant(0)), tile, second_tile);
          ir_.CreateCall(dispatch_, {operand, b_.at(panel, ir_.CreateMul(which, panel_bytes)), to,
                                     n_units, at.rows});
        });
        ir_.CreateCall(finish_, {arguments, tile, second_tile, strip, at.first, at.rows});
      });
    });
    ir_.CreateRetVoid();
  }

  PanelLayout layout_;
  Target target_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> ir_;
  VectorBuilder b_;
  ProductPlan plan_;
  std::vector<llvm::Function*> blocks_;
  llvm::Function* dispatch_ = nullptr;
  llvm::Function* finish_ = nullptr;
};

}  // namespace

std::unique_ptr<llvm::Module> lower_product(std::string_view layout, std::string_view,
                                            const Target& target, llvm::LLVMContext& context) {
  const std::optional<PanelLayout> known = parse_panel_layout(layout);
  if (!known) fail(ErrorCode::kCompiler, "there is no weight layout named {}", layout);
  return ProductLowering(*known, target, context).run();
}

}  // namespace tessera::tile::cpu
