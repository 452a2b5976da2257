#include "tile/attention/attention.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "tile/call/shared_cache.h"
#include "tile/jit/compiler.h"

namespace tessera::tile {

Attention::Attention(const AttentionShape& shape) {
  CompileRequest request;
  request.front_end = "attention";
  request.ir = fmt::format("{} {} {} {}", to_string(shape.dtype), shape.latent_dim, shape.rope_dim,
                           shape.page_tokens);
  request.name = "attention " + request.ir;
  request.cpu = target_cpu_from_environment();
  code_ = shared_cache()->get(request);
  code_->function<AttentionPlanFunction>("plan")(&plan_);
  pack_ = code_->function<AttentionPackFunction>("pack");
  attend_ = code_->function<AttentionAttendFunction>("attend");
  merge_ = code_->function<AttentionMergeFunction>("merge");
  finish_ = code_->function<AttentionFinishFunction>("finish");
}

const Attention& shared_attention(const AttentionShape& shape) {
  static std::mutex mutex;
  static std::map<AttentionShape, Attention> made;
  const std::lock_guard lock(mutex);
  const auto found = made.find(shape);
  return found != made.end() ? found->second : made.emplace(shape, shape).first->second;
}

}  // namespace tessera::tile
