// tessera ask: answers prompts and reports how fast.
#include <chrono>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "app/commands.h"
#include "app/graph_options.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

constexpr const char* kDefaultPrompt = "你好";
// Bytes of a KV cache that are said before they are taken, where nobody asked for a context.
constexpr std::size_t kLargeCache = std::size_t{256} << 20;

struct AskOptions {
  ModelOptions model;
  std::vector<std::string> prompts;
  std::string sentence_file;
  std::string system;
  bool raw = false;
  bool parse_special = false;
  GenerationOptions generation;
  bool greedy = false;
  // Set only where given; else the model's own values hold.
  CLI::Option* temperature = nullptr;
  CLI::Option* top_k = nullptr;
  CLI::Option* top_p = nullptr;
  CLI::Option* min_p = nullptr;
  CLI::Option* repetition_penalty = nullptr;
  CLI::Option* seed = nullptr;
  std::string report_file;
  std::string warmup_seq_lens;  // as 1,2
  GraphFlags graph;
};

// The non-empty lines of a file, joined by newlines.
std::string read_sentences(const std::filesystem::path& path) {
  std::istringstream lines(read_text_file(path));
  std::string sentences;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (!sentences.empty()) sentences += '\n';
    sentences += line;
  }
  if (sentences.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: has no text; give a file with at least one sentence",
         path.string());
  }
  return sentences;
}

// --prompt, else the lines of --sentence-file, else the default.
std::vector<std::string> prompts_of(const AskOptions& options) {
  if (!options.prompts.empty()) return options.prompts;
  if (options.sentence_file.empty()) return {kDefaultPrompt};
  return {read_sentences(options.sentence_file)};
}

std::vector<std::int32_t> prompt_ids(const LanguageModel& model, const AskOptions& options,
                                     const std::string& prompt) {
  if (prompt.empty()) {
    fail(ErrorCode::kInvalidArgument, "the prompt is empty; give --prompt some text");
  }
  if (options.raw) return model.text_prompt(prompt, options.parse_special);
  std::vector<Message> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", prompt});
  return model.chat_prompt(messages, options.parse_special);
}

// The same; in a batch, errors say which prompt they are about.
std::vector<std::int32_t> ids_of_prompt(const LanguageModel& model, const AskOptions& options,
                                        const std::vector<std::string>& prompts,
                                        std::size_t index) {
  try {
    return prompt_ids(model, options, prompts[index]);
  } catch (const Error& error) {
    if (prompts.size() == 1) throw;
    fail(error.code(), "prompt {}: {}", index + 1, error.what());
  }
}

SamplingOptions sampling_of(const AskOptions& options, const LanguageModel& model) {
  SamplingOptions sampling = model.default_sampling();
  const SamplingOptions& given = options.generation.sampling;
  if (options.temperature->count() > 0) sampling.temperature = given.temperature;
  if (options.top_k->count() > 0) sampling.top_k = given.top_k;
  if (options.top_p->count() > 0) sampling.top_p = given.top_p;
  if (options.repetition_penalty->count() > 0) {
    sampling.repetition_penalty = given.repetition_penalty;
  }
  if (options.min_p->count() > 0) sampling.min_p = given.min_p;
  sampling.seed = options.seed->count() > 0 ? given.seed : std::random_device{}();
  validate(sampling);
  if (options.greedy) sampling.temperature = 0;
  return sampling;
}

double per_second(std::int64_t n, double seconds) {
  return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

double megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

// Everything the summary and the report say.
struct Measured {
  std::string model_folder;
  std::string mode;
  std::size_t load_peak_bytes = 0;
  double tokenize_s = 0;
  std::size_t generate_peak_bytes = 0;
  std::uint64_t seed = 0;
  std::vector<std::vector<std::int32_t>> prompt_ids;
  GenerationResult result;

  std::int64_t input_tokens() const {
    std::int64_t n = 0;
    for (const Completion& c : result.completions) n += c.prompt_tokens;
    return n;
  }
  std::int64_t generated_tokens() const {
    std::int64_t n = 0;
    for (const Completion& c : result.completions) n += std::ssize(c.token_ids);
    return n;
  }
  // Of one prompt its value, of several a list in the order of the prompts.
  template <typename Value>
  nlohmann::json each(Value value) const {
    if (result.completions.size() == 1) return value(result.completions.front());
    auto list = nlohmann::json::array();
    for (const Completion& c : result.completions) list.push_back(value(c));
    return list;
  }
};

// The first two keys as in the original's reports.
void add_graph_report(nlohmann::ordered_json& report, const GraphReport& graph) {
  if (graph.backend.empty()) return;
  report["aclgraph_backend"] = graph.backend;
  report["aclgraph_compile_s"] = graph.capture_s;
  report["graph"] = app::report_of(graph);
}

// The summary's line; empty without graph mode.
std::string graph_line(const GraphReport& graph) {
  if (graph.backend.empty()) return "";
  return fmt::format(
      "graph           {} replays, {} eager steps; {} operators in {} phases, captured in {:.3f} "
      "s\n",
      graph.replays, graph.eager_steps, graph.ops, graph.phases, graph.capture_s);
}

nlohmann::ordered_json report_of(const LanguageModel& model, const Measured& m) {
  const GenerationResult& r = m.result;
  nlohmann::ordered_json report;
  report["model"] = m.model_folder;
  report["mode"] = m.mode;
  const KernelNames kernels = model.kernels();
  report["kernels"] = {{"rms_norm", kernels.rms_norm},
                       {"rope", kernels.rope},
                       {"mla_prolog", kernels.mla_prolog},
                       {"kv_cache", kernels.kv_cache}};
  add_graph_report(report, r.graph);
  report["tokenizer_load_s"] = model.tokenizer_load_s();
  report["model_load_s"] = model.model_load_s();
  report["model_load_peak_mem_mb"] = megabytes(m.load_peak_bytes);
  report["kv_cache_tokens"] = r.kv_cache_tokens;
  report["kv_cache_mb"] = megabytes(r.kv_cache_bytes);
  report["tokenize_s"] = m.tokenize_s;
  report["warmup_s"] = r.warmup_s;
  report["input_tokens"] = m.input_tokens();
  report["generate_s"] = r.generate_s;
  report["generated_tokens"] = m.generated_tokens();
  report["tokens_per_second"] = per_second(m.generated_tokens(), r.generate_s);
  report["generate_peak_mem_mb"] = megabytes(m.generate_peak_bytes);
  report["time_to_first_token_s"] =
      m.each([](const Completion& c) { return c.time_to_first_token_s; });
  report["prefill_tokens_per_second"] = per_second(r.prefill_tokens, r.prefill_s);
  report["decode_tokens_per_second"] = per_second(r.decode_tokens, r.decode_s);
  report["dtype"] = to_string(model.format());
  report["threads"] = model.threads();
  report["seed"] = m.seed;
  report["finish_reason"] =
      m.each([](const Completion& c) { return std::string(to_string(c.finish_reason)); });
  report["prompt_ids"] = m.prompt_ids.size() == 1 ? nlohmann::json(m.prompt_ids.front())
                                                  : nlohmann::json(m.prompt_ids);
  report["text"] = m.each([](const Completion& c) { return c.text; });
  report["token_ids"] = m.each([](const Completion& c) { return c.token_ids; });
  return report;
}

// A path in it need not be UTF-8.
std::string json_text(const nlohmann::ordered_json& report) {
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void print_summary(const LanguageModel& model, const Measured& m) {
  const GenerationResult& r = m.result;
  const KernelNames kernels = model.kernels();
  write_err(fmt::format(
      "\n"
      "mode            {}, {}, {} thread{}\n"
      "kernels         rms_norm {}, rope {}, mla_prolog {}, kv_cache {}\n"
      "{}"
      "load            {:.2f} s (tokenizer {:.2f} s), peak memory {:.0f} MB; warm-up {:.2f} s\n"
      "prefill         {} tokens, {:.1f} tokens/s, first token after {:.3f} s\n"
      "generate        {} tokens in {:.2f} s, {:.1f} tokens/s (decode {:.1f} tokens/s)\n"
      "memory          {:.0f} MB peak while generating, KV cache for {} tokens {:.1f} MB\n",
      m.mode, to_string(model.format()), model.threads(), model.threads() == 1 ? "" : "s",
      kernels.rms_norm, kernels.rope, kernels.mla_prolog, kernels.kv_cache, graph_line(r.graph),
      model.model_load_s(), model.tokenizer_load_s(), megabytes(m.load_peak_bytes), r.warmup_s,
      r.prefill_tokens, per_second(r.prefill_tokens, r.prefill_s),
      r.completions.front().time_to_first_token_s, m.generated_tokens(), r.generate_s,
      per_second(m.generated_tokens(), r.generate_s), per_second(r.decode_tokens, r.decode_s),
      megabytes(m.generate_peak_bytes), r.kv_cache_tokens, megabytes(r.kv_cache_bytes)));
}

// One prompt streams; the answers of several follow one another when all are there.
void print_answers(const std::vector<std::string>& prompts, const GenerationResult& result) {
  if (prompts.size() == 1) {
    write_out("\n");
    return;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    print_out("[{}] {}\n{}\n\n", i + 1, prompts[i], result.completions[i].text);
  }
}

void run(AskOptions& options) {
  if (options.raw && !options.system.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--system needs the chat template, which --raw turns off; leave one of them out");
  }
  const std::vector<std::string> prompts = prompts_of(options);
  if (!options.report_file.empty()) require_writable(options.report_file);
  if (!options.generation.trace_file.empty()) require_writable(options.generation.trace_file);
  Measured m;
  m.model_folder = model_folder(options.model);
  m.mode = mode_of(options.model);
  LanguageModel model = LanguageModel::load(m.model_folder, load_options(options.model));
  m.load_peak_bytes = peak_resident_bytes();

  GenerationOptions generation = options.generation;
  generation.graph = graph_options(options.graph);
  generation.sampling = sampling_of(options, model);
  m.seed = generation.sampling.seed;
  if (!options.warmup_seq_lens.empty()) {
    generation.warmup_seq_lens = parse_lengths(options.warmup_seq_lens);
  }

  const auto before = std::chrono::steady_clock::now();
  m.prompt_ids.reserve(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    m.prompt_ids.push_back(ids_of_prompt(model, options, prompts, i));
  }
  m.tokenize_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();

  if (prompts.size() == 1) {
    generation.on_text = [](std::size_t, std::string_view text) {
      write_out(text);
      flush_out();
    };
  }
  generation.on_kv_cache = [&](std::int64_t tokens, std::size_t bytes) {
    if (options.generation.context == 0 && bytes < kLargeCache) return;
    write_err(fmt::format("KV cache: {} tokens, {:.1f} MB\n", tokens, megabytes(bytes)));
  };
  reset_peak_resident();
  m.result = model.generate_ids(m.prompt_ids, generation);
  m.generate_peak_bytes = peak_resident_bytes();

  print_answers(prompts, m.result);
  flush_out();
  print_summary(model, m);
  if (!options.report_file.empty()) {
    write_text_file(options.report_file, json_text(report_of(model, m)));
  }
}

}  // namespace

void add_ask_command(CLI::App& app) {
  auto options = std::make_shared<AskOptions>();
  GenerationOptions& generation = options->generation;
  CLI::App* ask = app.add_subcommand("ask", "Answer a prompt and report how fast");
  ask->add_option(
         "--prompt", options->prompts,
         "what to ask; several make one batch (default: " + std::string(kDefaultPrompt) + ")")
      ->allow_extra_args(false);
  ask->add_option("--sentence-file", options->sentence_file,
                  "take the prompt from a file: its non-empty lines; --prompt wins")
      ->check(not_empty("the name of a file"));
  ask->add_option("--system", options->system, "system message before the prompt");
  ask->add_flag("--raw", options->raw, "complete the prompt as it is, without the chat template");
  ask->add_flag("--parse-special", options->parse_special,
                "read control tokens in the prompt as such instead of as text");
  add_model_options(*ask, options->model);
  ask->add_option("--output-length", generation.max_new_tokens, "new tokens at most")
      ->check(whole_number(1))
      ->capture_default_str();
  ask->add_option("--context", generation.context,
                  "tokens a sequence may reach (default: what prompt and answer need)")
      ->check(whole_number(1));
  ask->add_option("--prefill-chunk", generation.prefill_chunk, "prompt tokens per step")
      ->check(whole_number(1))
      ->capture_default_str();
  ask->add_option("--stop", generation.stop, "end the answer before this text; may be repeated")
      ->allow_extra_args(false);

  const std::string from_model = " (default: as generation_config.json says)";
  ask->add_flag("--greedy", options->greedy, "always take the likeliest token");
  options->temperature = ask->add_option("--temperature", generation.sampling.temperature,
                                         "sampling temperature" + from_model)
                             ->check(decimal());
  options->top_k =
      ask->add_option("--top-k", generation.sampling.top_k, "keep the k likeliest" + from_model)
          ->check(whole_number(0));
  options->top_p = ask->add_option("--top-p", generation.sampling.top_p,
                                   "keep the likeliest up to this probability" + from_model)
                       ->check(decimal());
  options->min_p = ask->add_option("--min-p", generation.sampling.min_p,
                                   "drop tokens below this share of the likeliest" + from_model)
                       ->check(decimal());
  options->repetition_penalty =
      ask->add_option("--repetition-penalty", generation.sampling.repetition_penalty,
                      "penalty on tokens already seen" + from_model)
          ->check(decimal());
  options->seed = ask->add_option("--seed", generation.sampling.seed,
                                  "the same seed gives the same answer (default: random)")
                      ->check(whole_number(0));

  ask->add_option("--warmup-seq-lens", options->warmup_seq_lens,
                  "tokens per sequence of the steps whose kernels are made ready before the first "
                  "token (default: 1,2)")
      ->check(lengths());
  add_graph_options(*ask, options->graph, GraphDefault::kOn);
  add_trace_option(*ask, generation.trace_file);
  ask->add_option("--report-file", options->report_file, "write all measurements as JSON")
      ->check(not_empty("the name of a file"));
  ask->callback([options] { run(*options); });
}

}  // namespace tessera::app
