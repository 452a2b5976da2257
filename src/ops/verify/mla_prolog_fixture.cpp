#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/convert.h"
#include "ops/verify/draw.h"
#include "ops/verify/draw_inputs.h"
#include "ops/verify/fixture.h"
#include "ops/verify/fixture_parts.h"

namespace tessera::ops::verify {

namespace {

// Cases name matrices [inputs, outputs]; weights are [outputs, inputs], as in a checkpoint. The
// numbers are divided by the root of the inputs, so that a product is about as large as what goes
// in.
struct DrawnWeight {
  DrawnWeight() = default;
  DrawnWeight(const Case& c, const std::string& name) {
    const InputTensor& tensor = c.input(name);
    const std::int64_t k = tensor.shape[0];
    const std::int64_t n = tensor.shape[1];
    const auto drawn = draw(c, name, 1 / std::sqrt(static_cast<double>(k)));
    memory = Guarded(drawn.size() * size_in_bytes(tensor.dtype));
    view = {memory.data(), tensor.dtype, n, k, k, 1};
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        row[static_cast<std::size_t>(j)] = drawn[static_cast<std::size_t>(j * n + i)];
      }
      convert(row.data(), DType::kF32, const_cast<std::byte*>(view.at(i, 0)), tensor.dtype,
              row.size());
    }
  }

  Guarded memory;
  WeightView view;
};

MlaDims dims_of(const Case& c) {
  const Shape& hidden = c.input("hidden_states").shape;
  const Shape& kv_a = c.input("kv_a_weight").shape;
  const Shape& norm = c.input("ln_weight").shape;
  expect_rank(c, "hidden_states", hidden, "[batch, seq, hidden]");
  expect_rank(c, "kv_a_weight", kv_a, "[hidden, kv_rank + rope]");
  expect_rank(c, "ln_weight", norm, "[kv_rank]");
  MlaDims d;
  d.hidden = hidden[2];
  d.kv_rank = norm[0];
  d.rope = kv_a[1] - d.kv_rank;
  expect_shape(c, "kv_a_weight", kv_a, {d.hidden, kv_a[1]});
  if (d.rope < 2 || d.rope % 2 != 0) {
    c.refuse(
        fmt::format("kv_a_weight has {} outputs, which leaves {} values to rotate beside a "
                    "latent of {}; they must be pairs",
                    kv_a[1], d.rope, d.kv_rank));
  }
  if (c.has_output("k_nope") || c.has_output("value")) {
    const Shape& k_nope = c.output("k_nope").shape;
    const Shape& value = c.output("value").shape;
    expect_rank(c, "k_nope", k_nope, "[batch, heads, seq, nope]");
    expect_rank(c, "value", value, "[batch, heads, seq, v]");
    d.heads = k_nope[1];
    d.nope = k_nope[3];
    d.v = value[3];
    const std::int64_t batch = hidden[0];
    const std::int64_t seq = hidden[1];
    expect_shape(c, "k_nope", k_nope, {batch, d.heads, seq, d.nope});
    expect_shape(c, "value", value, {batch, d.heads, seq, d.v});
    expect_shape(c, "kv_b_weight", c.input("kv_b_weight").shape,
                 {d.kv_rank, d.heads * d.head_row()});
  }
  return d;
}

class MlaPrologFixture : public Fixture {
 public:
  MlaPrologFixture(const Case& c, std::span<const MlaPrologImplementation* const> list)
      : list_(list),
        dims_(check(c)),
        batch_(c.input("hidden_states").shape[0]),
        seq_(c.input("hidden_states").shape[1]),
        layout_(c.layout),
        paged_(c.seed % 2 != 0 || c.has_output("latent")),
        tables_(c, batch_, seq_, dims_.rope),
        hidden_(draw_floats(c, "hidden_states")),
        norm_(draw_floats(c, "ln_weight")),
        kv_a_(c, "kv_a_weight"),
        outputs_(c.outputs) {
    weights_ = {.dims = dims_,
                .kv_a = kv_a_.view,
                .norm = norm_.as<float>(),
                .eps = static_cast<float>(c.eps)};
    if (c.has_input("kv_a_bias")) {
      bias_ = draw_floats(c, "kv_a_bias");
      weights_.kv_a_bias = bias_.as<float>();
    }
    if (dims_.heads > 0) {
      kv_b_ = DrawnWeight(c, "kv_b_weight");
      weights_.kv_b = kv_b_.view;
    }
    draw_slots(c.seed);
  }

  std::vector<std::string_view> implementations() const override { return names_of(list_); }

  std::string unsupported(std::string_view implementation) const override {
    std::vector<OutputMemory> outputs;
    for (const auto& [name, output] : outputs_)
      outputs.emplace_back(name, output.shape, output.dtype);
    std::map<std::string, Guarded> pages;
    return find_by_name(list_, implementation).unsupported(weights_, call(outputs, pages));
  }

  void run(std::string_view implementation, std::span<OutputMemory> outputs,
           Executor& executor) const override {
    std::map<std::string, Guarded> pages;
    const MlaPrologCall request = call(outputs, pages);
    find_by_name(list_, implementation).create(weights_, executor)->run(request, executor);
    for (OutputMemory& output : outputs) {
      if (paged_) gather(pages.at(output.name), output);
      note_fault(output, true, inputs_intact());
    }
  }

 private:
  static MlaDims check(const Case& c) {
    allow_tensors(
        c, {"hidden_states", "kv_a_weight", "kv_a_bias", "kv_b_weight", "ln_weight", "cos", "sin"},
        {"k_nope", "value", "k_pe", "latent"});
    const MlaDims d = dims_of(c);
    const Shape& hidden = c.input("hidden_states").shape;
    if (c.has_input("kv_a_bias")) {
      expect_shape(c, "kv_a_bias", c.input("kv_a_bias").shape, {d.latent_row()});
    }
    if (c.has_output("k_pe")) {
      expect_shape(c, "k_pe", c.output("k_pe").shape, {hidden[0], 1, hidden[1], d.rope});
    }
    if (c.has_output("latent")) {
      expect_shape(c, "latent", c.output("latent").shape, {hidden[0], hidden[1], d.latent_row()});
    }
    if (c.outputs.empty()) c.refuse("it has no output");
    return d;
  }

  // Cases with an odd seed, and those of a latent, write into pages. They have room for twice as
  // many tokens as there are, which are taken in a drawn order, so that rows of no token lie
  // between those of tokens.
  static constexpr std::int64_t kPageTokens = 3;
  std::int64_t n_pages() const { return (2 * batch_ * seq_ + kPageTokens) / kPageTokens; }

  void draw_slots(std::int64_t seed) {
    if (!paged_) return;
    std::vector<std::int64_t> all(static_cast<std::size_t>(n_pages() * kPageTokens));
    std::iota(all.begin(), all.end(), 0);
    const Stream stream(seed, "slots");
    for (std::size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[stream.bits(i) % i]);
    }
    slots_.assign(all.begin(), all.begin() + batch_ * seq_);
  }

  // Heads of an output [batch, heads, seq, dim] or [batch, seq, dim], and the values of each.
  static std::int64_t heads_of(const Shape& shape) { return shape.size() == 4 ? shape[1] : 1; }

  // The call that fills these outputs, or the pages that are made for them.
  MlaPrologCall call(std::span<OutputMemory> outputs, std::map<std::string, Guarded>& pages) const {
    MlaPrologCall call{.hidden = {hidden_.as<float>(), batch_ * seq_, dims_.hidden},
                       .cos = tables_.cos_rows(),
                       .sin = tables_.sin_rows(),
                       .positions = tables_.positions,
                       .layout = layout_,
                       .blocks = paged_ ? n_pages() : batch_,
                       .block_tokens = paged_ ? kPageTokens : seq_,
                       .slots = slots_};
    for (OutputMemory& output : outputs) {
      const std::int64_t heads = heads_of(output.shape);
      std::byte* data = output.memory.data();
      if (paged_) {
        Guarded& memory = pages[output.name];
        memory = Guarded(static_cast<std::size_t>(call.n_slots() * heads * output.shape.back()) *
                         size_in_bytes(output.dtype));
        data = memory.data();
      }
      const HeadTensor tensor =
          HeadTensor::dense(data, output.dtype, heads, call.block_tokens, output.shape.back());
      if (output.name == "k_nope") call.k_nope = tensor;
      if (output.name == "value") call.value = tensor;
      if (output.name == "k_pe") call.k_pe = tensor;
      if (output.name == "latent") call.latent = {data, output.dtype};
    }
    return call;
  }

  // The tokens' rows of the pages, in the order of the output.
  void gather(const Guarded& pages, OutputMemory& output) const {
    const std::int64_t heads = heads_of(output.shape);
    const std::size_t bytes =
        static_cast<std::size_t>(output.shape.back()) * size_in_bytes(output.dtype);
    std::vector<bool> used(pages.bytes().size() / bytes);
    for (std::int64_t t = 0; t < batch_ * seq_; ++t) {
      const std::int64_t slot = slots_[static_cast<std::size_t>(t)];
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto from = static_cast<std::size_t>((slot / kPageTokens * heads + h) * kPageTokens +
                                                   slot % kPageTokens);
        const auto to = static_cast<std::size_t>((t / seq_ * heads + h) * seq_ + t % seq_);
        used[from] = true;
        std::memcpy(output.memory.data() + to * bytes, pages.data() + from * bytes, bytes);
      }
    }
    if (!pages.intact()) output.fault = "wrote before or after the pages";
    for (std::size_t row = 0; row < used.size(); ++row) {
      const auto values = pages.bytes().subspan(row * bytes, bytes);
      if (!used[row] && std::ranges::any_of(values, [](auto b) { return b != std::byte{0xff}; })) {
        output.fault = fmt::format("wrote row {} of the pages, which belongs to no token", row);
      }
    }
  }

  bool inputs_intact() const {
    return hidden_.intact() && norm_.intact() && bias_.intact() && kv_a_.memory.intact() &&
           kv_b_.memory.intact() && tables_.cos.intact() && tables_.sin.intact();
  }

  std::span<const MlaPrologImplementation* const> list_;
  MlaDims dims_;
  std::int64_t batch_, seq_;
  RopeLayout layout_;
  bool paged_;
  RopeTables tables_;
  Guarded hidden_, norm_, bias_;
  DrawnWeight kv_a_, kv_b_;
  std::map<std::string, OutputTensor> outputs_;
  MlaPrologWeights weights_;
  std::vector<std::int64_t> slots_;  // none: the outputs themselves
};

}  // namespace

std::unique_ptr<Fixture> make_mla_prolog_fixture(
    const Case& c, std::span<const MlaPrologImplementation* const> list) {
  return std::make_unique<MlaPrologFixture>(c, list);
}

}  // namespace tessera::ops::verify
