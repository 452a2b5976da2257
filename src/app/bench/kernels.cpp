// tessera bench kernels: implementations of rms_norm and rope by number of tokens.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/bench/bench.h"
#include "app/bench/comparison_options.h"
#include "app/bench/report.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/text_file.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"

namespace tessera::app {

namespace {

using Json = nlohmann::ordered_json;

struct KernelsOptions {
  ComparisonOptions comparison;
  std::string op;  // empty: all
};

std::vector<float> normal(std::int64_t n) {
  return ops::verify::Stream(1, "values").normal(n, 1);
}

// Candidates, of which native is the baseline, and what the others say why they cannot run.
struct Kernels {
  std::string title;
  std::vector<ops::Candidate> candidates;
  std::vector<std::string> skipped;

  std::size_t native() const {
    const auto found = std::ranges::find(candidates, "native", &ops::Candidate::name);
    return static_cast<std::size_t>(found - candidates.begin());
  }
};

// Every implementation except the reference. bytes: read and written by a call.
template <typename List, typename Unsupported, typename Run>
Kernels kernels_of(const std::string& title, const List& list, double bytes,
                   const Unsupported& unsupported, const Run& run) {
  Kernels kernels{title, {}, {}};
  for (const auto* implementation : list) {
    const std::string name(implementation->name);
    if (name == "reference") continue;
    if (const std::string reason = unsupported(*implementation); !reason.empty()) {
      kernels.skipped.push_back(name + " " + reason);
      continue;
    }
    ops::Candidate candidate;
    candidate.name = name;
    candidate.run = [implementation, run] { run(*implementation); };
    candidate.bytes = bytes;
    kernels.candidates.push_back(std::move(candidate));
  }
  return kernels;
}

struct Case {
  std::string op;
  std::string title;
  std::function<Kernels(std::int64_t rows)> make;
};

// The arrays of a call live as long as the functions that use them.
Case norm_case(std::int64_t n, ops::Executor& executor) {
  const std::string title = fmt::format("rms_norm of {}", n);
  return {"rms_norm", title, [=, &executor](std::int64_t rows) {
            struct Arrays {
              std::vector<float> x, weight, y;
            };
            auto a = std::make_shared<Arrays>();
            a->x = normal(rows * n);
            a->weight = normal(n);
            a->y.resize(a->x.size());
            return kernels_of(
                title, ops::rms_norm_implementations(),
                static_cast<double>((2 * rows + 1) * n) * sizeof(float),
                [=](const ops::RmsNormImplementation& i) { return i.unsupported(rows, n); },
                [=, &executor](const ops::RmsNormImplementation& i) {
                  i.run({a->x.data(), rows, n}, a->weight.data(), 1e-6f, {a->y.data(), rows, n},
                        executor);
                });
          }};
}

Case rope_case(std::int64_t heads, std::int64_t dim, ops::Executor& executor) {
  const std::string title = fmt::format("rope of {} heads of {}", heads, dim);
  return {"rope", title, [=, &executor](std::int64_t rows) {
            struct Arrays {
              std::vector<float> x, cos, sin;
            };
            auto a = std::make_shared<Arrays>();
            a->x = normal(rows * heads * dim);
            // cos 0.6, sin 0.8: however often x is rotated, it stays as large.
            a->cos.assign(static_cast<std::size_t>(rows * dim / 2), 0.6f);
            a->sin.assign(static_cast<std::size_t>(rows * dim / 2), 0.8f);
            return kernels_of(
                title, ops::rope_implementations(),
                static_cast<double>(rows * (2 * heads * dim + dim)) * sizeof(float),
                [=](const ops::RopeImplementation& i) {
                  return i.unsupported(dim, ops::RopeLayout::kInterleaved);
                },
                [=, &executor](const ops::RopeImplementation& i) {
                  i.run({a->x.data(), rows, heads, heads * dim, dim},
                        {a->cos.data(), rows, dim / 2}, {a->sin.data(), rows, dim / 2},
                        ops::RopeLayout::kInterleaved, executor);
                });
          }};
}

void run(const KernelsOptions& options) {
  const ComparisonOptions& o = options.comparison;
  if (!o.json_file.empty()) require_writable(o.json_file);
  const ModelConfig c = config_of(o);
  ops::Executor executor(threads_of(o));
  ops::MachineLimits limits(executor);
  std::vector<Case> cases = {
      norm_case(c.hidden_size, executor), norm_case(c.kv_lora_rank, executor),
      rope_case(c.n_heads, c.qk_rope_dim, executor), rope_case(1, c.qk_rope_dim, executor)};
  std::erase_if(cases,
                [&](const Case& each) { return !options.op.empty() && each.op != options.op; });

  print_out("{} thread{}; medians of {}, in brackets the extremes\n", executor.n_threads(),
            executor.n_threads() == 1 ? "" : "s", o.repeat);
  Json results = Json::array();
  for (const Case& each : cases) {
    print_out("\n{}\n", each.title);
    print_comparison_head("native");
    std::vector<std::string> skipped;
    for (const std::int64_t rows : parse_lengths(o.rows)) {
      const Kernels kernels = each.make(rows);
      const ops::Comparison comparison =
          ops::compare(kernels.candidates, kernels.native(), o.repeat, limits);
      print_comparison(rows, comparison);
      skipped = kernels.skipped;
      results.push_back(to_json(rows, comparison));
      results.back()["op"] = each.op;
      results.back()["case"] = each.title;
    }
    for (const std::string& sentence : skipped) print_out("{}\n", sentence);
  }
  flush_out();

  Json report = report_head("kernels", executor.n_threads());
  report["model"] = o.model_path.empty() ? "deepseek-v2-lite" : o.model_path;
  report["repeat"] = o.repeat;
  report["results"] = results;
  write_report(o.json_file, report);
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command =
      bench.add_subcommand("kernels", "Implementations of rms_norm and rope by number of tokens");
  command->add_option("--op", options->op, "only this operator")
      ->check(CLI::IsMember({"rms_norm", "rope"}));
  add_comparison_options(*command, options->comparison);
  command->callback([options] { run(*options); });
}

}  // namespace tessera::app
