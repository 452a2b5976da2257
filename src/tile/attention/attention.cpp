#include "tile/attention/attention.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "tile/call/shared_cache.h"
#include "tile/jit/compiler.h"

namespace tessera::tile {

Attention::Attention(std::string front_end, std::string shape) {
  CompileRequest request;
  request.front_end = std::move(front_end);
  request.ir = std::move(shape);
  request.name = request.front_end + " " + request.ir;
  request.cpu = target_cpu_from_environment();
  code_ = shared_cache()->get(request);
  code_->function<AttentionPlanFunction>("plan")(&plan_);
  pack_ = code_->function<AttentionPackFunction>("pack");
  attend_ = code_->function<AttentionAttendFunction>("attend");
  merge_ = code_->function<AttentionMergeFunction>("merge");
  finish_ = code_->function<AttentionFinishFunction>("finish");
}

Attention::Attention(const AttentionShape& shape)
    : Attention("attention", fmt::format("{} {} {} {}", to_string(shape.dtype), shape.latent_dim,
                                         shape.rope_dim, shape.page_tokens)) {}

Attention::Attention(const ExpandedAttentionShape& shape)
    : Attention("expanded attention",
                fmt::format("{} {} {} {}", to_string(shape.cache), shape.key_dim, shape.value_dim,
                            shape.block_tokens)) {}

namespace {

template <typename Shape>
const Attention& shared(const Shape& shape) {
  static std::mutex mutex;
  static std::map<Shape, Attention> made;
  const std::lock_guard lock(mutex);
  const auto found = made.find(shape);
  return found != made.end() ? found->second : made.emplace(shape, shape).first->second;
}

}  // namespace

const Attention& shared_attention(const AttentionShape& shape) {
  return shared(shape);
}

const Attention& shared_attention(const ExpandedAttentionShape& shape) {
  return shared(shape);
}

}  // namespace tessera::tile
