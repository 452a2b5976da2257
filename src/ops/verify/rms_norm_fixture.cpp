#include "base/convert.h"
#include "ops/verify/draw_inputs.h"
#include "ops/verify/fixture.h"
#include "ops/verify/fixture_parts.h"

namespace tessera::ops::verify {

namespace {

// x [..., n] and weight [n] give y of x's shape.
class RmsNormFixture : public Fixture {
 public:
  RmsNormFixture(const Case& c, std::span<const RmsNormImplementation* const> list)
      : list_(list), eps_(static_cast<float>(c.eps)) {
    allow_tensors(c, {"x", "weight"}, {"y"});
    const Shape& shape = c.input("x").shape;
    n_ = shape.back();
    rows_ = n_elements(shape) / n_;
    expect_shape(c, "weight", c.input("weight").shape, {n_});
    expect_shape(c, "y", c.output("y").shape, shape);
    x_ = draw_floats(c, "x");
    weight_ = draw_floats(c, "weight");
  }

  std::vector<std::string_view> implementations() const override { return names_of(list_); }

  std::string unsupported(std::string_view implementation) const override {
    return find_by_name(list_, implementation).unsupported(rows_, n_);
  }

  void run(std::string_view implementation, std::span<OutputMemory> outputs,
           Executor& executor) const override {
    Guarded y(x_.bytes().size());
    find_by_name(list_, implementation)
        .run({x_.as<float>(), rows_, n_}, weight_.as<float>(), eps_, {y.as<float>(), rows_, n_},
             executor);
    convert(y.data(), DType::kF32, outputs[0].memory.data(), outputs[0].dtype,
            static_cast<std::size_t>(rows_ * n_));
    note_fault(outputs[0], y.intact(), x_.intact() && weight_.intact());
  }

 private:
  std::span<const RmsNormImplementation* const> list_;
  float eps_;
  std::int64_t rows_, n_;
  Guarded x_, weight_;
};

}  // namespace

std::unique_ptr<Fixture> make_rms_norm_fixture(const Case& c,
                                               std::span<const RmsNormImplementation* const> list) {
  return std::make_unique<RmsNormFixture>(c, list);
}

}  // namespace tessera::ops::verify
