#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.h"
#include "io/text_file.h"
#include "text/template_interpreter.h"
#include "text/template_parser.h"

namespace tessera::text {

struct TemplateProgram {
  Block block;
};

namespace {

// What those who talk to the model provide.
constexpr std::array<std::string_view, 3> kUserVariables = {"messages", "tools", "documents"};

// The template's source in tokenizer_config.json, if it is there.
std::optional<std::string> source_in_config(const nlohmann::json& config, const std::string& name) {
  const auto member = config.find("chat_template");
  if (member == config.end() || member->is_null()) return std::nullopt;
  if (member->is_string()) return member->get<std::string>();
  if (member->is_array()) {
    for (const nlohmann::json& entry : *member) {
      const bool is_default = entry.is_object() && entry.contains("name") &&
                              entry["name"] == "default" && entry.contains("template") &&
                              entry["template"].is_string();
      if (is_default) return entry["template"].get<std::string>();
    }
  }
  fail(ErrorCode::kBadTemplate,
       "{}: chat_template is neither a string nor a list with an entry named \"default\"", name);
}

ChatTemplate parse_file(std::string source, const std::string& name) {
  try {
    return ChatTemplate::parse(std::move(source));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source) {
  return ChatTemplate(
      std::make_shared<const TemplateProgram>(TemplateProgram{parse_template(source)}));
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_folder) {
  const std::filesystem::path own_file = model_folder / "chat_template.jinja";
  if (file_exists(own_file)) {
    std::string source = read_text_file(own_file);
    if (!source.empty()) return parse_file(std::move(source), own_file.string());
  }
  const std::filesystem::path config_file = model_folder / "tokenizer_config.json";
  if (!file_exists(config_file)) return std::nullopt;
  const auto config = nlohmann::json::parse(read_text_file(config_file), nullptr, false);
  if (!config.is_object()) {
    fail(ErrorCode::kBadJson, "{}: not a JSON object", config_file.string());
  }
  std::optional<std::string> source = source_in_config(config, config_file.string());
  if (!source || source->empty()) return std::nullopt;
  return parse_file(std::move(*source), config_file.string());
}

MarkedText ChatTemplate::render(const nlohmann::ordered_json& variables,
                                const RenderLimits& limits) const {
  if (!variables.is_object()) {
    fail(ErrorCode::kInvalidArgument, "the variables of a chat template must be an object");
  }
  Variables values;
  for (const auto& [name, json] : variables.items()) {
    const bool is_users =
        std::find(kUserVariables.begin(), kUserVariables.end(), name) != kUserVariables.end();
    values.emplace_back(name, Value::from_json(json, is_users));
  }
  return run_template(program_->block, std::move(values), limits);
}

MarkedText ChatTemplate::render_chat(const nlohmann::ordered_json& messages,
                                     bool add_generation_prompt, std::string_view bos_token,
                                     std::string_view eos_token) const {
  return render({{"messages", messages},
                 {"tools", nullptr},
                 {"documents", nullptr},
                 {"add_generation_prompt", add_generation_prompt},
                 {"bos_token", bos_token},
                 {"eos_token", eos_token}});
}

}  // namespace tessera::text
