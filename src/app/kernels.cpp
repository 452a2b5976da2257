// tessera kernels: the operators' tile kernels, what the compiler makes of them, and its cache.
#include "ops/kernels.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "io/quote.h"
#include "tile/jit/cache_folder.h"
#include "tile/jit/compile_cache.h"
#include "tile/passes/pipeline.h"

namespace tessera::app {

namespace {

namespace fs = std::filesystem;

struct ShowOptions {
  std::string name;
  std::string shape;  // as t=4,n=512
  std::string dtype = "bf16";
  std::string gaps;  // as x,y
  std::string stage = "trace";
  std::string target_cpu;
};

std::vector<std::string> stage_names() {
  std::vector<std::string> names = {"trace"};
  for (const tile::Pass& pass : tile::pass_list()) names.emplace_back(pass.name);
  names.insert(names.end(), {"llvm", "asm"});
  return names;
}

fs::path cache_folder() {
  fs::path folder = tile::default_cache_folder();
  if (folder.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "there is no cache of compiled kernels; name its folder in TESSERA_CACHE_DIR");
  }
  return folder;
}

// An entry's origin, or what is wrong with it.
struct Entry {
  tile::CacheEntry file;
  tile::CodeImage::Origin origin;
  std::string fault;
};

std::vector<Entry> entries_of(const fs::path& folder) {
  const std::string compiler = tile::compiler_identity().to_hex();
  std::vector<Entry> all;
  for (tile::CacheEntry& file : tile::read_entries(folder)) {
    Entry entry{std::move(file), {}, "damaged"};
    if (entry.file.content.payload) {
      try {
        entry.origin = tile::CodeImage::parse(*entry.file.content.payload).origin;
        entry.fault = entry.origin.compiler == compiler ? "" : "of another compiler";
      } catch (const Error&) {  // written by another version
        entry.fault = "of another version";
      }
    }
    all.push_back(std::move(entry));
  }
  return all;
}

void list() {
  std::map<std::string, int> cached;
  for (const Entry& entry : entries_of(tile::default_cache_folder())) {
    if (entry.fault.empty()) ++cached[entry.origin.kernel];
  }
  for (const ops::TileKernel& kernel : ops::tile_kernels()) {
    print_out("{}  {} {}\n", kernel.name(), kernel.op, kernel.implementation);
    for (const tile::Parameter& parameter : kernel.kernel.signature()) {
      print_out("    {}\n", ops::describe(parameter));
    }
    std::vector<std::string> dims;
    dims.reserve(kernel.dims.size());
    for (const auto& [name, value] : kernel.dims) dims.push_back(fmt::format("{}={}", name, value));
    print_out("    dims of DeepSeek-V2-Lite: {}\n", fmt::join(dims, ","));
    const int n_cached = cached[kernel.name()];
    print_out("    in the cache: {} shape class{}\n", n_cached, n_cached == 1 ? "" : "es");
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::map<std::string, std::int64_t> parse_shape(const std::string& text) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& part : split(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string number = part.substr(std::min(equals + 1, part.size()));
    const bool whole = !number.empty() && number.size() < 10 &&
                       number.find_first_not_of("0123456789") == std::string::npos;
    if (name.empty() || !whole) {
      fail(ErrorCode::kInvalidArgument, "--shape takes dims such as t=4,n=512, not {}",
           in_quotes(part));
    }
    if (!dims.emplace(name, std::stoll(number)).second) {
      fail(ErrorCode::kInvalidArgument, "--shape names dim {} twice", name);
    }
  }
  return dims;
}

bool takes_any_type(const ops::TileKernel& kernel) {
  for (const tile::Parameter& parameter : kernel.kernel.signature()) {
    if (!parameter.element) return true;
  }
  return false;
}

void show(const ShowOptions& options, bool dtype_given) {
  // The compiler reads its target from the environment; nothing has been compiled yet.
  if (!options.target_cpu.empty()) ::setenv("TESSERA_TARGET_CPU", options.target_cpu.c_str(), 1);
  const ops::TileKernel kernel = ops::tile_kernel(options.name);
  const std::vector<std::string> stages = stage_names();
  if (std::ranges::find(stages, options.stage) == stages.end()) {
    fail(ErrorCode::kInvalidArgument, "there is no stage {}; choose one of {}",
         in_quotes(options.stage), fmt::join(stages, ", "));
  }
  if (dtype_given && !takes_any_type(kernel)) {
    fail(ErrorCode::kInvalidArgument,
         "every element type of {} is fixed; leave out --dtype (see tessera kernels list)",
         kernel.name());
  }
  ops::ShapeChoice choice;
  choice.dims = parse_shape(options.shape);
  choice.element = *tile::element_from_string(options.dtype);
  for (std::string& name : split(options.gaps)) choice.gaps.insert(std::move(name));
  print_out("{}", kernel.kernel.stage(options.stage, ops::arguments_of(kernel, choice)));
}

std::string time_text(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(system));
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(seconds));
}

void cache_list() {
  for (const Entry& entry : entries_of(cache_folder())) {
    const std::string name =
        entry.origin.kernel.empty() ? entry.file.path.filename().string() : entry.origin.kernel;
    print_out("{}  {}  {} bytes  {}{}{}\n", time_text(entry.file.used),
              entry.origin.cpu.empty() ? "this CPU" : entry.origin.cpu, entry.file.bytes, name,
              entry.origin.shape_class.empty() ? "" : "  " + entry.origin.shape_class,
              entry.fault.empty() ? "" : "  (" + entry.fault + ")");
  }
}

void cache_size() {
  const tile::CacheUse use = tile::cache_use(cache_folder());
  print_out("{}: {} kernels, {:.1f} MiB of at most {} MiB\n", cache_folder().string(),
            use.n_entries, static_cast<double>(use.bytes) / (1 << 20),
            tile::CompileCache::Options().max_bytes >> 20);
}

void cache_clear() {
  const fs::path folder = cache_folder();
  const std::size_t before = tile::cache_use(folder).n_entries;
  tile::clear_cache(folder);
  const std::size_t left = tile::cache_use(folder).n_entries;
  if (left > 0) {
    fail(ErrorCode::kIo, "{}: {} of {} kernels cannot be removed; check who may write there",
         folder.string(), left, before);
  }
  print_out("{}: {} kernels removed\n", folder.string(), before);
}

}  // namespace

void add_kernels_command(CLI::App& app) {
  CLI::App* kernels =
      app.add_subcommand("kernels", "List and show the tile kernels; look after their cache");
  kernels->require_subcommand(1);

  kernels->add_subcommand("list", "names, signatures and dims")->callback(list);

  auto options = std::make_shared<ShowOptions>();
  CLI::App* show_command = kernels->add_subcommand("show", "a kernel as the compiler sees it");
  show_command->add_option("name", options->name, "of a kernel")->required();
  show_command
      ->add_option("--shape", options->shape,
                   "dims, as t=4,n=512 (default: one token of DeepSeek-V2-Lite)")
      ->check(not_empty("dims such as t=4"));
  CLI::Option* dtype =
      show_command
          ->add_option("--dtype", options->dtype, "element type of parameters that take any")
          ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
          ->capture_default_str();
  show_command->add_option("--gaps", options->gaps, "tensors whose rows stand apart, as x,y")
      ->check(not_empty("names of tensors"));
  show_command
      ->add_option("--stage", options->stage,
                   fmt::format("one of {}", fmt::join(stage_names(), ", ")))
      ->capture_default_str();
  show_command
      ->add_option("--target-cpu", options->target_cpu, "compile for this CPU (an LLVM name)")
      ->check(not_empty("the name of a CPU"));
  show_command->callback([options, dtype] { show(*options, dtype->count() > 0); });

  CLI::App* cache = kernels->add_subcommand("cache", "compiled kernels on disk");
  cache->require_subcommand(1);
  cache->add_subcommand("list", "each of them, those used last first")->callback(cache_list);
  cache->add_subcommand("size", "how many there are, and how large")->callback(cache_size);
  cache->add_subcommand("clear", "remove them all")->callback(cache_clear);
}

}  // namespace tessera::app
