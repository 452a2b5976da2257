#include "ops/verify/case.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"
#include "ops/registry.h"

namespace tessera::ops::verify {

namespace {

constexpr std::int64_t kMaxDim = 1 << 24;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;

// The names in files of the original format, and ours.
constexpr struct {
  std::string_view name;
  DType dtype;
} kDTypes[] = {{"float32", DType::kF32}, {"bfloat16", DType::kBF16}, {"float16", DType::kF16},
               {"fp32", DType::kF32},    {"bf16", DType::kBF16},     {"fp16", DType::kF16}};

void allow_keys(const JsonObject& object, const std::string& what,
                std::initializer_list<std::string_view> allowed) {
  for (const std::string& name : object.keys()) {
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    fail(ErrorCode::kBadCases, "{}: {} has the key {}, but it may have only {}", object.name(),
         what, in_quotes(name), fmt::join(allowed, ", "));
  }
}

DType read_dtype(const JsonObject& tensor) {
  const std::string name = tensor.required_string("dtype");
  for (const auto& known : kDTypes) {
    if (name == known.name) return known.dtype;
  }
  tensor.refuse("dtype", "float32, bfloat16 or float16");
}

Shape read_shape(const JsonObject& tensor) {
  Shape shape = tensor.int_or_list("shape", 1, kMaxDim);
  if (shape.empty()) tensor.refuse("shape", "a list of dimensions");
  std::int64_t n = 1;
  for (std::int64_t dim : shape) {
    if (n > kMaxElements / dim) {
      fail(ErrorCode::kBadCases, "{}: a tensor of shape {} has more than 2^31 elements",
           tensor.name(), to_string(shape));
    }
    n *= dim;
  }
  return shape;
}

double read_not_negative(const JsonObject& object, std::string_view key) {
  const double value = object.required_number(key);
  if (value < 0) object.refuse(key, "a number from 0 up");
  return value;
}

Tolerance read_tolerance(const JsonObject& object, const Tolerance* otherwise) {
  const auto read = [&](std::string_view key, double Tolerance::* member) {
    return otherwise != nullptr && !object.has(key) ? otherwise->*member
                                                    : read_not_negative(object, key);
  };
  return {read("rtol", &Tolerance::rtol), read("atol", &Tolerance::atol)};
}

PositionIds read_positions(const JsonObject& tensor) {
  allow_keys(tensor, in_quotes("pos_ids"), {"shape", "dtype", "values"});
  if (tensor.required_string("dtype") != "int64") tensor.refuse("dtype", "int64");
  PositionIds positions{read_shape(tensor), tensor.int_or_list("values", 0, kMaxDim)};
  if (!positions.values.empty() && std::ssize(positions.values) != n_elements(positions.shape)) {
    tensor.refuse("values", fmt::format("a list of {} integers", n_elements(positions.shape)));
  }
  return positions;
}

RopeLayout read_layout(const JsonObject& object) {
  const std::string name = object.optional_string("rope_layout").value_or("interleaved");
  if (name == "interleaved") return RopeLayout::kInterleaved;
  if (name == "half_split") return RopeLayout::kHalfSplit;
  object.refuse("rope_layout", "interleaved or half_split");
}

RopeParameters read_tables(const JsonObject& object) {
  allow_keys(object, in_quotes("rope_tables"), {"theta", "yarn"});
  RopeParameters tables;
  tables.theta = object.required_positive("theta");
  if (const auto yarn = object.optional_object("yarn")) {
    allow_keys(
        *yarn, in_quotes("rope_tables.yarn"),
        {"factor", "original_context", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
    tables.yarn = {
        .factor = yarn->required_positive("factor"),
        .original_context = yarn->required_int("original_context", 1, JsonObject::kMaxInt),
        .beta_fast = yarn->required_positive("beta_fast"),
        .beta_slow = yarn->required_positive("beta_slow"),
        .mscale = yarn->required_number("mscale"),
        .mscale_all_dim = yarn->required_number("mscale_all_dim")};
  }
  return tables;
}

void read_inputs(const JsonObject& inputs, Case& result) {
  for (const std::string& name : inputs.keys()) {
    const JsonObject tensor = inputs.required_object(name);
    if (name == "eps") {
      allow_keys(tensor, in_quotes("eps"), {"value"});
      result.eps = read_not_negative(tensor, "value");
    } else if (name == "pos_ids") {
      result.positions = read_positions(tensor);
    } else {
      allow_keys(tensor, in_quotes(name), {"shape", "dtype", "scale"});
      result.inputs[name] = {read_shape(tensor), read_dtype(tensor),
                             tensor.optional_number("scale")};
    }
  }
}

void read_outputs(const JsonObject& outputs, const Tolerance& tolerance, Case& result) {
  for (const std::string& name : outputs.keys()) {
    const JsonObject tensor = outputs.required_object(name);
    allow_keys(tensor, in_quotes(name), {"shape", "dtype", "rtol", "atol"});
    result.outputs[name] = {read_shape(tensor), read_dtype(tensor),
                            read_tolerance(tensor, &tolerance)};
  }
}

Case read_case(const JsonObject& object, const std::string& op) {
  Case result;
  result.file = object.name();
  result.op = op;
  result.id = object.required_string("id");
  allow_keys(object, "case " + in_quotes(result.id),
             {"id", "description", "seed", "input", "output", "rtol", "atol", "rope_layout",
              "rope_tables"});
  result.description = object.optional_string("description").value_or("");
  result.seed = object.required_int("seed", 0, JsonObject::kMaxInt);
  result.layout = read_layout(object);
  if (const auto tables = object.optional_object("rope_tables")) {
    result.tables = read_tables(*tables);
  }
  read_inputs(object.required_object("input"), result);
  read_outputs(object.required_object("output"), read_tolerance(object, nullptr), result);
  return result;
}

std::vector<Case> read(const JsonObject& file) {
  allow_keys(file, "the file", {"op", "test_cases"});
  const std::string op = file.optional_string("op").value_or("mla_prolog");
  const std::vector<std::string_view> names = operator_names();
  if (std::ranges::find(names, op) == names.end()) {
    file.refuse("op", fmt::format("one of {}", fmt::join(names, ", ")));
  }
  std::vector<Case> cases;
  std::set<std::string> ids;
  for (const JsonObject& object : file.required_objects("test_cases")) {
    cases.push_back(read_case(object, op));
    if (!ids.insert(cases.back().id).second) cases.back().refuse("the id stands twice; rename one");
  }
  return cases;
}

}  // namespace

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t n_elements(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t dim : shape) n *= dim;
  return n;
}

const InputTensor& Case::input(const std::string& name) const {
  const auto found = inputs.find(name);
  if (found == inputs.end()) refuse(fmt::format("the input {} is missing", in_quotes(name)));
  return found->second;
}

const OutputTensor& Case::output(const std::string& name) const {
  const auto found = outputs.find(name);
  if (found == outputs.end()) refuse(fmt::format("the output {} is missing", in_quotes(name)));
  return found->second;
}

void Case::refuse(const std::string& reason) const {
  fail(ErrorCode::kBadCases, "{}: case {}: {}", file, in_quotes(id), reason);
}

std::vector<Case> read_cases(const std::filesystem::path& path) {
  return read(JsonObject::read(path, ErrorCode::kBadCases));
}

std::vector<Case> parse_cases(std::string_view text, const std::string& name) {
  return read(JsonObject::parse(text, name, ErrorCode::kBadCases));
}

}  // namespace tessera::ops::verify
