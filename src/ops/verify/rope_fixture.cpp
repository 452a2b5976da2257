#include <cstring>

#include <fmt/format.h>

#include "base/convert.h"
#include "ops/verify/draw_inputs.h"
#include "ops/verify/fixture.h"
#include "ops/verify/fixture_parts.h"

namespace tessera::ops::verify {

namespace {

// x [batch, heads, seq, dim] gives y of its shape. The operator rotates in place, token by token:
// the tensor is laid out as [batch * seq, heads, dim] for it.
class RopeFixture : public Fixture {
 public:
  RopeFixture(const Case& c, std::span<const RopeImplementation* const> list)
      : list_(list), layout_(c.layout) {
    allow_tensors(c, {"x", "cos", "sin"}, {"y"});
    const Shape& shape = c.input("x").shape;
    expect_rank(c, "x", shape, "[batch, heads, seq, dim]");
    expect_shape(c, "y", c.output("y").shape, shape);
    batch_ = shape[0];
    heads_ = shape[1];
    seq_ = shape[2];
    dim_ = shape[3];
    if (dim_ % 2 != 0)
      c.refuse(fmt::format("x has {} values to a head, but they must be pairs", dim_));
    const RopeTables tables(c, batch_, seq_, dim_);
    cos_ = by_token(tables.cos_rows(), tables.positions);
    sin_ = by_token(tables.sin_rows(), tables.positions);
    x_ = draw(c, "x");
  }

  std::vector<std::string_view> implementations() const override { return names_of(list_); }

  std::string unsupported(std::string_view implementation) const override {
    return find_by_name(list_, implementation).unsupported(dim_, layout_);
  }

  void run(std::string_view implementation, std::span<OutputMemory> outputs,
           Executor& executor) const override {
    Guarded tokens(x_.size() * sizeof(float));
    for_each_head([&](std::int64_t in_tensor, std::int64_t by_token) {
      std::memcpy(tokens.as<float>() + by_token, x_.data() + in_tensor, bytes_per_head());
    });
    const std::int64_t n_tokens = batch_ * seq_;
    find_by_name(list_, implementation)
        .run({tokens.as<float>(), n_tokens, heads_, heads_ * dim_, dim_},
             {cos_.as<float>(), n_tokens, dim_ / 2}, {sin_.as<float>(), n_tokens, dim_ / 2},
             layout_, executor);
    OutputMemory& y = outputs[0];
    for_each_head([&](std::int64_t in_tensor, std::int64_t by_token) {
      convert(tokens.as<float>() + by_token, DType::kF32,
              y.memory.data() + static_cast<std::size_t>(in_tensor) * size_in_bytes(y.dtype),
              y.dtype, static_cast<std::size_t>(dim_));
    });
    note_fault(y, tokens.intact(), cos_.intact() && sin_.intact());
  }

 private:
  std::size_t bytes_per_head() const { return static_cast<std::size_t>(dim_) * sizeof(float); }

  // body(offset in [batch, heads, seq, dim], offset in [batch, seq, heads, dim])
  template <typename Body>
  void for_each_head(const Body& body) const {
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        for (std::int64_t s = 0; s < seq_; ++s) {
          body(((b * heads_ + h) * seq_ + s) * dim_, ((b * seq_ + s) * heads_ + h) * dim_);
        }
      }
    }
  }

  Guarded by_token(const ConstRows& table, std::span<const std::int64_t> positions) const {
    const std::int64_t n_tokens = batch_ * seq_;
    Guarded rows(static_cast<std::size_t>(n_tokens * dim_ / 2) * sizeof(float));
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      const std::int64_t position = positions.empty() ? t : positions[static_cast<std::size_t>(t)];
      std::ranges::copy(table.row(position), rows.as<float>() + t * dim_ / 2);
    }
    return rows;
  }

  std::span<const RopeImplementation* const> list_;
  RopeLayout layout_;
  std::int64_t batch_, heads_, seq_, dim_;
  std::vector<float> x_;
  Guarded cos_, sin_;
};

}  // namespace

std::unique_ptr<Fixture> make_rope_fixture(const Case& c,
                                           std::span<const RopeImplementation* const> list) {
  return std::make_unique<RopeFixture>(c, list);
}

std::unique_ptr<Fixture> make_fixture(const Case& c) {
  if (c.op == "rms_norm") return make_rms_norm_fixture(c);
  if (c.op == "rope") return make_rope_fixture(c);
  assert(c.op == "mla_prolog");
  return make_mla_prolog_fixture(c);
}

}  // namespace tessera::ops::verify
