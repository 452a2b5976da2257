// A file that tessera bench wrote, read and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::app::analyze {

// Repeated measurements; min <= median <= max, all from 0 to 1e15.
struct Measured {
  double median = 0;
  double min = 0;
  double max = 0;
  std::vector<double> samples;  // at least one
};

// Under which circumstances a file was made. Empty strings where the command has no such thing.
struct Setup {
  std::string command;  // "bench decode"
  std::string version;
  std::string cpu;
  std::int64_t cpus = 0;
  std::string target_cpu;
  std::string threads;
  std::string model;
  std::string layers;
  std::string dtype;
  std::string mode;
  std::map<std::string, std::string> kernels;  // by operator, as "rms_norm": "native"

  bool operator==(const Setup&) const = default;
};

struct OperatorTime {
  std::string op;
  Measured seconds;  // a step, as all of these
  Measured kernel_seconds;
  Measured share_of_time;
  double bytes = 0;
  Measured gb_per_second;
  Measured gflop_per_second;
  Measured share_of_limit;
};

// bench decode, batch, prefill.
struct StepResult {
  bool replayed = false;  // by graphs, else eager
  std::int64_t batch = 0;
  std::int64_t depth = 0;
  std::int64_t new_tokens = 0;
  std::int64_t step_tokens = 0;
  Measured tokens_per_second;
  Measured bytes_per_token;
  Measured gb_per_second;
  Measured gflop_per_second;
  Measured limit;  // tokens/s
  std::string limited_by;
  Measured share_of_limit;
  std::vector<OperatorTime> by_op;  // empty without --by-op
};

struct StepResults {
  std::vector<StepResult> results;
};

struct Implementation {
  std::string name;
  Measured seconds;
  Measured times_as_fast;  // as the baseline of the run
  Measured gb_per_second;
  Measured gflop_per_second;
  Measured share_of_limit;
};

// bench prolog, kernels: the implementations of one operator for one number of tokens.
struct OperatorResult {
  std::string title;  // of the case; empty for prolog
  std::int64_t rows = 0;
  std::vector<Implementation> implementations;
};

struct Crossover {
  std::int64_t rows = 0;
  std::string from;
  std::string to;
};

struct Skipped {
  std::string implementation;
  std::string reason;
};

struct PrologResults {
  std::string form;
  std::vector<OperatorResult> results;
  std::vector<Crossover> crossovers;
  std::vector<Skipped> skipped;
};

struct KernelResults {
  std::vector<OperatorResult> results;
};

// bench memory; bytes.
struct MemoryPart {
  std::string name;
  double bytes;
};

struct MemoryResults {
  std::int64_t context = 0;
  std::int64_t batch = 0;
  std::vector<MemoryPart> weights;  // without their total
  double weight_bytes = 0;
  double cache_bytes_per_token = 0;
  double cache_bytes = 0;
  double resident_bytes = 0;
  double load_peak_bytes = 0;
  double peak_bytes = 0;
};

// bench compare: B's rate over A's, with its interval of confidence where there are several rounds.
struct Speedup {
  double median = 0;
  std::optional<double> low;
  std::optional<double> high;
};

struct ComparisonCase {
  std::int64_t batch = 0;
  std::int64_t output_tokens = 0;
  std::vector<std::string> prompts;
  std::string status;     // as "b_faster"
  std::string reason;     // a sentence for "different" and "failed", else empty
  std::string exactness;  // as "equal"
  std::string metric;     // as "tokens_per_second"
  // All three or none: no speed is told of what differs or failed.
  std::optional<Speedup> speedup;
  std::optional<Measured> a;  // rates
  std::optional<Measured> b;
};

struct ComparisonResults {
  std::string a;  // the flags, or the command
  std::string b;
  double confidence = 0;
  std::size_t n_cases = 0;  // asked for
  std::vector<ComparisonCase> cases;
};

using Results =
    std::variant<StepResults, PrologResults, KernelResults, MemoryResults, ComparisonResults>;

struct ResultFile {
  std::string path;
  Setup setup;
  Results results;

  // Throws Error(kBadJson) with one sentence that names the file and the key which is missing or
  // wrong, or says that no known command writes such a file.
  static ResultFile parse(std::string_view text, const std::string& name);
  // Also throws what read_text_file() throws.
  static ResultFile read(const std::filesystem::path& path);
};

}  // namespace tessera::app::analyze
