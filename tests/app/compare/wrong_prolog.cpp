// A prolog that is wrong: it runs `latent` and adds an error to its output.
#include <memory>
#include <utility>
#include <vector>

#include "base/convert.h"
#include "ops/registry.h"

namespace tessera::ops {

namespace {

constexpr float kError = 4;

class Wrong : public MlaProlog {
 public:
  Wrong(std::unique_ptr<MlaProlog> right, std::int64_t row_size)
      : right_(std::move(right)), row_size_(static_cast<std::size_t>(row_size)) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    right_->run(call, executor);
    const std::size_t element = size_in_bytes(call.latent.dtype);
    for (std::int64_t t = 0; t < call.n_tokens(); ++t) {
      std::byte* first =
          call.latent.data + static_cast<std::size_t>(call.slot(t)) * row_size_ * element;
      float value = 0;
      convert(first, call.latent.dtype, &value, DType::kF32, 1);
      value += kError;
      convert(&value, DType::kF32, first, call.latent.dtype, 1);
    }
  }

 private:
  std::unique_ptr<MlaProlog> right_;
  std::size_t row_size_;
};

std::string unsupported(const MlaPrologWeights& weights, const MlaPrologCall& call) {
  return kMlaPrologLatent.unsupported(weights, call);
}

const MlaPrologImplementation kMlaPrologWrong = {
    "wrong", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Wrong>(
          kMlaPrologLatent.create(weights, executor), weights.dims.latent_row()));
    }};

}  // namespace

// With --wrap, the linker calls __wrap_NAME for NAME, and NAME for __real_NAME.
#define BY_NAME \
  "_ZN7tessera3ops25mla_prolog_implementationESt17basic_string_viewIcSt11char_traitsIcEE"
#define ALL "_ZN7tessera3ops26mla_prolog_implementationsEv"

const MlaPrologImplementation& real_by_name(std::string_view name) __asm__("__real_" BY_NAME);
std::span<const MlaPrologImplementation* const> real_all() __asm__("__real_" ALL);
const MlaPrologImplementation& by_name(std::string_view name) __asm__("__wrap_" BY_NAME);
std::span<const MlaPrologImplementation* const> all() __asm__("__wrap_" ALL);

const MlaPrologImplementation& by_name(std::string_view name) {
  return name == kMlaPrologWrong.name ? kMlaPrologWrong : real_by_name(name);
}

// Before the reference, which is the last of the list.
std::span<const MlaPrologImplementation* const> all() {
  static const std::vector<const MlaPrologImplementation*> list = [] {
    const auto real = real_all();
    std::vector<const MlaPrologImplementation*> longer(real.begin(), real.end());
    longer.insert(longer.end() - 1, &kMlaPrologWrong);
    return longer;
  }();
  return list;
}

}  // namespace tessera::ops
