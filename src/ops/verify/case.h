// Test cases of operators, as files describe them (docs/commands/verify.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/error.h>

#include "ops/rope/rope.h"

namespace tessera::ops::verify {

using Shape = std::vector<std::int64_t>;

std::string to_string(const Shape& shape);  // "[1, 16, 1, 128]"
std::int64_t n_elements(const Shape& shape);

// A difference of at most atol + rtol * |expected| passes.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

struct InputTensor {
  Shape shape;
  DType dtype = DType::kF32;
  std::optional<double> scale;  // of the numbers drawn; without it, the operator's own
};

struct OutputTensor {
  Shape shape;
  DType dtype = DType::kF32;
  Tolerance tolerance;
};

// Where the tokens stand. Without values, sequence b begins at a position that is drawn, and its
// tokens follow one another.
struct PositionIds {
  Shape shape;  // [batch, seq]
  std::vector<std::int64_t> values;
};

struct Case {
  std::string file;  // what errors call it
  std::string op;
  std::string id;
  std::string description;
  std::int64_t seed = 0;
  std::map<std::string, InputTensor> inputs;
  std::map<std::string, OutputTensor> outputs;
  std::optional<PositionIds> positions;
  double eps = 0;
  RopeLayout layout = RopeLayout::kInterleaved;
  std::optional<RopeParameters> tables;  // cos and sin as a model computes them, instead of drawn

  // Throw Error(kBadCases): the tensor is not there.
  const InputTensor& input(const std::string& name) const;
  const OutputTensor& output(const std::string& name) const;
  bool has_input(const std::string& name) const { return inputs.contains(name); }
  bool has_output(const std::string& name) const { return outputs.contains(name); }

  // Throws Error(kBadCases): `FILE: case "ID": REASON`.
  [[noreturn]] void refuse(const std::string& reason) const;
};

// Every case of a file. Throws what JsonObject throws, values with Error(kBadCases): one sentence
// that names the file and the key. Ids are different from one another.
std::vector<Case> read_cases(const std::filesystem::path& path);
std::vector<Case> parse_cases(std::string_view text, const std::string& name);

// The cases that come with the operators.
std::vector<Case> builtin_cases();

}  // namespace tessera::ops::verify
