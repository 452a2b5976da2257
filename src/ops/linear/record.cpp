#include "ops/linear/record.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

namespace tessera::ops {

namespace {

using graph::Spread;

constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

std::size_t operand_bytes(const tile::Product& product, RowCount count, std::int64_t k) {
  return static_cast<std::size_t>(count.max * product.plan().prepared_row_bytes(k));
}

tile::ProductArguments arguments_for(const ConstRows& x, std::byte* prepared) {
  tile::ProductArguments call;
  call.x = x.data;
  call.x_stride = x.stride * kFloat;
  call.prepared = prepared;
  call.rows = x.rows;
  call.k = x.columns;
  return call;
}

struct PrepareBody {
  RecordedRows x;
  RecordedOperand to;

  std::int64_t tasks(int) const noexcept { return to.product->plan().blocks(*x.count.now); }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    to.product->prepare(arguments_for(x.at(worker), to.memory.copy(worker)), begin, end);
  }
  graph::Work work() const noexcept {
    return {0, static_cast<double>(*x.count.now * x.columns) * 8};
  }
};

struct MultiplyBody {
  RecordedOperand x;
  const PackedLinear* w;
  RecordedRows y;
  tile::ProductArguments call;  // but for the rows, and where they lie
  bool frozen;                  // whether the call's weight may be kept

  std::int64_t tasks(int) const noexcept { return w->strips(); }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    tile::ProductArguments now = call;
    now.prepared = x.memory.copy(worker);
    now.rows = *x.count.now;
    if (!frozen) now.weight = w->data();
    now.out = y.at(worker).data;
    x.product->multiply(now, begin, end, 0, x.product->plan().blocks(now.rows));
  }
  graph::Work work() const noexcept {
    const double columns = static_cast<double>(w->n()) * (w->is_gate_up() ? 2 : 1);
    return {static_cast<double>(w->bytes()),
            2 * columns * static_cast<double>(w->k() * *x.count.now)};
  }
};

struct HeadProductsBody {
  RecordedHeads x;
  std::span<const PackedLinear> w;
  RecordedHeads y;
  const tile::Product* product;
  graph::Memory prepared;

  std::int64_t tasks(int) const noexcept { return x.heads; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    for (std::int64_t h = begin; h < end; ++h) {
      const PackedLinear& weight = w[static_cast<std::size_t>(h)];
      multiply_here(ConstHeads(x.at(worker)).head(h, weight.k()), *product, weight,
                    prepared.copy(worker), y.at(worker).head(h, weight.n()));
    }
  }
  graph::Work work() const noexcept {
    graph::Work work;
    for (const PackedLinear& weight : w) {
      work.bytes += static_cast<double>(weight.bytes());
      work.operations += 2 * static_cast<double>(weight.n() * weight.k() * *x.rows.count.now);
    }
    return work;
  }
};

}  // namespace

std::string shape_of(const PackedLinear& w) {
  return fmt::format("{}{} [{}, {}]", w.is_gate_up() ? "2 x " : "", to_string(w.layout()), w.n(),
                     w.k());
}

RecordedOperand record_operand(graph::Recorder& recorder, const std::string& name,
                               const RecordedRows& x, PanelLayout layout) {
  RecordedOperand operand;
  operand.layout = layout;
  operand.product = &tile::shared_product(layout);
  operand.count = x.count;
  operand.k = x.columns;
  const bool every = every_worker_computes(x.count, x.columns);
  graph::BufferInfo info;
  info.name = name + " as " + std::string(to_string(layout));
  info.bytes = operand_bytes(*operand.product, x.count, x.columns);
  info.per_worker = every;
  operand.memory = recorder.buffer(info);
  recorder.launch({.name = info.name,
                   .op = "round",
                   .spread = every ? Spread::kEvery : Spread::kShared,
                   .reads = {x.use()},
                   .writes = {{operand.memory.buffer}}},
                  PrepareBody{x, operand});
  return operand;
}

void record_linear(graph::Recorder& recorder, const std::string& name, const RecordedOperand& x,
                   const PackedLinear& w, const RecordedRows& y, Epilogue epilogue) {
  assert(x.k == w.k() && y.columns == w.n() && !y.has_copies());
  assert(x.layout == w.layout() && epilogue != Epilogue::kScaledAdd);
  assert(w.is_gate_up() == (epilogue == Epilogue::kSwiglu));
  tile::ProductArguments call;
  call.k = w.k();
  call.n = w.n();
  call.weight = w.data();
  call.out_stride = y.stride * kFloat;
  call.epilogue = epilogue;
  graph::LaunchInfo info{.name = name,
                         .op = "linear",
                         .shape = shape_of(w),
                         .spread = Spread::kShared,
                         .reads = {{x.memory.buffer}},
                         .writes = {y.use()}};
  if (epilogue == Epilogue::kAdd) info.reads.push_back(y.use());
  recorder.launch(std::move(info), MultiplyBody{x, &w, y, call, recorder.frozen_weights()});
}

void record_linear(graph::Recorder& recorder, const std::string& name, const RecordedRows& x,
                   const PackedLinear& w, const RecordedRows& y, Epilogue epilogue) {
  record_linear(recorder, name, record_operand(recorder, name + " input", x, w.layout()), w, y,
                epilogue);
}

void record_head_products(graph::Recorder& recorder, const std::string& name,
                          const RecordedHeads& x, std::span<const PackedLinear> w,
                          const RecordedHeads& y) {
  assert(std::ssize(w) == x.heads && x.heads == y.heads);
  const graph::Memory prepared =
      recorder.buffer(head_operand_buffer(name + " input", x.rows.count, w));
  recorder.launch({.name = name,
                   .op = "linear",
                   .shape = fmt::format("{} heads, {}", x.heads, shape_of(w.front())),
                   .spread = Spread::kShared,
                   .reads = {x.rows.use()},
                   .writes = {y.rows.use(), {prepared.buffer}}},
                  HeadProductsBody{x, w, y, &tile::shared_product(w.front().layout()), prepared});
}

graph::BufferInfo head_operand_buffer(const std::string& name, RowCount count,
                                      std::span<const PackedLinear> weights) {
  graph::BufferInfo info;
  info.name = name;
  info.per_worker = true;
  for (const PackedLinear& w : weights) {
    info.bytes =
        std::max(info.bytes, operand_bytes(tile::shared_product(w.layout()), count, w.k()));
  }
  return info;
}

void multiply_here(const ConstRows& x, const tile::Product& product, const PackedLinear& w,
                   std::byte* prepared, const Rows& y) noexcept {
  tile::ProductArguments call = arguments_for(x, prepared);
  call.n = w.n();
  call.weight = w.data();
  call.out = y.data;
  call.out_stride = y.stride * kFloat;
  const std::int64_t blocks = product.plan().blocks(x.rows);
  product.prepare(call, 0, blocks);
  product.multiply(call, 0, w.strips(), 0, blocks);
}

}  // namespace tessera::ops
