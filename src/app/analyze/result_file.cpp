#include "app/analyze/result_file.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "app/analyze/readers.h"
#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"
#include "io/text_file.h"

namespace tessera::app::analyze {

namespace {

// Beyond what any machine does, and far from where sums and axes overflow.
constexpr double kLeastPositive = 1e-12;
constexpr double kMost = 1e15;

using Reader = Results (*)(const JsonObject&);

struct Command {
  std::string_view name;
  Reader read;
};

constexpr std::array kCommands = {
    Command{"bench batch", [](const JsonObject& file) -> Results { return read_steps(file); }},
    Command{"bench compare",
            [](const JsonObject& file) -> Results { return read_comparison(file); }},
    Command{"bench decode", [](const JsonObject& file) -> Results { return read_steps(file); }},
    Command{"bench kernels", [](const JsonObject& file) -> Results { return read_kernels(file); }},
    Command{"bench memory", [](const JsonObject& file) -> Results { return read_memory(file); }},
    Command{"bench prefill", [](const JsonObject& file) -> Results { return read_steps(file); }},
    Command{"bench prolog", [](const JsonObject& file) -> Results { return read_prolog(file); }},
};

const Command& command_of(const JsonObject& file) {
  if (!file.has("command")) {
    fail(ErrorCode::kBadJson,
         "{}: \"command\" is missing, so this is no result file of tessera bench", file.name());
  }
  const std::string name = file.required_string("command");
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  if (found == kCommands.end()) {
    std::string known;
    for (const Command& command : kCommands) {
      known += (known.empty() ? "" : ", ") + std::string(command.name);
    }
    fail(ErrorCode::kBadJson, "{}: \"command\" is {}, whose files are not known here; known are {}",
         file.name(), in_quotes(name), known);
  }
  return *found;
}

std::string optional_count(const JsonObject& file, std::string_view key) {
  const auto count = file.optional_int(key, 0, JsonObject::kMaxInt);
  return count ? std::to_string(*count) : "";
}

Setup read_setup(const JsonObject& file) {
  const JsonObject machine = file.required_object("machine");
  Setup setup;
  setup.command = file.required_string("command");
  setup.version = file.required_string("version");
  setup.cpu = machine.required_string("cpu");
  setup.cpus = machine.required_int("cpus", 1, JsonObject::kMaxInt);
  setup.target_cpu = machine.required_string("target_cpu");
  setup.threads = optional_count(file, "threads");
  setup.model = file.optional_string("model").value_or("");
  setup.layers = optional_count(file, "layers");
  setup.dtype = file.optional_string("dtype").value_or("");
  setup.mode = file.optional_string("mode").value_or("");
  if (const auto kernels = file.optional_object("kernels")) {
    for (const std::string& op : kernels->keys()) {
      setup.kernels.emplace(op, kernels->required_string(op));
    }
  }
  return setup;
}

double in_range(const JsonObject& object, std::string_view key, double value, double least) {
  if (!(least <= value && value <= kMost)) {
    object.refuse(key, fmt::format("a number from {:g} to {:g}", least, kMost));
  }
  return value;
}

Measured read_measured_from(const JsonObject& parent, std::string_view key, double least) {
  const JsonObject object = parent.required_object(key);
  Measured m;
  m.median = in_range(object, "median", object.required_number("median"), least);
  m.min = in_range(object, "min", object.required_number("min"), least);
  m.max = in_range(object, "max", object.required_number("max"), least);
  m.samples = object.required_numbers("samples");
  if (m.samples.empty()) object.refuse("samples", "an array of at least one number");
  for (const double sample : m.samples) {
    if (!(m.min <= sample && sample <= m.max)) {
      object.refuse("samples", fmt::format("numbers from {} to {}, its extremes", m.min, m.max));
    }
  }
  if (!(m.min <= m.median && m.median <= m.max)) {
    object.refuse("median", fmt::format("a number from {} to {}, its extremes", m.min, m.max));
  }
  return m;
}

}  // namespace

Measured read_measured(const JsonObject& object, std::string_view key) {
  return read_measured_from(object, key, 0);
}

Measured read_positive(const JsonObject& object, std::string_view key) {
  return read_measured_from(object, key, kLeastPositive);
}

double read_positive_number(const JsonObject& object, std::string_view key) {
  return in_range(object, key, object.required_number(key), kLeastPositive);
}

double read_bytes(const JsonObject& object, std::string_view key) {
  return in_range(object, key, object.required_number(key), 0);
}

std::int64_t read_count(const JsonObject& object, std::string_view key, std::int64_t least) {
  return object.required_int(key, least, static_cast<std::int64_t>(kMost));
}

ResultFile ResultFile::parse(std::string_view text, const std::string& name) {
  const JsonObject file = JsonObject::parse(text, name, ErrorCode::kBadJson);
  const Command& command = command_of(file);
  return {name, read_setup(file), command.read(file)};
}

ResultFile ResultFile::read(const std::filesystem::path& path) {
  return parse(read_text_file(path), path.string());
}

}  // namespace tessera::app::analyze
