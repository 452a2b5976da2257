// The chat template of a model: Jinja, as far as chat templates of the DeepSeek family use it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "text/marked_text.h"
#include "text/template_call.h"

namespace tessera::text {

struct TemplateProgram;  // a parsed template

// Immutable: threads may share it.
//
// Statements: if/elif/else, for (with if and else, break, continue, the loop variable), set (names,
// several names, attributes of a namespace, blocks). Expressions: all operators but **, slices,
// calls, conditionals; strings have split, strip, lstrip, rstrip, startswith, endswith, upper,
// lower, replace, mappings items, get, keys, values; filters trim, length, count, tojson, upper,
// lower, default, d, join, first, last, string; tests defined, undefined, none, string, mapping,
// true, false, boolean, integer, float, number, sequence, iterable, callable, in, eq, equalto, ne;
// functions namespace, range, raise_exception. White space is treated as transformers does. All
// else throws Error(kBadTemplate) that names the construct and its line.
class ChatTemplate {
 public:
  static ChatTemplate parse(std::string source);

  // chat_template.jinja, or else the chat_template of tokenizer_config.json: a string, or the entry
  // "default" of a list. None where the folder has neither. An empty template
  // counts as none. Errors name the file.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model_folder);

  // Renders with these variables, an object. Every string inside the variables `messages`, `tools`
  // and `documents`, keys included, is marked as a user's, whatever becomes of it on the way to the
  // output; the template's own text and all other variables are not. Use ordered_json where tojson
  // must keep the order of members. Throws Error(kBadTemplate), also
  // where the template calls raise_exception(), and Error(kInvalidArgument) where the variables are
  // no object.
  MarkedText render(const nlohmann::ordered_json& variables, const RenderLimits& limits = {}) const;

  // With the variables that every chat template gets; `tools` and `documents` are none. messages:
  // [{"role": ..., "content": ...}, ...].
  MarkedText render_chat(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                         std::string_view bos_token, std::string_view eos_token) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateProgram> program)
      : program_(std::move(program)) {}

  std::shared_ptr<const TemplateProgram> program_;
};

}  // namespace tessera::text
