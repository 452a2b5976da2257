// Tuning calls: tile shapes and pass options. What has no meaning on this target is refused.
#include <tessera/tile.h>

#include "tile/ir/fail.h"
#include "tile/trace/tracer.h"

namespace tessera::tile {

namespace {

struct PassOption {
  std::string_view name;
  std::int64_t low;
  std::int64_t high;
};

// docs/tile-language.md says what each does.
constexpr PassOption kPassOptions[] = {
    {"fold_epilogue", 0, 1},
    {"parallel_axis", 0, 2},
};

// Known elsewhere, without a meaning here.
constexpr std::string_view kForeignOptions[] = {"cube_l1_reuse", "cube_l1_reuse_setting",
                                                "cube_nbuffer", "cube_nbuffer_setting"};

}  // namespace

void set_cube_tile_shapes(int m, int k, int n, Where where) {
  Tracer& tracer = Tracer::current("set_cube_tile_shapes", where);
  const bool good = m >= 0 && m <= 32 && k >= 0 && k % 2 == 0 && n >= 0 && n % 32 == 0;
  if (!good) {
    fail_at(code::kUnsupportedShape, to_location(where),
            "set_cube_tile_shapes({}, {}, {}): m is at most 32, k a multiple of 2, n of 32; 0 "
            "leaves the choice",
            m, k, n);
  }
  tracer.set_option("cube_tile", {m, k, n});
}

void set_vec_tile_shapes(int rows, Where where) {
  Tracer& tracer = Tracer::current("set_vec_tile_shapes", where);
  if (rows < 1) {
    fail_at(code::kUnsupportedShape, to_location(where), "set_vec_tile_shapes({}): at least 1",
            rows);
  }
  tracer.set_option("vec_tile", {rows});
}

void set_pass_options(std::initializer_list<std::pair<std::string_view, std::int64_t>> options,
                      Where where) {
  Tracer& tracer = Tracer::current("set_pass_options", where);
  for (const auto& [name, value] : options) {
    for (std::string_view foreign : kForeignOptions) {
      if (name != foreign) continue;
      fail_at(
          code::kUnknownOption, to_location(where),
          "pass option {}: buffers of an NPU's near memory; it means nothing on a CPU, remove it",
          name);
    }
    const PassOption* known = nullptr;
    for (const PassOption& option : kPassOptions) {
      if (option.name == name) known = &option;
    }
    if (known == nullptr)
      fail_at(code::kUnknownOption, to_location(where), "no pass option {}", name);
    if (value < known->low || value > known->high) {
      fail_at(code::kUnknownOption, to_location(where), "pass option {} takes {} to {}, not {}",
              name, known->low, known->high, value);
    }
    tracer.set_option(std::string(name), {value});
  }
}

}  // namespace tessera::tile
