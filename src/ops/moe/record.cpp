// Of the experts a replay only knows which they are once it has routed: every worker does that for
// itself, and the launches behind it go by its lists.
#include "ops/moe/record.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ops/moe/expert_lists.h"

namespace tessera::ops {

namespace {

using graph::Spread;

constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

// A worker's copy of what the router says, and of what it takes to find that out.
struct RoutingMemory {
  std::int64_t n_choices;
  std::int64_t n_experts;
  std::int64_t n_parts;

  // Every array in one buffer; the number of parts comes first.
  struct Arrays {
    std::int64_t* n_parts;
    ExpertLists lists;
    std::int32_t* chosen;
    float* weights;
    std::int32_t* end;
    RouterScratch scratch;
  };
  Arrays at(std::byte* memory) const {
    Arrays arrays;
    arrays.n_parts = take<std::int64_t>(memory, 1);
    arrays.lists.tokens = take<std::int32_t>(memory, n_choices);
    arrays.lists.weights = take<float>(memory, n_choices);
    arrays.lists.parts = take<ExpertPart>(memory, n_parts);
    arrays.chosen = take<std::int32_t>(memory, n_choices);
    arrays.weights = take<float>(memory, n_choices);
    arrays.end = take<std::int32_t>(memory, n_experts);
    arrays.scratch.scores = take<float>(memory, n_experts);
    arrays.scratch.best = take<float>(memory, n_experts);
    arrays.scratch.order = take<std::int32_t>(memory, n_experts);
    return arrays;
  }
  std::size_t bytes() const {
    return 8 + static_cast<std::size_t>(4 * (4 * n_choices + 4 * n_experts)) +
           static_cast<std::size_t>(n_parts) * sizeof(ExpertPart);
  }

 private:
  template <typename T>
  static T* take(std::byte*& memory, std::int64_t n) {
    T* array = reinterpret_cast<T*>(memory);
    memory += static_cast<std::size_t>(n) * sizeof(T);
    return array;
  }
};

// What all launches know.
struct Shared {
  RecordedMoe call;
  RoutingMemory routing;
  graph::Memory lists_memory;  // per worker
  RecordedRows scores;         // [rows, experts]
  const tile::Product* up;
  const tile::Product* down;
  std::int64_t inner;           // values of an expert
  graph::Memory inner_values;   // fp32 [choices, inner], by expert
  graph::Memory inner_rounded;  // the same as `down` reads it
  bool one_row;                 // every expert reads the same rounded row
  graph::Memory rounded;        // x: that row, or the rows of every choice by expert
  // Of the last replay: the lists themselves are gone by its end.
  std::unique_ptr<std::int64_t> n_chosen = std::make_unique<std::int64_t>(0);

  ExpertLists lists(int worker) const {
    const RoutingMemory::Arrays arrays = routing.at(lists_memory.copy(worker));
    ExpertLists lists = arrays.lists;
    lists.n_parts = *arrays.n_parts;
    return lists;
  }
  const FeedForward& expert(const ExpertPart& part) const {
    return call.experts[static_cast<std::size_t>(part.expert)];
  }
  std::byte* row_of(const graph::Memory& memory, const tile::Product& product, std::int64_t k,
                    std::int64_t row, int worker) const {
    return memory.copy(worker) +
           static_cast<std::size_t>(row * product.plan().prepared_row_bytes(k));
  }
  float* inner_row(std::int64_t row, int worker) const {
    return reinterpret_cast<float*>(inner_values.copy(worker)) + row * inner;
  }
  double expert_bytes(const PackedLinear FeedForward::* matrix) const {
    return static_cast<double>(*n_chosen) *
           static_cast<double>((call.experts.front().*matrix).bytes());
  }
  // Multiply-adds of the three matrices of every choice.
  double operations(std::int64_t matrices) const {
    return 2.0 * static_cast<double>(matrices * *call.x.count.now * call.routing.top_k * inner *
                                     call.x.columns);
  }
};

using SharedPointer = std::shared_ptr<const Shared>;

struct RouteBody {
  SharedPointer shared;

  std::int64_t tasks(int) const noexcept { return 1; }
  void run(std::int64_t, std::int64_t, int worker) const noexcept {
    const RecordedMoe& call = shared->call;
    RoutingMemory::Arrays a = shared->routing.at(shared->lists_memory.copy(worker));
    const Rows scores = shared->scores.at(worker);
    for (std::int64_t row = 0; row < scores.rows; ++row) {
      const std::int64_t at = row * call.routing.top_k;
      route_token(scores.row(row), call.routing, a.scratch, a.chosen + at, a.weights + at);
    }
    sort_by_expert(a.chosen, a.weights, scores.rows * call.routing.top_k, call.routing.top_k,
                   shared->routing.n_experts, a.end, a.lists);
    *a.n_parts = a.lists.n_parts;
    if (worker != 0) return;
    *shared->n_chosen = a.lists.n_parts;
    *call.experts_read += a.lists.n_parts;
  }
  graph::Work work() const noexcept {
    return {0, 50.0 * static_cast<double>(*shared->call.x.count.now * shared->routing.n_experts)};
  }
};

// A task is an expert: its rows of x, rounded.
struct GatherBody {
  SharedPointer shared;

  std::int64_t tasks(int worker) const noexcept { return shared->lists(worker).n_parts; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ExpertLists lists = shared->lists(worker);
    const Rows x = shared->call.x.at(worker);
    for (std::int64_t i = begin; i < end; ++i) {
      const ExpertPart& part = lists.parts[i];
      tile::ProductArguments call;
      call.x = x.data;
      call.x_index = lists.tokens + part.first;
      call.x_stride = x.stride * kFloat;
      call.rows = part.rows;
      call.k = x.columns;
      call.prepared = shared->row_of(shared->rounded, *shared->up, x.columns, part.first, worker);
      shared->up->prepare(call, 0, shared->up->plan().blocks(call.rows));
    }
  }
  graph::Work work() const noexcept {
    const RecordedMoe& call = shared->call;
    return {0, 8.0 * static_cast<double>(*call.x.count.now * call.routing.top_k * call.x.columns)};
  }
};

// A task is a strip of an expert's gate and up, expert by expert.
struct UpBody {
  SharedPointer shared;

  std::int64_t strips() const { return shared->call.experts.front().gate_up.strips(); }
  std::int64_t tasks(int worker) const noexcept { return shared->lists(worker).n_parts * strips(); }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ExpertLists lists = shared->lists(worker);
    const std::int64_t n = strips();
    for (std::int64_t i = begin / n; i * n < end; ++i) {
      const ExpertPart& part = lists.parts[i];
      const PackedLinear& w = shared->expert(part).gate_up;
      const std::int64_t row = shared->one_row ? 0 : part.first;
      tile::ProductArguments call;
      call.prepared = shared->row_of(shared->rounded, *shared->up, w.k(), row, worker);
      call.rows = part.rows;
      call.k = w.k();
      call.n = w.n();
      call.weight = w.data();
      call.out = shared->inner_row(part.first, worker);
      call.out_stride = shared->inner * kFloat;
      call.epilogue = Epilogue::kSwiglu;
      shared->up->multiply(call, std::max(begin - i * n, std::int64_t{0}), std::min(end - i * n, n),
                           0, shared->up->plan().blocks(call.rows));
    }
  }
  graph::Work work() const noexcept {
    return {shared->expert_bytes(&FeedForward::gate_up), shared->operations(2)};
  }
};

// A task is an expert: its inner values, rounded.
struct RoundInnerBody {
  SharedPointer shared;

  std::int64_t tasks(int worker) const noexcept { return shared->lists(worker).n_parts; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ExpertLists lists = shared->lists(worker);
    for (std::int64_t i = begin; i < end; ++i) {
      const ExpertPart& part = lists.parts[i];
      tile::ProductArguments call;
      call.x = shared->inner_row(part.first, worker);
      call.x_stride = shared->inner * kFloat;
      call.rows = part.rows;
      call.k = shared->inner;
      call.prepared =
          shared->row_of(shared->inner_rounded, *shared->down, shared->inner, part.first, worker);
      shared->down->prepare(call, 0, shared->down->plan().blocks(call.rows));
    }
  }
  graph::Work work() const noexcept {
    const RecordedMoe& call = shared->call;
    return {0, 8.0 * static_cast<double>(*call.x.count.now * call.routing.top_k * shared->inner)};
  }
};

// A task is a strip of the outputs, to which all experts add in their order.
struct DownBody {
  SharedPointer shared;
  std::optional<RecordedOperand> shared_inner;  // of the shared experts, which come first

  std::int64_t tasks(int) const noexcept { return shared->call.experts.front().down.strips(); }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const RecordedMoe& moe = shared->call;
    const Rows y = moe.y.at(worker);
    tile::ProductArguments call;
    call.n = y.columns;
    call.out = y.data;
    call.out_stride = y.stride * kFloat;
    if (shared_inner) {
      const PackedLinear& w = moe.shared->down;
      call.prepared = shared_inner->memory.copy(worker);
      call.rows = y.rows;
      call.k = w.k();
      call.weight = w.data();
      call.epilogue = Epilogue::kAdd;
      const tile::Product& product = *shared_inner->product;
      product.multiply(call, begin, end, 0, product.plan().blocks(call.rows));
    }
    const ExpertLists lists = shared->lists(worker);
    for (std::int64_t i = 0; i < lists.n_parts; ++i) {
      const ExpertPart& part = lists.parts[i];
      const PackedLinear& w = shared->expert(part).down;
      call.prepared =
          shared->row_of(shared->inner_rounded, *shared->down, w.k(), part.first, worker);
      call.rows = part.rows;
      call.k = w.k();
      call.weight = w.data();
      call.out_index = lists.tokens + part.first;
      call.row_scale = lists.weights + part.first;
      call.epilogue = Epilogue::kScaledAdd;
      shared->down->multiply(call, begin, end, 0, shared->down->plan().blocks(call.rows));
    }
  }
  graph::Work work() const noexcept {
    graph::Work work{shared->expert_bytes(&FeedForward::down), shared->operations(1)};
    if (!shared_inner) return work;
    const PackedLinear& w = shared->call.shared->down;
    work.bytes += static_cast<double>(w.bytes());
    work.operations += 2 * static_cast<double>(w.n() * w.k() * *shared->call.x.count.now);
    return work;
  }
};

graph::Memory values(graph::Recorder& recorder, const std::string& name, std::int64_t bytes,
                     bool per_worker) {
  graph::BufferInfo info;
  info.name = name;
  info.bytes = static_cast<std::size_t>(bytes);
  info.per_worker = per_worker;
  return recorder.buffer(info);
}

}  // namespace

void record_feed_forward(graph::Recorder& recorder, const std::string& name, const RecordedRows& x,
                         const FeedForward& ffn, const RecordedRows& y) {
  const RecordedRows inner = record_rows(recorder, name + " inner", x.count, ffn.down.k());
  record_linear(recorder, name + " up", x, ffn.gate_up, inner, Epilogue::kSwiglu);
  record_linear(recorder, name + " down", inner, ffn.down, y, Epilogue::kAdd);
}

void record_moe(graph::Recorder& recorder, const RecordedMoe& call) {
  const std::string& name = call.name;
  recorder.set_part(to_string(StepPart::kRouter));
  const RowCount count = call.x.count;
  const FeedForward& any = call.experts.front();
  const std::int64_t n_choices = count.max * call.routing.top_k;
  const bool with_shared = !call.shared->empty();

  auto made = std::make_shared<Shared>();
  Shared& s = *made;
  s.call = call;
  s.routing = {n_choices, std::ssize(call.experts),
               std::min(n_choices, static_cast<std::int64_t>(std::ssize(call.experts)))};
  s.up = &tile::shared_product(any.gate_up.layout());
  s.down = &tile::shared_product(any.down.layout());
  s.inner = any.down.k();
  s.one_row = count.max == 1;
  s.lists_memory =
      values(recorder, name + " lists", static_cast<std::int64_t>(s.routing.bytes()), true);
  s.scores = record_rows(recorder, name + " scores", count, call.router->n());

  // The router beside the shared experts, which do not wait for it.
  const RecordedOperand as_fp32 =
      record_operand(recorder, name + " router input", call.x, call.router->layout());
  std::optional<RecordedOperand> operand;
  RecordedRows shared_inner;
  if (with_shared) {
    operand = record_operand(recorder, name + " input", call.x, call.shared->gate_up.layout());
    shared_inner = record_rows(recorder, name + " shared inner", count, call.shared->down.k());
  }
  record_linear(recorder, name + " router", as_fp32, *call.router, s.scores);
  if (with_shared) {
    recorder.set_part(to_string(StepPart::kExpertsUp));
    record_linear(recorder, name + " shared up", *operand, call.shared->gate_up, shared_inner,
                  Epilogue::kSwiglu);
  }

  recorder.set_part(to_string(StepPart::kRouter));
  recorder.launch({.name = name + " choice",
                   .op = "route",
                   .spread = Spread::kEvery,
                   .reads = {s.scores.use()},
                   .writes = {{s.lists_memory.buffer}}},
                  RouteBody{made});
  recorder.set_part(to_string(StepPart::kExpertsUp));
  if (s.one_row) {
    if (!operand || operand->layout != any.gate_up.layout()) {
      operand = record_operand(recorder, name + " expert input", call.x, any.gate_up.layout());
    }
    s.rounded = operand->memory;
  } else {
    s.rounded = values(recorder, name + " expert input",
                       n_choices * s.up->plan().prepared_row_bytes(call.x.columns), false);
    recorder.launch({.name = name + " expert input",
                     .op = "round",
                     .spread = Spread::kShared,
                     .reads = {call.x.use(), {s.lists_memory.buffer}},
                     .writes = {{s.rounded.buffer}}},
                    GatherBody{made});
  }
  s.inner_values = values(recorder, name + " inner", n_choices * s.inner * kFloat, false);
  recorder.launch({.name = name + " up",
                   .op = "experts",
                   .shape = "chosen of " + shape_of(any.gate_up),
                   .spread = Spread::kShared,
                   .reads = {{s.rounded.buffer}, {s.lists_memory.buffer}},
                   .writes = {{s.inner_values.buffer}}},
                  UpBody{made});

  recorder.set_part(to_string(StepPart::kExpertsDown));
  const bool every = n_choices * s.inner <= kValuesOfEveryWorker;
  s.inner_rounded = values(recorder, name + " inner rounded",
                           n_choices * s.down->plan().prepared_row_bytes(s.inner), every);
  recorder.launch({.name = name + " inner rounded",
                   .op = "round",
                   .spread = every ? Spread::kEvery : Spread::kShared,
                   .reads = {{s.inner_values.buffer}, {s.lists_memory.buffer}},
                   .writes = {{s.inner_rounded.buffer}}},
                  RoundInnerBody{made});
  DownBody down{made, std::nullopt};
  graph::LaunchInfo info{.name = name + " down",
                         .op = "experts",
                         .shape = "chosen of " + shape_of(any.down),
                         .spread = Spread::kShared,
                         .reads = {{s.inner_rounded.buffer}, {s.lists_memory.buffer}, call.y.use()},
                         .writes = {call.y.use()}};
  if (with_shared) {
    down.shared_inner =
        record_operand(recorder, name + " shared inner", shared_inner, call.shared->down.layout());
    info.reads.push_back({down.shared_inner->memory.buffer});
  }
  recorder.launch(std::move(info), down);
}

}  // namespace tessera::ops
