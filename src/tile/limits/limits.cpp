#include "tile/limits/limits.h"

#include <string>

#include "tile/call/shared_cache.h"
#include "tile/jit/compiler.h"

namespace tessera::tile {

Dot dot_of(cpu::PanelLayout layout) {
  if (cpu::is_quantised(layout)) return Dot::kI8;
  return layout == cpu::PanelLayout::kBF16 ? Dot::kBF16 : Dot::kF32;
}

std::string_view to_string(Dot dot) {
  switch (dot) {
    case Dot::kF32:
      return "f32";
    case Dot::kBF16:
      return "bf16";
    case Dot::kI8:
      return "i8";
  }
  return {};
}

Limits::Limits() {
  CompileRequest request;
  request.front_end = "limits";
  request.name = "limits of the machine";
  request.cpu = target_cpu_from_environment();
  code_ = shared_cache()->get(request);
  code_->function<LimitsPlanFunction>("plan")(&plan_);
  read_ = code_->function<LimitsReadFunction>("read");
  for (Dot dot : kDots) {
    dot_[static_cast<std::size_t>(dot)] =
        code_->function<LimitsDotFunction>("dot_" + std::string(to_string(dot)));
  }
}

void Limits::read(const std::byte* memory, std::int64_t begin, std::int64_t end) const {
  alignas(64) std::byte sink[64];
  read_(memory, sink, begin, end);
}

void Limits::compute(Dot dot, std::int64_t turns) const {
  alignas(64) const std::byte operands[kOperandBytes] = {};
  alignas(64) std::byte sums[kMostSumsBytes];
  dot_[static_cast<std::size_t>(dot)](operands, sums, 0, turns);
}

}  // namespace tessera::tile
