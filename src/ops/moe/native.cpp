#include <algorithm>
#include <vector>

#include "ops/moe/expert_lists.h"
#include "ops/moe/moe.h"

namespace tessera::ops {

namespace {

// A network and the rows that it is given: all of them, or those of `tokens`.
struct Part {
  const FeedForward* ffn;
  std::int64_t rows;
  std::span<const std::int32_t> tokens;  // empty: all rows, with weight 1
  std::span<const float> weights;
};

// y += the parts, in their order. The first region computes every part's inner values, the second
// adds what comes of them.
void run(const ConstRows& x, std::span<const Part> parts, const Rows& y, StepPart up_part,
         StepPart down_part, Executor& executor) {
  std::int64_t values = 0;
  for (const Part& part : parts) values += part.rows * part.ffn->down.k();
  float* inner = executor.worker(0).scratch<float>(Worker::kFeedForwardSlot, values);

  std::vector<LinearJob> up(parts.size());
  std::vector<LinearJob> down(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const Rows hidden(inner, part.rows, part.ffn->down.k());
    inner += part.rows * hidden.columns;
    up[i].x = x;
    up[i].x_rows = part.tokens;
    up[i].w = &part.ffn->gate_up;
    up[i].y = hidden;
    up[i].epilogue = Epilogue::kSwiglu;
    down[i].x = hidden;
    down[i].w = &part.ffn->down;
    down[i].y = y;
    down[i].y_rows = part.tokens;
    down[i].y_scale = part.weights;
    down[i].epilogue = part.tokens.empty() ? Epilogue::kAdd : Epilogue::kScaledAdd;
  }
  {
    const StepScope scope(executor.profile(), up_part);
    linear(up, executor);
  }
  const StepScope scope(executor.profile(), down_part);
  linear(down, executor);
}

}  // namespace

void feed_forward(const ConstRows& x, const FeedForward& ffn, const Rows& y, Executor& executor) {
  const Part part{&ffn, x.rows, {}, {}};
  run(x, std::span(&part, 1), y, StepPart::kDense, StepPart::kDense, executor);
}

void moe(const ConstRows& x, std::span<const FeedForward> experts, const FeedForward& shared,
         std::span<const std::int32_t> chosen, std::span<const float> weights, const Rows& y,
         Executor& executor) {
  if (x.rows == 0) return;
  const std::int64_t top_k = std::ssize(chosen) / x.rows;
  std::vector<std::int32_t> end(experts.size());
  std::vector<std::int32_t> tokens(chosen.size());
  std::vector<float> by_expert(chosen.size());
  std::vector<ExpertPart> chosen_experts(std::min(chosen.size(), experts.size()));
  ExpertLists lists{tokens.data(), by_expert.data(), chosen_experts.data()};
  sort_by_expert(chosen.data(), weights.data(), std::ssize(chosen), top_k, std::ssize(experts),
                 end.data(), lists);

  std::vector<Part> parts;
  if (!shared.empty()) parts.push_back({&shared, x.rows, {}, {}});
  for (std::int64_t i = 0; i < lists.n_parts; ++i) {
    const ExpertPart& part = lists.parts[i];
    const auto first = static_cast<std::size_t>(part.first);
    const auto rows = static_cast<std::size_t>(part.rows);
    parts.push_back({&experts[static_cast<std::size_t>(part.expert)], part.rows,
                     std::span(tokens).subspan(first, rows),
                     std::span(by_expert).subspan(first, rows)});
  }
  if (StepProfile* profile = executor.profile()) {
    profile->count_experts(lists.n_parts);
  }
  run(x, parts, y, StepPart::kExpertsUp, StepPart::kExpertsDown, executor);
}

}  // namespace tessera::ops
