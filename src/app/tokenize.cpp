// tessera tokenize: text to token ids and back.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tessera::app {

namespace {

struct TokenizeOptions {
  ModelOptions model;
  CLI::Option* text_given = nullptr;
  std::string text;
  std::string file;
  std::string decode;  // as 1,2,3
  std::string chat;
  bool parse_special = false;
  bool bos = false;
  bool keep_special = false;
};

void print_ids(const std::vector<std::int32_t>& ids) {
  print_out("{}\n", nlohmann::json(ids).dump());
}

void check_messages(const nlohmann::json& messages, const std::string& file) {
  if (!messages.is_array() || messages.empty()) {
    fail(ErrorCode::kBadJson, "{}: must be a list of at least one message {{role, content}}", file);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const nlohmann::json& message = messages[i];
    const auto has = [&](const char* key, bool or_null) {
      const auto member = message.find(key);
      return member != message.end() && (member->is_string() || (or_null && member->is_null()));
    };
    if (!message.is_object() || !has("role", false) || !has("content", true)) {
      fail(ErrorCode::kBadJson,
           "{}: message {} must be an object with a string \"role\" and a string or null "
           "\"content\"",
           file, i + 1);
    }
  }
}

void print_chat(const text::Tokenizer& tokenizer, const std::string& folder,
                const TokenizeOptions& options) {
  const auto chat_template = text::ChatTemplate::load(folder);
  if (!chat_template) {
    fail(ErrorCode::kUnsupported, "{}: has no chat template; use --text or --file", folder);
  }
  const nlohmann::json messages = read_json_file(options.chat);
  check_messages(messages, options.chat);
  const text::MarkedText rendered =
      chat_template->render_chat(messages, true, tokenizer.bos_token(), tokenizer.eos_token());
  print_ids(options.parse_special
                ? tokenizer.encode_prompt(rendered.text, text::SpecialTokens::kParse)
                : tokenizer.encode_prompt(rendered));
}

void run(const TokenizeOptions& options) {
  const std::string folder = model_folder(options.model);
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  const auto mode =
      options.parse_special ? text::SpecialTokens::kParse : text::SpecialTokens::kPlain;
  const auto encode = [&](const std::string& text) {
    print_ids(options.bos ? tokenizer.encode_prompt(text, mode) : tokenizer.encode(text, mode));
  };
  if (options.text_given->count() > 0) return encode(options.text);
  if (!options.file.empty()) return encode(read_text_file(options.file));
  if (!options.decode.empty()) {
    print_out("{}\n", tokenizer.decode(parse_token_ids(options.decode), !options.keep_special));
    return;
  }
  if (!options.chat.empty()) {
    return print_chat(tokenizer, folder, options);
  }
  fail(ErrorCode::kInvalidArgument, "nothing to tokenize; give --text, --file, --decode or --chat");
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* tokenize = app.add_subcommand("tokenize", "Turn text into token ids and back");
  options->text_given = tokenize->add_option("--text", options->text, "text to tokenize");
  CLI::Option* file = tokenize->add_option("--file", options->file, "file to tokenize")
                          ->check(not_empty("the name of a file"));
  CLI::Option* decode =
      tokenize->add_option("--decode", options->decode, "token ids to decode, as 1,2,3")
          ->check(token_ids());
  CLI::Option* chat =
      tokenize
          ->add_option("--chat", options->chat,
                       "JSON file with a list of messages {role, content} to render")
          ->check(not_empty("the name of a file"));
  CLI::Option* const inputs[] = {options->text_given, file, decode, chat};
  for (CLI::Option* a : inputs) {
    for (CLI::Option* b : inputs) {
      if (a != b) a->excludes(b);
    }
  }
  tokenize->add_flag("--bos", options->bos, "put the beginning-of-sequence token in front");
  tokenize->add_flag("--parse-special", options->parse_special,
                     "read control tokens in the text as such instead of as text");
  tokenize->add_flag("--keep-special", options->keep_special, "decode control tokens too");
  tokenize
      ->add_option("--model-path", options->model.model_path,
                   "Hugging Face folder (default: $MODEL_PATH, else the bundled model)")
      ->check(not_empty("the name of a folder"));
  tokenize->callback([options] { run(*options); });
}

}  // namespace tessera::app
