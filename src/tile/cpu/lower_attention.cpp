#include "tile/cpu/lower_attention.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <tessera/dtype.h>

#include "base/fail.h"
#include "tile/cpu/attention_emitter.h"
#include "tile/cpu/product_epilogue.h"

namespace tessera::tile::cpu {

using llvm::Value;

// The rows of 256 tokens in bf16 or 128 in fp32 are 0.3 MB at V2's sizes. Widened rows lie in
// memory besides the cache's own, and CPUs without the dot product have smaller second-level
// caches.
std::int64_t AttentionForm::block_pages() const {
  if (expanded) return 1;
  const std::int64_t tokens = dot ? 256 : widens() ? 64 : 128;
  return std::max<std::int64_t>(1, tokens / page_tokens);
}

namespace {

AttentionForm parse_form(std::string_view shape, const Target& target) {
  std::istringstream words{std::string(shape)};
  std::string dtype;
  std::int64_t rope = 0;
  AttentionForm form;
  words >> dtype >> form.latent >> rope >> form.page_tokens;
  const bool is_known = dtype == to_string(DType::kBF16) || dtype == to_string(DType::kF32);
  if (!words || !is_known || form.latent < 1 || rope < 0 || form.page_tokens < 2 ||
      form.page_tokens % 2 != 0) {
    fail(ErrorCode::kCompiler, "attention cannot be generated for a cache of shape {}", shape);
  }
  form.is_bf16 = dtype == to_string(DType::kBF16);
  form.dot = form.is_bf16 && target.bf16_dot;
  form.row_values = form.latent + rope;
  return form;
}

// Keys and values are expanded into bf16 where there is a dot product for it, else into fp32:
// nothing is widened.
AttentionForm parse_expanded_form(std::string_view shape, const Target& target) {
  std::istringstream words{std::string(shape)};
  std::string dtype;
  AttentionForm form;
  words >> dtype >> form.row_values >> form.latent >> form.page_tokens;
  const bool is_known = dtype == to_string(DType::kBF16) || dtype == to_string(DType::kF32);
  if (!words || !is_known || form.row_values < 1 || form.latent < 1 || form.page_tokens < 2 ||
      form.page_tokens % 2 != 0) {
    fail(ErrorCode::kCompiler, "expanded attention cannot be generated for the shape {}", shape);
  }
  form.is_bf16 = form.dot = dtype == to_string(DType::kBF16) && target.bf16_dot;
  form.expanded = true;
  return form;
}

class AttentionLowering {
 public:
  AttentionLowering(const AttentionForm& form, const Target& target, llvm::LLVMContext& context)
      : form_(form), m_("attention", target, context), b_(m_.b()), ir_(m_.ir()) {}

  std::unique_ptr<llvm::Module> run() {
    emit_plan();
    llvm::Function* pack = m_.begin_entry("pack", 1, 0);
    emit_pack_query(m_, form_, pack->getArg(0));
    ir_.CreateRetVoid();
    for (int tokens = 1; tokens <= score_tokens(b_.target()); ++tokens) emit_score_block(tokens);
    emit_attend();
    emit_merge();
    emit_finish();
    return m_.take();
  }

 private:
  Value* constant(std::int64_t value) { return m_.constant(value); }
  Value* pointer(std::size_t offset) { return load_pointer(b_, arguments_, offset); }

  void emit_plan() {
    llvm::Function* function = m_.begin_entry("plan", 1, 0);
    const auto set = [&](std::size_t offset, std::int64_t value) {
      ir_.CreateAlignedStore(constant(value),
                             b_.at(function->getArg(0), static_cast<std::int64_t>(offset)),
                             llvm::Align(8));
    };
    set(offsetof(AttentionPlan, block_pages), form_.block_pages());
    set(offsetof(AttentionPlan, packed_bytes), form_.units() * kGroupBytes);
    set(offsetof(AttentionPlan, scratch_bytes), form_.scratch_bytes());
    set(offsetof(AttentionPlan, state_bytes), form_.state_bytes());
    set(offsetof(AttentionPlan, element_bytes), form_.value_bytes());
    ir_.CreateRetVoid();
  }

  // scores_N: of N tokens.
  //   arguments: AttentionBlock, rows, scores, next rows; number of the first token
  void emit_score_block(int tokens) {
    llvm::Function* function = m_.begin_internal("scores_" + std::to_string(tokens), 4, 1);
    arguments_ = function->getArg(0);
    ScoreBlock block;
    block.tokens = tokens;
    block.rows = function->getArg(1);
    block.query = pointer(offsetof(AttentionBlock, packed));
    block.scale = b_.at(arguments_, offsetof(AttentionBlock, scale));
    block.scores = function->getArg(2);
    block.largest = pointer(offsetof(AttentionBlock, state));
    block.next = function->getArg(3);
    if (form_.expanded) {
      block.limits = pointer(offsetof(AttentionBlock, limits));
      block.first = function->getArg(4);
    }
    emit_scores(b_, form_, block);
    ir_.CreateRetVoid();
    score_blocks_.push_back(function);
  }

  void emit_attend() {
    llvm::Function* function = m_.begin_entry("attend", 1, 0);
    arguments_ = function->getArg(0);
    Value* scratch = pointer(offsetof(AttentionBlock, scratch));
    Value* state = pointer(offsetof(AttentionBlock, state));
    Value* pages = pointer(offsetof(AttentionBlock, pages));
    Value* tokens = load_number(b_, arguments_, offsetof(AttentionBlock, tokens));
    Value* n_pages = ir_.CreateUDiv(ir_.CreateAdd(tokens, constant(form_.page_tokens - 1)),
                                    constant(form_.page_tokens));
    Value* widened = b_.at(scratch, form_.widened_offset());
    const auto stored = [&](Value* index) -> Value* {
      return ir_.CreateAlignedLoad(ir_.getPtrTy(), b_.at(pages, ir_.CreateMul(index, constant(8))),
                                   llvm::Align(8));
    };
    const auto page = [&](Value* index) {
      if (!form_.widens()) return stored(index);
      return b_.at(widened, ir_.CreateMul(index, constant(form_.page_tokens * form_.row_bytes())));
    };

    // A lane that sees nothing keeps this: finite, so that its weights and its factor in a merge
    // become 0.
    const float lowest = form_.expanded ? std::numeric_limits<float>::lowest()
                                        : -std::numeric_limits<float>::infinity();
    for (std::int64_t head = 0; head < kHeadGroup; head += b_.lanes()) {
      b_.store(Element::kF32, b_.constant(lowest), b_.at(state, head * 4));
    }
    emit_loop(ir_, constant(0), n_pages, 1, [&](Value* index) {
      Value* n = page_tokens(b_, form_, tokens, index);
      if (form_.widens()) widen(stored(index), page(index), n);
      Value* last = ir_.CreateSub(n_pages, constant(1));
      Value* following =
          ir_.CreateSelect(ir_.CreateICmpSLT(index, last),
                           page(ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                          ir_.CreateAdd(index, constant(1)), last)),
                           pointer(offsetof(AttentionBlock, next)));
      score_page(page(index), n, ir_.CreateMul(index, constant(form_.page_tokens)), scratch,
                 following);
    });

    WeightBlock weights;
    weights.scores = scratch;
    weights.weights = b_.at(scratch, form_.weights_offset());
    weights.tokens = tokens;
    weights.largest = state;
    weights.sum = b_.at(state, form_.sum_offset());
    emit_weights(b_, form_, weights);

    OutputBlock outputs;
    outputs.page = page;
    if (form_.expanded) {
      Value* values = pointer(offsetof(AttentionBlock, value_pages));
      outputs.page = [this, values](Value* index) -> Value* {
        return ir_.CreateAlignedLoad(
            ir_.getPtrTy(), b_.at(values, ir_.CreateMul(index, constant(8))), llvm::Align(8));
      };
    }
    outputs.pages = n_pages;
    outputs.tokens = tokens;
    outputs.weights = weights.weights;
    outputs.outputs = b_.at(state, form_.outputs_offset());
    emit_outputs(b_, form_, outputs);
    ir_.CreateRetVoid();
  }

  // n rows of bf16 to fp32; rows of a page are contiguous.
  void widen(Value* from, Value* to, Value* n) {
    Value* count = ir_.CreateMul(n, constant(form_.row_values));
    Value* vectors = ir_.CreateSub(count, ir_.CreateURem(count, constant(b_.lanes())));
    const auto source = [&](Value* i) { return b_.at(from, ir_.CreateMul(i, constant(2))); };
    const auto target = [&](Value* i) { return b_.at(to, ir_.CreateMul(i, constant(4))); };
    emit_loop(ir_, constant(0), vectors, b_.lanes(), [&](Value* i) {
      b_.store(Element::kF32, b_.load(Element::kBF16, source(i)), target(i));
    });
    emit_loop(ir_, vectors, count, 1, [&](Value* i) {
      b_.store_scalar(Element::kF32, b_.load_scalar(Element::kBF16, source(i)), target(i));
    });
  }

  // The scores of a page's first n tokens, in as few blocks as possible, whose sizes differ by one
  // at most: small blocks wait for their sums. `following`: the rows after these; `before`: tokens
  // of earlier pages, whose scores lie before these.
  void score_page(Value* rows, Value* n, Value* before, Value* scores, Value* following) {
    const std::int64_t most = std::ssize(score_blocks_);
    Value* blocks = ir_.CreateUDiv(ir_.CreateAdd(n, constant(most - 1)), constant(most));
    Value* smaller = ir_.CreateUDiv(n, blocks);
    Value* larger = ir_.CreateURem(n, blocks);  // blocks that have one token more
    emit_loop(ir_, constant(0), blocks, 1, [&](Value* index) {
      const auto first_of = [&](Value* block) {
        return ir_.CreateAdd(ir_.CreateMul(block, smaller),
                             ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, block, larger));
      };
      const auto row = [&](Value* token) {
        return b_.at(rows, ir_.CreateMul(token, constant(form_.row_bytes())));
      };
      Value* first = first_of(index);
      Value* end = first_of(ir_.CreateAdd(index, constant(1)));
      Value* next = ir_.CreateSelect(ir_.CreateICmpSLT(end, n), row(end), following);
      Value* token = ir_.CreateAdd(before, first);
      Value* to = b_.at(scores, ir_.CreateMul(token, constant(kGroupBytes)));
      std::vector<std::function<void()>> cases;
      for (llvm::Function* block : score_blocks_) {
        cases.emplace_back(
            [&, block] { ir_.CreateCall(block, {arguments_, row(first), to, next, token}); });
      }
      m_.choose(ir_.CreateSub(end, first), 1, cases);
    });
  }

  // Addresses of a head's numbers in a state.
  struct HeadState {
    Value* largest;
    Value* sum;
    Value* outputs;
  };
  HeadState head_state(Value* state, Value* head) {
    Value* largest = b_.at(state, ir_.CreateMul(head, constant(4)));
    return {largest, b_.at(largest, form_.sum_offset()),
            b_.at(b_.at(state, form_.outputs_offset()),
                  ir_.CreateMul(head, constant(form_.output_bytes())))};
  }

  void emit_merge() {
    llvm::Function* function = m_.begin_entry("merge", 2, 2);
    emit_loop(ir_, function->getArg(2), function->getArg(3), 1, [&](Value* head) {
      const HeadState into = head_state(function->getArg(0), head);
      const HeadState other = head_state(function->getArg(1), head);
      Value* a = b_.broadcast(Element::kF32, into.largest);
      Value* c = b_.broadcast(Element::kF32, other.largest);
      Value* largest = b_.maximum(a, c);
      a = b_.exp(b_.sub(a, largest));
      c = b_.exp(b_.sub(c, largest));
      const auto both = [&](Value* first, Value* second) {
        return b_.mul_add(second, c, b_.mul(first, a));
      };
      Value* sum =
          both(b_.broadcast(Element::kF32, into.sum), b_.broadcast(Element::kF32, other.sum));
      const auto first_of = [&](Value* v) { return ir_.CreateExtractElement(v, std::uint64_t{0}); };
      b_.store_scalar(Element::kF32, first_of(largest), into.largest);
      b_.store_scalar(Element::kF32, first_of(sum), into.sum);
      const std::int64_t vectors = (form_.latent + b_.lanes() - 1) / b_.lanes();
      const std::int64_t vector_bytes = b_.target().vector_bytes;
      emit_loop(ir_, constant(0), constant(vectors * vector_bytes), vector_bytes,
                [&](Value* offset) {
                  Value* to = b_.at(into.outputs, offset);
                  b_.store(Element::kF32,
                           both(b_.load(Element::kF32, to),
                                b_.load(Element::kF32, b_.at(other.outputs, offset))),
                           to);
                });
    });
    ir_.CreateRetVoid();
  }

  void emit_finish() {
    llvm::Function* function = m_.begin_entry("finish", 2, 3);
    const std::int64_t whole = form_.latent / b_.lanes() * b_.lanes();
    emit_loop(ir_, function->getArg(3), function->getArg(4), 1, [&](Value* head) {
      const HeadState state = head_state(function->getArg(0), head);
      Value* out = b_.at(function->getArg(1), ir_.CreateMul(head, function->getArg(2)));
      Value* factor = b_.div(b_.constant(1.0f), b_.broadcast(Element::kF32, state.sum));
      emit_loop(ir_, constant(0), constant(whole), b_.lanes(), [&](Value* column) {
        Value* offset = ir_.CreateMul(column, constant(4));
        Value* output = b_.load(Element::kF32, b_.at(state.outputs, offset));
        b_.store(Element::kF32, b_.mul(output, factor), b_.at(out, offset));
      });
      Value* scalar = ir_.CreateExtractElement(factor, std::uint64_t{0});
      for (std::int64_t column = whole; column < form_.latent; ++column) {
        Value* output = b_.load_scalar(Element::kF32, b_.at(state.outputs, column * 4));
        b_.store_scalar(Element::kF32, b_.mul(output, scalar), b_.at(out, column * 4));
      }
    });
    ir_.CreateRetVoid();
  }

  AttentionForm form_;
  ModuleBuilder m_;
  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  Value* arguments_ = nullptr;  // AttentionBlock of the function being emitted
  std::vector<llvm::Function*> score_blocks_;
};

}  // namespace

std::unique_ptr<llvm::Module> lower_attention(std::string_view shape, std::string_view,
                                              const Target& target, llvm::LLVMContext& context) {
  return AttentionLowering(parse_form(shape, target), target, context).run();
}

std::unique_ptr<llvm::Module> lower_expanded_attention(std::string_view shape, std::string_view,
                                                       const Target& target,
                                                       llvm::LLVMContext& context) {
  return AttentionLowering(parse_expanded_form(shape, target), target, context).run();
}

}  // namespace tessera::tile::cpu
