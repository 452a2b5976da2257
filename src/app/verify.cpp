// tessera verify: the golden test of the operators' implementations.
#include "ops/verify/verify.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "base/machine.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

namespace verify = ops::verify;

struct VerifyOptions {
  std::vector<std::string> ids;
  std::string op;
  std::string implementation;
  std::string cases_file;
  std::string target_cpu;
  int threads = 0;  // 0: the CPUs this process may use
  bool list = false;
  bool json = false;
};

std::vector<verify::Case> selected_cases(const VerifyOptions& options) {
  if (!options.op.empty()) ops::implementation_names(options.op);  // refuses an unknown operator
  std::vector<verify::Case> all =
      options.cases_file.empty() ? verify::builtin_cases() : verify::read_cases(options.cases_file);
  for (const std::string& id : options.ids) {
    if (std::ranges::find(all, id, &verify::Case::id) == all.end()) {
      fail(ErrorCode::kInvalidArgument, "there is no case {}; see --list", in_quotes(id));
    }
  }
  std::erase_if(all, [&](const verify::Case& c) {
    return (!options.op.empty() && c.op != options.op) ||
           (!options.ids.empty() && std::ranges::find(options.ids, c.id) == options.ids.end());
  });
  if (all.empty()) fail(ErrorCode::kInvalidArgument, "no case is left to run; see --list");
  return all;
}

// Refuses a name that no operator of the cases has.
void check_implementation(const VerifyOptions& options, const std::vector<verify::Case>& cases) {
  if (options.implementation.empty()) return;
  std::vector<std::string_view> known;
  for (const verify::Case& c : cases) {
    for (std::string_view name : ops::implementation_names(c.op)) {
      if (std::ranges::find(known, name) == known.end()) known.push_back(name);
    }
  }
  if (std::ranges::find(known, options.implementation) == known.end()) {
    fail(ErrorCode::kInvalidArgument,
         "no operator of these cases has an implementation {}; choose one of {}",
         in_quotes(options.implementation), fmt::join(known, ", "));
  }
}

void print(const verify::Report& report) {
  if (!report.ran()) {
    print_out("SKIP {} {}: {}\n", report.id, report.implementation, report.unsupported);
    return;
  }
  print_out("{} {} {}\n", report.pass() ? "PASS" : "FAIL", report.id, report.implementation);
  for (const verify::OutputReport& o : report.outputs) {
    const verify::Measure& m = o.measure;
    print_out("  {:6} {} {}: max abs {:.2e}, max rel {:.2e}, cosine {:.8f}, ulp {}, NaN {}, Inf {}",
              o.name, verify::to_string(o.shape), to_string(o.dtype), m.max_abs, m.max_rel,
              m.cosine, m.max_ulp, m.n_nan, m.n_inf);
    print_out(", worst {}: {:.6g} against {:.6g}\n", verify::to_string(o.worst), m.got, m.expected);
    if (m.n_outside > 0) {
      print_out("         {} of {} elements are outside the tolerance\n", m.n_outside,
                verify::n_elements(o.shape));
    }
    if (!o.fault.empty()) print_out("         {}\n", o.fault);
  }
}

nlohmann::json to_json(const verify::Report& report) {
  nlohmann::json outputs = nlohmann::json::array();
  for (const verify::OutputReport& o : report.outputs) {
    const verify::Measure& m = o.measure;
    outputs.push_back({{"name", o.name},
                       {"shape", o.shape},
                       {"dtype", to_string(o.dtype)},
                       {"pass", o.pass},
                       {"max_abs", m.max_abs},
                       {"max_rel", m.max_rel},
                       {"cosine", m.cosine},
                       {"ulp", m.max_ulp},
                       {"nan", m.n_nan},
                       {"inf", m.n_inf},
                       {"outside", m.n_outside},
                       {"worst",
                        {{"index", o.worst},
                         {"got", m.got},
                         {"expected", m.expected},
                         {"of_tolerance", m.worst_ratio}}},
                       {"fault", o.fault}});
  }
  const char* result = !report.ran() ? "skip" : report.pass() ? "pass" : "fail";
  nlohmann::json json = {{"op", report.op},
                         {"id", report.id},
                         {"implementation", report.implementation},
                         {"result", result},
                         {"outputs", outputs}};
  if (!report.ran()) json["reason"] = report.unsupported;
  return json;
}

void print_list(const std::vector<verify::Case>& cases) {
  for (const verify::Case& c : cases) print_out("{}  {}  {}\n", c.id, c.op, c.description);
}

void run(const VerifyOptions& options) {
  // The compiler reads its target from the environment; nothing has been compiled yet.
  if (!options.target_cpu.empty()) ::setenv("TESSERA_TARGET_CPU", options.target_cpu.c_str(), 1);
  const std::vector<verify::Case> cases = selected_cases(options);
  check_implementation(options, cases);
  if (options.list) return print_list(cases);

  ops::Executor executor(options.threads > 0 ? options.threads : available_cpus());
  int n_run = 0;
  int n_failed = 0;
  int n_skipped = 0;
  nlohmann::json results = nlohmann::json::array();
  for (const verify::Case& c : cases) {
    const verify::Verification verification(c, executor);
    for (std::string_view name : verification.implementations()) {
      if (!options.implementation.empty() && name != options.implementation) continue;
      const verify::Report report = verification.check(name, executor);
      n_run += report.ran() ? 1 : 0;
      n_skipped += report.ran() ? 0 : 1;
      n_failed += report.ran() && !report.pass() ? 1 : 0;
      if (options.json) {
        results.push_back(to_json(report));
      } else {
        print(report);
      }
    }
  }
  if (options.json) {
    const nlohmann::json report = {
        {"results", results}, {"run", n_run}, {"failed", n_failed}, {"skipped", n_skipped}};
    print_out("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_out("{} checks passed, {} failed, {} skipped\n", n_run - n_failed, n_failed, n_skipped);
  }
  flush_out();
  if (n_failed > 0) fail(ErrorCode::kVerifyFailed, "{} of {} checks failed", n_failed, n_run);
  if (n_run == 0) {
    fail(ErrorCode::kUnsupported,
         "no implementation could run any of these cases; see the reasons");
  }
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify =
      app.add_subcommand("verify", "Check implementations of operators against their reference");
  verify->add_option("ids", options->ids, "ids of cases; all, without any");
  verify->add_flag("--list", options->list, "list the cases instead of running them");
  verify->add_option("--op", options->op, "only cases of this operator")
      ->check(not_empty("the name of an operator"));
  verify->add_option("--impl", options->implementation, "only this implementation")
      ->check(not_empty("a name"));
  verify->add_option("--cases", options->cases_file, "a file of cases instead of those built in")
      ->check(not_empty("the name of a file"));
  verify
      ->add_option("--target-cpu", options->target_cpu,
                   "compile tile kernels for this CPU (an LLVM name)")
      ->check(not_empty("the name of a CPU"));
  verify->add_option("--threads", options->threads, "threads (default: the CPUs at hand)")
      ->check(thread_count());
  verify->add_flag("--json", options->json, "print a JSON report");
  verify->callback([options] { run(*options); });
}

}  // namespace tessera::app
