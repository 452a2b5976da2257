// tessera analyze: result files of tessera bench as tables and charts.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "app/analyze/build_document.h"
#include "app/analyze/renderers.h"
#include "app/analyze/result_file.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/validators.h"
#include "io/text_file.h"

namespace tessera::app {

namespace {

struct AnalyzeOptions {
  std::vector<std::string> files;
  std::string format = "text";
  std::string html_file;
};

std::string rendered(const analyze::Document& document, const std::string& format) {
  if (format == "markdown") return analyze::to_markdown(document);
  if (format == "json") return analyze::to_json(document);
  return analyze::to_text(document);
}

void run(const AnalyzeOptions& options) {
  std::vector<analyze::ResultFile> files;
  for (const std::string& path : options.files) files.push_back(analyze::ResultFile::read(path));
  const analyze::Document document = analyze::build_document(files);
  if (!options.html_file.empty()) write_text_file(options.html_file, analyze::to_html(document));
  write_out(rendered(document, options.format));
}

}  // namespace

void add_analyze_command(CLI::App& app) {
  auto options = std::make_shared<AnalyzeOptions>();
  CLI::App* command =
      app.add_subcommand("analyze", "Tables and charts of what tessera bench measured");
  command
      ->add_option("files", options->files,
                   "JSON files of tessera bench; those of one kind are held against the first")
      ->required()
      ->check(not_empty("the name of a file"));
  command->add_option("--format", options->format, "of the tables")
      ->check(CLI::IsMember({"text", "markdown", "json"}))
      ->capture_default_str();
  command->add_option("--html", options->html_file, "also write a page with charts to this file")
      ->check(not_empty("the name of a file"));
  command->callback([options] { run(*options); });
}

}  // namespace tessera::app
