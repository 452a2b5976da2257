// tessera bench memory: what the weights, the cache and the whole process take.
#include <algorithm>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tessera/generation.h>

#include "app/bench/bench.h"
#include "app/bench/report.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/machine.h"
#include "engine/step_bench.h"
#include "io/text_file.h"
#include "model/weight_layout.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

struct MemoryOptions {
  ModelOptions model;
  std::int64_t context = 0;  // the default
  std::int64_t batch = 1;
  std::string json_file;
};

// Bytes of packed matrices and of vectors.
struct WeightBytes {
  std::size_t attention = 0;
  std::size_t routers = 0;
  std::size_t dense = 0;
  std::size_t shared_experts = 0;
  std::size_t experts = 0;
  std::size_t norms = 0;
  std::size_t head = 0;

  std::size_t total() const {
    return attention + routers + dense + shared_experts + experts + norms + head;
  }
};

std::size_t bytes_of(const ops::FeedForward& ffn) {
  return ffn.gate_up.bytes() + ffn.down.bytes();
}

WeightBytes count(const ModelWeights& weights) {
  WeightBytes bytes;
  for (const LayerWeights& layer : weights.layers) {
    const AttentionWeights& a = layer.attention;
    for (const ops::PackedLinear* w : {&a.q, &a.q_a, &a.q_b, &a.kv_a, &a.kv_b, &a.o}) {
      bytes.attention += w->bytes();
    }
    for (const auto* heads : {&a.key_to_latent, &a.latent_to_value, &a.latent_to_key}) {
      for (const ops::PackedLinear& w : *heads) bytes.attention += w.bytes();
    }
    bytes.attention += a.q_a_bias.bytes() + a.kv_a_bias.bytes() + a.o_bias.bytes();
    for (const ops::Weight* w :
         {&layer.input_norm, &layer.post_attention_norm, &a.q_a_norm, &a.kv_a_norm}) {
      bytes.norms += w->bytes();
    }
    bytes.routers += layer.router.bytes();
    bytes.dense += bytes_of(layer.dense);
    bytes.shared_experts += bytes_of(layer.shared);
    for (const ops::FeedForward& expert : layer.experts) bytes.experts += bytes_of(expert);
  }
  bytes.norms += weights.final_norm.bytes();
  bytes.head = weights.head.bytes();
  return bytes;
}

double megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

constexpr std::int64_t kDefaultContext = 4096;

void run(MemoryOptions options) {
  if (!options.json_file.empty()) require_writable(options.json_file);
  const std::string folder = model_folder(options.model);
  const LoadOptions load = load_options(options.model);
  LoadedModel model(folder, load);
  if (options.context == 0) options.context = std::min(kDefaultContext, model.config.max_positions);
  const StepWork work{.sequences = options.batch,
                      .depth = options.context - 1,
                      .new_tokens = 1,
                      .step_tokens = 1,
                      .all_logits = true};
  check_positions(work, model.config);
  model.load(load);
  const std::size_t load_peak = peak_resident_bytes();
  const std::size_t loaded = resident_bytes();
  const WeightBytes weights = count(model.weights);

  const DType dtype = cache_dtype(model.format);
  const KvCacheForm form = model.choice.kv_cache;
  const std::size_t page = KvCache::bytes_for(model.config, dtype, KvCache::kPageTokens, form);
  const std::size_t per_token = page / static_cast<std::size_t>(KvCache::kPageTokens);
  const std::size_t cache = KvCache::bytes_for(model.config, dtype, options.context, form) *
                            static_cast<std::size_t>(options.batch);

  reset_peak_resident();
  run_steps(model, work);
  const std::int64_t chunk = std::min(options.context, GenerationOptions().prefill_chunk);
  StepWork prefill = work;
  prefill.depth = options.context - chunk;
  prefill.new_tokens = chunk;
  prefill.step_tokens = chunk;
  run_steps(model, prefill);
  const std::size_t peak = peak_resident_bytes();

  print_out(
      "memory, {} layers, {}, {} cache, context {}, batch {}; in MB (10^6 bytes)\n\n"
      "weights         {:>10.1f}\n"
      "  attention     {:>10.1f}\n"
      "  experts       {:>10.1f}\n"
      "  shared        {:>10.1f}\n"
      "  dense         {:>10.1f}\n"
      "  routers       {:>10.1f}\n"
      "  norms         {:>10.1f}\n"
      "  head          {:>10.1f}\n"
      "cache           {:>10.1f}   {} bytes a token\n"
      "resident        {:>10.1f}   after loading (peak {:.1f})\n"
      "resident peak   {:>10.1f}   while running steps at that context\n",
      model.config.n_layers, to_string(model.format), to_string(form), options.context,
      options.batch, megabytes(weights.total()), megabytes(weights.attention),
      megabytes(weights.experts), megabytes(weights.shared_experts), megabytes(weights.dense),
      megabytes(weights.routers), megabytes(weights.norms), megabytes(weights.head),
      megabytes(cache), per_token, megabytes(loaded), megabytes(load_peak), megabytes(peak));
  flush_out();

  Json report = report_head("memory", model.executor.n_threads());
  add_model(report, folder, options.model, model);
  report["context"] = options.context;
  report["batch"] = options.batch;
  report["weight_bytes"] = {
      {"total", weights.total()},   {"attention", weights.attention},
      {"experts", weights.experts}, {"shared_experts", weights.shared_experts},
      {"dense", weights.dense},     {"routers", weights.routers},
      {"norms", weights.norms},     {"head", weights.head}};
  report["cache_bytes_per_token"] = per_token;
  report["cache_bytes"] = cache;
  report["resident_bytes"] = loaded;
  report["load_peak_bytes"] = load_peak;
  report["peak_bytes"] = peak;
  write_report(options.json_file, report);
}

}  // namespace

void add_bench_memory(CLI::App& bench) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* command = bench.add_subcommand("memory", "What weights, cache and process take");
  command
      ->add_option("--context", options->context,
                   "tokens of each sequence (default: 4096, or the "
                   "positions of the model)")
      ->check(whole_number(1));
  command->add_option("--batch", options->batch, "sequences")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  add_model_options(*command, options->model);
  command->add_option("--json", options->json_file, "write all measurements as JSON")
      ->check(not_empty("the name of a file"));
  command->callback([options] { run(*options); });
}

}  // namespace tessera::app
