// tessera bench prolog: which implementation of the KV prolog is the fastest for how many tokens.
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tessera/weight_format.h>

#include "app/bench/bench.h"
#include "app/bench/comparison_options.h"
#include "app/bench/report.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/convert.h"
#include "base/fail.h"
#include "io/text_file.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "ops/mla_prolog/selection.h"
#include "ops/mla_prolog/stage2.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"
#include "tile/jit/cache_folder.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

// Enough layers that their weights come from memory, not from a cache.
constexpr std::size_t kWorkingSetBytes = std::size_t{256} << 20;
constexpr const char* kStage2 = "stage 2";  // not an implementation, but a part of one

struct PrologOptions {
  ComparisonOptions comparison;
  std::string dtype = "bf16";
  bool latent = false;
  bool save = false;
};

ops::Weight random_weight(DType dtype, std::int64_t n, std::int64_t k) {
  ops::Weight weight(dtype, n, k);
  const auto row = ops::verify::Stream(1, "row").normal(k, 1.0 / 32);
  for (std::int64_t i = 0; i < n; ++i) {
    convert(row.data(), DType::kF32, weight.row(i), dtype, row.size());
  }
  return weight;
}

// A layer's weights, packed as the model packs them, and the prologs made of them.
struct Layer {
  ops::PackedLinear kv_a;
  ops::PackedLinear kv_b;
  std::vector<std::unique_ptr<ops::MlaProlog>> prologs;  // in the order of the implementations
  std::unique_ptr<ops::prolog::Stage2> stage2;
};

class PrologBench {
 public:
  PrologBench(const ModelConfig& config, WeightFormat format, bool latent, int n_threads)
      : dims_{config.hidden_size, config.n_heads,     config.kv_lora_rank,
              config.qk_nope_dim, config.qk_rope_dim, config.v_dim},
        layout_(layout_of(format, WeightRole::kAttention)),
        cache_(cache_dtype(format)),
        latent_(latent),
        executor_(n_threads),
        norm_(static_cast<std::size_t>(dims_.kv_rank), 1.0f),
        bias_(static_cast<std::size_t>(dims_.latent_row()), 0.0f),
        with_bias_(config.attention_bias) {
    make_layers(panel_dtype(format));
  }

  struct Skipped {
    std::string_view name;
    std::string reason;
  };

  // One call of `rows` tokens to all that can run it.
  ops::Comparison measure(std::int64_t rows, int n_rounds, ops::MachineLimits& limits) {
    const Call memory(*this, rows);
    std::vector<ops::Candidate> candidates;
    for (std::size_t i = 0; i < implementations_.size(); ++i) {
      candidates.push_back(candidate(
          std::string(implementations_[i]->name), rows, !latent_,
          [this, &memory, i](Layer& layer) { layer.prologs[i]->run(memory.call, executor_); }));
    }
    if (layers_.front().stage2 != nullptr) {
      candidates.push_back(stage2(rows, memory));
    }
    const auto baseline =
        std::ranges::find(candidates, ops::kMlaPrologBaseline.name, &ops::Candidate::name);
    return ops::compare(candidates, static_cast<std::size_t>(baseline - candidates.begin()),
                        n_rounds, limits);
  }

  ops::Executor& executor() { return executor_; }
  const std::vector<Skipped>& skipped() const { return skipped_; }
  std::size_t n_layers() const { return layers_.size(); }
  ops::PrologShape shape() const { return {dims_, layout_, latent_, executor_.n_threads()}; }

 private:
  // The arrays of a call, laid out as the cache has them.
  struct Call {
    Call(const PrologBench& bench, std::int64_t rows) {
      const ops::MlaDims& d = bench.dims_;
      hidden = ops::verify::Stream(2, "hidden").normal(rows * d.hidden, 1);
      table = ops::verify::Stream(3, "table").normal(rows * d.rope / 2, 1);
      projected = ops::verify::Stream(4, "latent").normal(rows * d.latent_row(), 1);
      constexpr std::int64_t kPage = KvCache::kPageTokens;
      const std::int64_t pages = (rows + kPage - 1) / kPage;
      const auto output = [&](std::int64_t heads, std::int64_t dim) {
        Buffer& memory = outputs.emplace_back(
            static_cast<std::size_t>(pages * kPage * heads * dim) * size_in_bytes(bench.cache_));
        return ops::HeadTensor::dense(memory.data(), bench.cache_, heads, kPage, dim);
      };
      call.hidden = {hidden.data(), rows, d.hidden};
      call.cos = {table.data(), rows, d.rope / 2};
      call.sin = call.cos;
      call.blocks = pages;
      call.block_tokens = kPage;
      if (bench.latent_) {
        call.latent = {output(1, d.latent_row()).data, bench.cache_};
        return;
      }
      call.k_nope = output(d.heads, d.nope);
      call.value = output(d.heads, d.v);
      call.k_pe = output(1, d.rope);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    std::vector<float> hidden, table, projected;
    std::deque<Buffer> outputs;
    ops::MlaPrologCall call;
  };

  static DType panel_dtype(WeightFormat format) {
    switch (format) {
      case WeightFormat::kBF16:
        return DType::kBF16;
      case WeightFormat::kF16:
        return DType::kF16;
      default:
        return DType::kF32;
    }
  }

  ops::MlaPrologWeights weights_of(const Layer& layer) const {
    ops::MlaPrologWeights weights;
    weights.dims = dims_;
    weights.kv_a = layer.kv_a;
    weights.kv_a_bias = with_bias_ ? bias_.data() : nullptr;
    weights.norm = norm_.data();
    weights.eps = kLatentNormEps;
    if (!latent_) weights.kv_b = layer.kv_b;
    return weights;
  }

  void make_layers(DType dtype) {
    const ops::Weight kv_a = random_weight(dtype, dims_.latent_row(), dims_.hidden);
    const ops::Weight kv_b =
        random_weight(dtype, latent_ ? 0 : dims_.heads * dims_.head_row(), dims_.kv_rank);
    std::size_t bytes = 0;
    do {
      Layer& layer = layers_.emplace_back();
      layer.kv_a = ops::PackedLinear(kv_a.view(), layout_, executor_);
      if (!latent_) layer.kv_b = ops::PackedLinear(kv_b.view(), layout_, executor_);
      bytes += layer.kv_a.bytes() + layer.kv_b.bytes();
    } while (bytes < kWorkingSetBytes);

    const Call probe(*this, 1);
    for (const ops::MlaPrologImplementation* implementation : ops::mla_prolog_implementations()) {
      if (implementation == &ops::kMlaPrologReference) continue;
      const std::string reason =
          implementation->unsupported(weights_of(layers_.front()), probe.call);
      if (!reason.empty()) {
        skipped_.push_back({implementation->name, reason});
        continue;
      }
      implementations_.push_back(implementation);
      for (Layer& layer : layers_) {
        layer.prologs.push_back(implementation->create(weights_of(layer), executor_));
      }
    }
    if (latent_ ||
        std::ranges::find(implementations_, &ops::kMlaPrologHybrid) == implementations_.end()) {
      return;
    }
    for (Layer& layer : layers_) {
      layer.stage2 = std::make_unique<ops::prolog::Stage2>(weights_of(layer), executor_);
    }
  }

  ops::Candidate stage2(std::int64_t rows, const Call& memory) {
    const ops::Rows projected(const_cast<float*>(memory.projected.data()), rows,
                              dims_.latent_row());
    ops::Candidate candidate =
        this->candidate(kStage2, rows, true, [this, &memory, projected](Layer& layer) {
          layer.stage2->run(projected, memory.call, executor_);
        });
    const ops::PackedLinear& kv_a = layers_.front().kv_a;
    candidate.bytes -= static_cast<double>(kv_a.bytes());
    candidate.operations -= 2.0 * static_cast<double>(rows * kv_a.n() * kv_a.k());
    return candidate;
  }

  // Every call takes the next layer.
  template <typename Run>
  ops::Candidate candidate(const std::string& name, std::int64_t rows, bool heads, Run run) {
    const Layer& layer = layers_.front();
    ops::Candidate c;
    c.name = name;
    c.run = [this, run] {
      run(layers_[next_layer_]);
      next_layer_ = (next_layer_ + 1) % layers_.size();
    };
    c.dot = tile::dot_of(layout_);
    for (const ops::PackedLinear* w : {&layer.kv_a, &layer.kv_b}) {
      if (w == &layer.kv_b && !heads) continue;
      c.bytes += static_cast<double>(w->bytes());
      c.operations += 2.0 * static_cast<double>(rows * w->n() * w->k());
    }
    return c;
  }

  const ops::MlaDims dims_;
  const ops::PanelLayout layout_;
  const DType cache_;
  const bool latent_;
  ops::Executor executor_;
  const std::vector<float> norm_;
  const std::vector<float> bias_;
  const bool with_bias_;
  std::vector<const ops::MlaPrologImplementation*> implementations_;
  std::vector<Skipped> skipped_;
  std::deque<Layer> layers_;
  std::size_t next_layer_ = 0;
};

// The median of every implementation that "auto" may choose.
ops::PrologMeasurement measurement_of(const ops::PrologShape& shape, std::int64_t rows,
                                      const ops::Comparison& comparison) {
  ops::PrologMeasurement m{shape, rows, {}};
  for (const ops::Compared& c : comparison.candidates) {
    if (c.name == ops::kMlaPrologAuto.name || c.name == kStage2) continue;
    m.seconds[c.name] = c.seconds.median();
  }
  return m;
}

std::string fastest_of(const ops::PrologMeasurement& m) {
  return std::ranges::min_element(m.seconds, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

// Where another implementation becomes the fastest.
struct Crossover {
  std::int64_t rows;
  std::string from, to;
};

std::vector<Crossover> crossovers(std::vector<ops::PrologMeasurement> measured) {
  std::ranges::sort(measured, {}, &ops::PrologMeasurement::rows);
  std::vector<Crossover> found;
  for (std::size_t i = 1; i < measured.size(); ++i) {
    const std::string from = fastest_of(measured[i - 1]);
    const std::string to = fastest_of(measured[i]);
    if (from != to) found.push_back({measured[i].rows, from, to});
  }
  return found;
}

std::filesystem::path table_path() {
  const std::filesystem::path path = ops::PrologSelection::default_path();
  if (path.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--save needs a folder for the kernel cache; set TESSERA_CACHE_DIR or HOME");
  }
  if (const std::string reason = tile::prepare_cache_folder(path.parent_path()); !reason.empty()) {
    fail(ErrorCode::kIo, "--save: {}", reason);
  }
  require_writable(path);
  return path;
}

// Into what the table knows of other shapes. One that cannot be read is replaced.
void save(const std::filesystem::path& path, const std::vector<ops::PrologMeasurement>& measured) {
  ops::PrologSelection table;
  try {
    if (file_exists(path)) table = ops::PrologSelection::read(path);
  } catch (const Error& error) {
    write_warning_line(fmt::format("{}; it is replaced", error.what()));
  }
  for (const ops::PrologMeasurement& m : measured) table.add(m);
  table.write(path);
}

void run(const PrologOptions& options) {
  const ComparisonOptions& o = options.comparison;
  if (!o.json_file.empty()) require_writable(o.json_file);
  const std::filesystem::path table = options.save ? table_path() : std::filesystem::path();
  const ModelConfig config = config_of(o);
  PrologBench bench(config, *weight_format_from_string(options.dtype), options.latent,
                    threads_of(o));
  ops::MachineLimits limits(bench.executor());
  const std::string form = options.latent ? "latent" : "expanded";
  print_out("KV prolog, {} form, {}, {} thread{}; medians of {}, in brackets the extremes\n\n",
            form, options.dtype, bench.executor().n_threads(),
            bench.executor().n_threads() == 1 ? "" : "s", o.repeat);
  print_comparison_head("baseline");
  std::vector<ops::PrologMeasurement> measured;
  Json results = Json::array();
  for (const std::int64_t rows : parse_lengths(o.rows)) {
    const ops::Comparison comparison = bench.measure(rows, o.repeat, limits);
    print_comparison(rows, comparison);
    measured.push_back(measurement_of(bench.shape(), rows, comparison));
    results.push_back(to_json(rows, comparison));
    results.back()["fastest"] = fastest_of(measured.back());
  }

  for (const PrologBench::Skipped& s : bench.skipped()) {
    print_out("{} {}\n", s.name, s.reason);
  }
  const std::vector<Crossover> changes = crossovers(measured);
  for (const Crossover& c : changes) {
    print_out("from {} rows {} is faster than {}\n", c.rows, c.to, c.from);
  }
  if (options.save) {
    save(table, measured);
    print_out("{}: written\n", table.string());
  }
  flush_out();

  Json report = report_head("prolog", bench.executor().n_threads());
  report["model"] = o.model_path.empty() ? "deepseek-v2-lite" : o.model_path;
  report["dtype"] = options.dtype;
  report["form"] = form;
  report["layers"] = bench.n_layers();
  report["repeat"] = o.repeat;
  report["results"] = results;
  report["crossovers"] = Json::array();
  for (const Crossover& c : changes) {
    report["crossovers"].push_back({{"rows", c.rows}, {"from", c.from}, {"to", c.to}});
  }
  report["skipped"] = Json::array();
  for (const PrologBench::Skipped& s : bench.skipped()) {
    report["skipped"].push_back({{"implementation", s.name}, {"reason", s.reason}});
  }
  write_report(o.json_file, report);
}

}  // namespace

void add_bench_prolog(CLI::App& bench) {
  auto options = std::make_shared<PrologOptions>();
  CLI::App* command =
      bench.add_subcommand("prolog", "Implementations of the KV prolog by number of tokens");
  command->add_option("--dtype", options->dtype, "of the weights")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}))
      ->capture_default_str();
  command->add_flag("--latent", options->latent,
                    "write rows of a latent cache, not keys and values of every head");
  command->add_flag("--save", options->save,
                    "keep the times, by which the model chooses on this CPU");
  add_comparison_options(*command, options->comparison);
  command->callback([options] { run(*options); });
}

}  // namespace tessera::app
