// The KV prolog in two stages: projection and norm by native operators, then one tile kernel.
#include "ops/linear/record.h"
#include "ops/mla_prolog/stage2.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

class Hybrid : public MlaProlog {
 public:
  Hybrid(const MlaPrologWeights& w, Executor& executor) : w_(w), stage2_(w, executor) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    assert_valid(w_, call);
    if (call.n_tokens() == 0) return;
    const MlaDims& d = w_.dims;
    const std::int64_t n = call.n_tokens();
    // [T, kv_rank + rope]; the norm overwrites the latent and leaves the key.
    const Rows projected(executor.worker(0).scratch<float>(Worker::kStageSlot, n * d.latent_row()),
                         n, d.latent_row());
    multiply(call.hidden, w_.kv_a, projected, executor);
    const Rows latent = projected.columns_from(0, d.kv_rank);
    rms_norm(latent, w_.norm, w_.eps, latent, executor);
    stage2_.run(projected, call, executor);
  }

  bool record(graph::Recorder& recorder, const RecordedProlog& call) const override {
    if (w_.kv_a.packed == nullptr) return false;
    const RecordedRows projected =
        record_rows(recorder, call.name + " projected", call.hidden.count, w_.dims.latent_row());
    record_linear(recorder, call.name + " kv_a", call.hidden, *w_.kv_a.packed, projected);
    const RecordedRows latent = projected.columns_from(0, w_.dims.kv_rank, graph::kWhole);
    kRmsNormNative.record(recorder, {.name = call.name + " norm", .op = "rms_norm"}, latent,
                          w_.norm, w_.eps, latent);
    stage2_.record(recorder, projected, call);
    return true;
  }

 private:
  MlaPrologWeights w_;
  prolog::Stage2 stage2_;
};

std::string unsupported(const MlaPrologWeights& w, const MlaPrologCall& call) {
  if (auto why = prolog::unsupported_inputs(w, call, true); !why.empty()) return why;
  return prolog::unsupported_heads(w, call);
}

}  // namespace

constexpr MlaPrologImplementation kMlaPrologHybrid = {
    "hybrid", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Hybrid>(weights, executor));
    }};

}  // namespace tessera::ops
