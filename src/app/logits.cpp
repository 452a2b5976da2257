// tessera logits: the numbers behind the tokens, for comparing with another engine.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <tessera/language_model.h>

#include "app/commands.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string ids;  // as 1,2,3
  std::string text;
  bool parse_special = false;
  bool hidden = false;
  std::string output;
};

SafetensorsTensor tensor(std::string name, std::int64_t rows, std::int64_t columns,
                         const std::vector<float>& values) {
  return {
      std::move(name), SafetensorsDType::kF32, {rows, columns}, std::as_bytes(std::span(values))};
}

void run(const LogitsOptions& options) {
  if (options.ids.empty() && options.text.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "nothing to run; give token ids with --ids or text with --text");
  }
  require_writable(options.output);
  const std::string folder = model_folder(options.model);
  const bool needs_tokenizer = options.ids.empty();
  LanguageModel model =
      needs_tokenizer ? LanguageModel::load(folder, load_options(options.model))
                      : LanguageModel::load_without_tokenizer(folder, load_options(options.model));
  const std::vector<std::int32_t> ids = needs_tokenizer
                                            ? model.text_prompt(options.text, options.parse_special)
                                            : parse_token_ids(options.ids);
  const Logits result = model.logits(ids, options.hidden);

  std::vector<SafetensorsTensor> tensors;
  tensors.push_back(
      {"ids", SafetensorsDType::kI32, {std::ssize(ids)}, std::as_bytes(std::span(ids))});
  tensors.push_back(tensor("logits", result.n_tokens, result.vocab_size, result.logits));
  for (std::size_t layer = 0; layer < result.hidden.size(); ++layer) {
    tensors.push_back(tensor(fmt::format("hidden.{}", layer), result.n_tokens, result.hidden_size,
                             result.hidden[layer]));
  }
  write_safetensors(options.output, tensors, {{"dtype", std::string(to_string(model.format()))}});
  print_out("{}: logits [{}, {}]{}\n", options.output, result.n_tokens, result.vocab_size,
            options.hidden
                ? fmt::format(", hidden.0 to hidden.{} [{}, {}]", result.hidden.size() - 1,
                              result.n_tokens, result.hidden_size)
                : "");
}

}  // namespace

void add_logits_command(CLI::App& app) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* logits = app.add_subcommand("logits", "Write the logits of every position to a file");
  CLI::Option* ids =
      logits->add_option("--ids", options->ids, "token ids, as 1,2,3")->check(token_ids());
  logits
      ->add_option("--text", options->text,
                   "text, tokenized with the BOS that the tokenizer asks for")
      ->excludes(ids);
  logits->add_flag("--parse-special", options->parse_special,
                   "read control tokens in the text as such instead of as text");
  logits->add_flag("--hidden", options->hidden,
                   "also write hidden.N [T, hidden], the state after layer N");
  logits->add_option("--output", options->output, "safetensors file: ids [T], logits [T, vocab]")
      ->required()
      ->check(not_empty("the name of a file"));
  add_model_options(*logits, options->model);
  logits->callback([options] { run(*options); });
}

}  // namespace tessera::app
