#include "ops/verify/verify.h"

#include <algorithm>
#include <utility>

namespace tessera::ops::verify {

namespace {

Shape index_in(const Shape& shape, std::int64_t flat) {
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

}  // namespace

bool Report::pass() const {
  return ran() && std::ranges::all_of(outputs, [](const OutputReport& o) { return o.pass; });
}

Verification::Verification(Case c, std::unique_ptr<Fixture> fixture, Executor& executor)
    : case_(std::move(c)), fixture_(std::move(fixture)) {
  for (const auto& [name, output] : case_.outputs) {
    golden_.emplace_back(name, output.shape, DType::kF32);
  }
  fixture_->run("reference", golden_, executor);
}

std::vector<OutputMemory> Verification::run(std::string_view implementation,
                                            Executor& executor) const {
  std::vector<OutputMemory> outputs;
  for (const auto& [name, output] : case_.outputs) {
    outputs.emplace_back(name, output.shape, output.dtype);
  }
  fixture_->run(implementation, outputs, executor);
  for (OutputMemory& output : outputs) {
    if (!output.memory.intact()) output.fault = "wrote before or after the tensor";
  }
  return outputs;
}

Report Verification::check(std::string_view implementation, Executor& executor) const {
  Report report{
      case_.op, case_.id, std::string(implementation), fixture_->unsupported(implementation), {}};
  if (!report.ran()) return report;
  const std::vector<OutputMemory> outputs = run(implementation, executor);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputMemory& output = outputs[i];
    const auto n = static_cast<std::size_t>(n_elements(output.shape));
    const Measure m =
        measure(output.memory.bytes(), output.dtype, {golden_[i].memory.as<float>(), n},
                case_.output(output.name).tolerance);
    report.outputs.push_back({output.name, output.shape, output.dtype, m,
                              index_in(output.shape, m.worst), output.fault,
                              output.fault.empty() && passes(m, output.dtype)});
  }
  return report;
}

}  // namespace tessera::ops::verify
