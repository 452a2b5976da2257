#include "ops/verify/draw_inputs.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/convert.h"
#include "io/quote.h"
#include "ops/verify/draw.h"

namespace tessera::ops::verify {

namespace {

template <typename Tensors>
void allow(const Case& c, std::string_view kind, const Tensors& tensors,
           std::initializer_list<std::string_view> allowed) {
  for (const auto& [name, tensor] : tensors) {
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    c.refuse(fmt::format("{} has no {} {}; it has {}", c.op, kind, in_quotes(name),
                         fmt::join(allowed, ", ")));
  }
}

Guarded guarded(const std::vector<float>& values) {
  Guarded memory(values.size() * sizeof(float));
  std::memcpy(memory.data(), values.data(), values.size() * sizeof(float));
  return memory;
}

// A drawn table has one number per pair, whatever its width: its second half, which models fill
// with the same angles once more, is not read.
Guarded drawn_table(const Case& c, const std::string& name, std::int64_t n_positions,
                    std::int64_t pairs) {
  const std::int64_t width = c.input(name).shape[1];
  const std::vector<float> all = draw(c, name);
  std::vector<float> values;
  for (std::int64_t p = 0; p < n_positions; ++p) {
    const auto row = all.begin() + p * width;
    values.insert(values.end(), row, row + pairs);
  }
  return guarded(values);
}

std::vector<std::int64_t> token_positions(const Case& c, std::int64_t batch, std::int64_t seq,
                                          std::int64_t n_positions) {
  if (!c.positions) {
    if (n_positions < batch * seq) {
      c.refuse(fmt::format("without pos_ids, cos needs a row for each of {} tokens, but has {}",
                           batch * seq, n_positions));
    }
    return {};
  }
  expect_shape(c, "pos_ids", c.positions->shape, {batch, seq});
  if (!c.positions->values.empty()) {
    const std::int64_t last = std::ranges::max(c.positions->values);
    if (last >= n_positions) {
      c.refuse(fmt::format("pos_ids has the value {}, but cos has {} rows", last, n_positions));
    }
    return c.positions->values;
  }
  if (n_positions < seq) {
    c.refuse(fmt::format("cos has {} rows, too few for a sequence of {} tokens", n_positions, seq));
  }
  const Stream stream(c.seed, "pos_ids");
  std::vector<std::int64_t> positions;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto choices = static_cast<std::uint64_t>(n_positions - seq + 1);
    const auto first =
        static_cast<std::int64_t>(stream.bits(static_cast<std::uint64_t>(b)) % choices);
    for (std::int64_t s = 0; s < seq; ++s) positions.push_back(first + s);
  }
  return positions;
}

}  // namespace

void allow_tensors(const Case& c, std::initializer_list<std::string_view> inputs,
                   std::initializer_list<std::string_view> outputs) {
  allow(c, "input", c.inputs, inputs);
  allow(c, "output", c.outputs, outputs);
}

void expect_shape(const Case& c, const std::string& name, const Shape& shape, const Shape& wanted) {
  if (shape == wanted) return;
  c.refuse(fmt::format("{} has the shape {}, but the other tensors ask for {}", name,
                       to_string(shape), to_string(wanted)));
}

void expect_rank(const Case& c, const std::string& name, const Shape& shape,
                 std::string_view wanted) {
  if (std::ssize(shape) == std::ranges::count(wanted, ',') + 1) return;
  c.refuse(fmt::format("{} has the shape {}, but must be {}", name, to_string(shape), wanted));
}

std::vector<float> draw(const Case& c, const std::string& name, double default_scale) {
  const InputTensor& tensor = c.input(name);
  std::vector<float> values =
      Stream(c.seed, name).normal(n_elements(tensor.shape), tensor.scale.value_or(default_scale));
  if (tensor.dtype == DType::kF32) return values;
  std::vector<std::uint16_t> stored(values.size());
  convert(values.data(), DType::kF32, stored.data(), tensor.dtype, values.size());
  convert(stored.data(), tensor.dtype, values.data(), DType::kF32, values.size());
  return values;
}

Guarded draw_floats(const Case& c, const std::string& name) {
  return guarded(draw(c, name));
}

RopeTables::RopeTables(const Case& c, std::int64_t batch, std::int64_t seq, std::int64_t rope)
    : pairs(rope / 2) {
  const Shape& shape = c.input("cos").shape;
  expect_rank(c, "cos", shape, "[positions, rope]");
  n_positions = shape[0];
  if (shape[1] != pairs) expect_shape(c, "cos", shape, {n_positions, rope});
  expect_shape(c, "sin", c.input("sin").shape, shape);
  positions = token_positions(c, batch, seq, n_positions);

  if (!c.tables) {
    cos = drawn_table(c, "cos", n_positions, pairs);
    sin = drawn_table(c, "sin", n_positions, pairs);
    return;
  }
  RopeParameters parameters = *c.tables;
  parameters.dim = rope;
  const RopeFrequencies frequencies(parameters);
  const auto n = static_cast<std::size_t>(pairs);
  cos = Guarded(static_cast<std::size_t>(n_positions) * n * sizeof(float));
  sin = Guarded(static_cast<std::size_t>(n_positions) * n * sizeof(float));
  for (std::int64_t p = 0; p < n_positions; ++p) {
    frequencies.cos_sin(p, {cos.as<float>() + p * pairs, n}, {sin.as<float>() + p * pairs, n});
  }
}

}  // namespace tessera::ops::verify
