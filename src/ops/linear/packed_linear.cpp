#include <array>
#include <cassert>

#include "ops/linear/linear.h"
#include "tile/packed/pack.h"

namespace tessera::ops {

std::size_t PackedLinear::packed_bytes(PanelLayout layout, std::int64_t n, std::int64_t k,
                                       int n_weights) {
  return static_cast<std::size_t>(n_weights) * tile::cpu::PackedShape{layout, n, k}.bytes();
}

PackedLinear::PackedLinear(std::span<const WeightView> weights, PanelLayout layout,
                           Executor& executor, std::byte* memory)
    : shape_{layout, weights.front().n, weights.front().k}, n_weights_(std::ssize(weights)) {
  assert(weights.back().n == shape_.n && weights.back().k == shape_.k);
  if (memory == nullptr) buffer_ = Buffer(bytes());
  std::byte* packed = memory == nullptr ? buffer_.data() : memory;
  data_ = packed;
  executor.pool().parallel_for(strips() * n_weights_, [&](std::int64_t task, int) {
    const WeightView& w = weights[static_cast<std::size_t>(task % n_weights_)];
    tile::cpu::pack_panel({w.data, w.dtype, w.n, w.k, w.n_stride, w.k_stride}, layout,
                          task / n_weights_,
                          packed + static_cast<std::size_t>(task) * shape_.panel_bytes());
  });
}

PackedLinear::PackedLinear(const WeightView& w, PanelLayout layout, Executor& executor,
                           std::byte* memory)
    : PackedLinear(std::span(&w, 1), layout, executor, memory) {}

PackedLinear::PackedLinear(const WeightView& gate, const WeightView& up, PanelLayout layout,
                           Executor& executor, std::byte* memory)
    : PackedLinear(std::array{gate, up}, layout, executor, memory) {}

void PackedLinear::unpack(int which, double* rows) const {
  for (std::int64_t strip = 0; strip < strips(); ++strip) {
    const std::byte* panel = data_ + static_cast<std::size_t>(strip) * strip_bytes() +
                             static_cast<std::size_t>(which) * shape_.panel_bytes();
    tile::cpu::unpack_panel(shape_, strip, panel, rows);
  }
}

}  // namespace tessera::ops
