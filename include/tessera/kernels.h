// Which implementation of an operator a model runs, where there are several.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera {

// Names are those of `tessera verify --impl`; "auto" takes the fastest verified implementation that
// can run the model. One that is named and cannot run it is a warning, and the native one runs.
struct KernelOptions {
  std::string rms_norm = "auto";    // "native", "tile", ...
  std::string rope = "auto";        // "native", "tile", ...
  std::string mla_prolog = "auto";  // "latent", "fused", "hybrid", ...; "fusion": the fastest of
                                    // those; "native": native operators one after another
  // What is kept of each token: "latent" or "expanded". "auto": what the prolog writes, latent
  // where it writes both.
  std::string kv_cache = "auto";
  // Over a latent cache: "absorbed", "expanded" (for all but decode steps), or "auto": expanded for
  // chunks of 256 tokens and more of a sequence, absorbed for all others.
  std::string attention_form = "auto";
};

// All native: what the others are measured against.
inline KernelOptions baseline_kernels() {
  return {"native", "native", "native", "auto", "auto"};
}

// What ran so far. An implementation that could not run everything is named with the one that ran
// the rest: "tile+native".
struct KernelNames {
  std::string rms_norm;
  std::string rope;
  std::string mla_prolog;
  std::string kv_cache;
};

// Told, in one sentence, what does not run as it was asked to; the run goes on.
using WarnFn = std::function<void(std::string_view sentence)>;

}  // namespace tessera
