#include "ops/mla_attention/record.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "ops/mla_attention/generated_call.h"

namespace tessera::ops {

namespace {

using graph::Spread;
using tile::kHeadGroup;

// What both launches know.
struct Shared {
  RecordedAttention recorded;
  const tile::Attention* kernel;
  RecordedHeads attended;  // [latent] each
  graph::Memory states;    // of all pieces, unit by unit
  graph::Memory task;      // per worker

  RowCount count() const { return recorded.query.rows.count; }
  GeneratedCall call(int worker) const {
    return {*kernel,        recorded.query.at(worker),
            recorded.cache, {recorded.visible, static_cast<std::size_t>(*count().now)},
            recorded.scale, attended.at(worker)};
  }
  std::byte* state(const GeneratedCall& call, std::int64_t piece) const {
    return states.data + static_cast<std::size_t>(piece) * call.state_bytes();
  }
};

// A task is a piece.
struct PiecesBody {
  std::shared_ptr<const Shared> shared;

  std::int64_t tasks(int) const noexcept {
    const GeneratedCall call = shared->call(0);
    std::int64_t pieces = 0;
    for (std::int64_t row = 0; row < *shared->count().now; ++row) pieces += call.pieces(row);
    return pieces * call.groups();
  }

  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const GeneratedCall call = shared->call(worker);
    std::byte* memory = shared->task.copy(worker);
    std::byte* packed = memory + call.task_bytes();
    std::int64_t first = 0;  // piece of the unit
    for (std::int64_t unit = 0; unit < call.units() && first < end; ++unit) {
      const std::int64_t row = call.row_of(unit);
      const std::int64_t pieces = call.pieces(row);
      const std::int64_t from = std::max(begin, first);
      const std::int64_t to = std::min(end, first + pieces);
      if (from < to) call.pack(unit, packed);
      for (std::int64_t piece = from; piece < to; ++piece) {
        call.attend_piece(row, piece - first, packed, shared->state(call, piece), memory);
      }
      first += pieces;
    }
  }

  graph::Work work() const noexcept {
    const LatentPages& cache = shared->recorded.cache;
    std::int64_t tokens = 0;
    for (std::int64_t row = 0; row < *shared->count().now; ++row) {
      tokens += shared->recorded.visible[row].length;
    }
    const GeneratedCall call = shared->call(0);
    return {static_cast<double>(tokens * cache.row_values()) *
                static_cast<double>(size_in_bytes(cache.dtype)),
            2 * static_cast<double>(call.work())};
  }
};

// A task is a head, of all rows.
struct FinishBody {
  std::shared_ptr<const Shared> shared;
  const tile::Product* product;
  graph::Memory prepared;  // per worker

  std::int64_t tasks(int) const noexcept { return shared->recorded.query.heads; }

  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const GeneratedCall call = shared->call(worker);
    std::int64_t first = 0;  // piece of the unit
    for (std::int64_t unit = 0; unit < call.units(); ++unit) {
      const std::int64_t head = call.first_head(unit);
      // Four heads at a time: their outputs stay in the first-level cache.
      constexpr std::int64_t kHeads = 4;
      const std::int64_t last = std::min(end - head, call.heads_of(unit));
      for (std::int64_t h = std::max<std::int64_t>(0, begin - head); h < last; h += kHeads) {
        call.merge_and_finish(unit, shared->state(call, first), h, std::min(last, h + kHeads));
      }
      first += call.pieces(call.row_of(unit));
    }
    const RecordedHeads& values = shared->recorded.values;
    for (std::int64_t h = begin; h < end; ++h) {
      const PackedLinear& w = shared->recorded.latent_to_value[static_cast<std::size_t>(h)];
      multiply_here(ConstHeads(shared->attended.at(worker)).head(h, w.k()), *product, w,
                    prepared.copy(worker), values.at(worker).head(h, w.n()));
    }
  }

  graph::Work work() const noexcept {
    graph::Work work;
    for (const PackedLinear& w : shared->recorded.latent_to_value) {
      work.bytes += static_cast<double>(w.bytes());
      work.operations += 2 * static_cast<double>(w.n() * w.k() * *shared->count().now);
    }
    return work;
  }
};

}  // namespace

bool record_mla_attention(graph::Recorder& recorder, const RecordedAttention& call) {
  if (!why_not_generated(call.cache).empty()) return false;
  const RowCount count = call.query.rows.count;
  const std::int64_t heads = call.query.heads;
  auto shared = std::make_shared<Shared>();
  shared->recorded = call;
  shared->kernel = &GeneratedCall::kernel_for(call.cache);
  shared->attended = {
      record_rows(recorder, call.name + " latents", count, heads * call.cache.latent_dim), heads,
      call.cache.latent_dim};
  const GeneratedCall shape = shared->call(0);
  const std::int64_t pieces =
      count.max * shape.groups() * GeneratedCall::most_pieces(call.longest, call.cache.page_tokens);
  graph::BufferInfo states;
  states.name = call.name + " states";
  states.bytes = static_cast<std::size_t>(pieces) * shape.state_bytes();
  shared->states = recorder.buffer(states);
  graph::BufferInfo task;
  task.name = call.name + " scratch";
  task.bytes = shape.task_bytes() + shape.packed_bytes();
  task.per_worker = true;
  shared->task = recorder.buffer(task);

  recorder.launch({.name = call.name,
                   .op = "attention",
                   .shape = fmt::format("{} heads, rows of {}", heads, call.cache.row_values()),
                   .spread = Spread::kShared,
                   .reads = {call.query.rows.use(), {call.cache_buffer}},
                   .writes = {{shared->states.buffer}, {shared->task.buffer}}},
                  PiecesBody{shared});
  recorder.set_part(to_string(StepPart::kAbsorb));
  const graph::Memory prepared = recorder.buffer(
      head_operand_buffer(call.name + " values input", count, call.latent_to_value));
  recorder.launch(
      {.name = call.name + " values",
       .op = "linear",
       .shape = fmt::format("{} heads, {}", heads, shape_of(call.latent_to_value.front())),
       .spread = Spread::kShared,
       .reads = {{shared->states.buffer}},
       .writes = {{shared->states.buffer},
                  shared->attended.rows.use(),
                  call.values.rows.use(),
                  {prepared.buffer}}},
      FinishBody{shared, &tile::shared_product(call.latent_to_value.front().layout()), prepared});
  return true;
}

}  // namespace tessera::ops
