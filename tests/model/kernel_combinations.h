// Every choice of kernels that a model can be given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <tessera/kernels.h>

#include "ops/registry.h"

namespace tessera::testing {

// Prologs with the forms of cache they can fill.
inline std::vector<KernelOptions> prolog_combinations() {
  std::vector<KernelOptions> all;
  for (const auto& [prolog, cache] : {std::pair{"native", "latent"},
                                      {"native", "expanded"},
                                      {"latent", "latent"},
                                      {"fused", "expanded"},
                                      {"hybrid", "expanded"}}) {
    all.push_back({"native", "native", prolog, cache});
  }
  return all;
}

// All of them with every norm and rotation but the references, and "auto" throughout.
inline std::vector<KernelOptions> kernel_combinations() {
  std::vector<KernelOptions> all = {{}};
  for (std::string_view rms_norm : ops::implementation_names("rms_norm")) {
    for (std::string_view rope : ops::implementation_names("rope")) {
      if (rms_norm == "reference" || rope == "reference") continue;
      for (KernelOptions options : prolog_combinations()) {
        options.rms_norm = rms_norm;
        options.rope = rope;
        all.push_back(options);
      }
    }
  }
  return all;
}

// Those with the fastest norm and rotation only, for what takes long.
inline std::vector<KernelOptions> fast_combinations() {
  std::vector<KernelOptions> all = prolog_combinations();
  for (KernelOptions& options : all) options.rms_norm = options.rope = "auto";
  return all;
}

inline std::string describe(const KernelOptions& o) {
  return fmt::format("rms_norm {}, rope {}, mla_prolog {}, kv_cache {}", o.rms_norm, o.rope,
                     o.mla_prolog, o.kv_cache);
}

}  // namespace tessera::testing
