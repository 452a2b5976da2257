#include <algorithm>
#include <utility>
#include <vector>

#include "ops/matmul/matmul.h"
#include "ops/moe/moe.h"
#include "ops/swiglu/swiglu.h"

namespace tessera::ops {

namespace {

// The rows of one expert in the arrays that hold all chosen rows, grouped by expert.
struct Group {
  std::size_t expert;
  std::int64_t first;
  std::int64_t rows;
};

// One (token, choice) pair, sorted by expert and then token.
struct Choice {
  std::int32_t expert;
  std::int64_t token;
  float weight;
};

std::vector<Choice> choices_by_expert(std::span<const std::int32_t> chosen,
                                      std::span<const float> weights, std::int64_t top_k) {
  std::vector<Choice> choices(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    choices[i] = {chosen[i], static_cast<std::int64_t>(i) / top_k, weights[i]};
  }
  std::ranges::sort(choices, {}, [](const Choice& c) { return std::pair(c.expert, c.token); });
  return choices;
}

std::vector<Group> groups_of(const std::vector<Choice>& choices) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (groups.empty() || groups.back().expert != static_cast<std::size_t>(choices[i].expert)) {
      groups.push_back({static_cast<std::size_t>(choices[i].expert), static_cast<std::int64_t>(i), 0});
    }
    ++groups.back().rows;
  }
  return groups;
}

}  // namespace

void feed_forward(const ConstRows& x, const FeedForward& ffn, const Rows& y, Executor& executor) {
  const std::int64_t n = ffn.down.k();
  std::vector<float> hidden(static_cast<std::size_t>(x.rows * 2 * n));
  const Rows gate_up(hidden.data(), x.rows, 2 * n);
  matmul(x, ffn.gate_up.view(), gate_up, executor);
  swiglu(gate_up, gate_up.columns_from(0, n), executor);
  matmul(gate_up.columns_from(0, n), ffn.down.view(), y, executor);
}

void moe(const ConstRows& x, std::span<const FeedForward> experts,
         std::span<const std::int32_t> chosen, std::span<const float> weights, const Rows& y,
         Executor& executor) {
  if (x.rows == 0) return;
  const std::int64_t top_k = static_cast<std::int64_t>(chosen.size()) / x.rows;
  const std::vector<Choice> choices = choices_by_expert(chosen, weights, top_k);
  const std::vector<Group> groups = groups_of(choices);
  const auto n_choices = static_cast<std::int64_t>(choices.size());
  const std::int64_t hidden = x.columns;
  const std::int64_t n = experts.front().down.k();

  std::vector<float> memory(static_cast<std::size_t>(n_choices * (2 * hidden + 2 * n)));
  const Rows input(memory.data(), n_choices, hidden);
  const Rows gate_up(memory.data() + n_choices * hidden, n_choices, 2 * n);
  const Rows output(memory.data() + n_choices * (hidden + 2 * n), n_choices, hidden);

  for (std::int64_t i = 0; i < n_choices; ++i) {
    std::ranges::copy(x.row(choices[static_cast<std::size_t>(i)].token), input.row(i).begin());
  }
  std::vector<MatmulJob> jobs;
  for (const Group& g : groups) {
    jobs.push_back({input.rows_from(g.first, g.rows), experts[g.expert].gate_up.view(),
                    gate_up.rows_from(g.first, g.rows)});
  }
  matmul(jobs, executor);
  swiglu(gate_up, gate_up.columns_from(0, n), executor);
  jobs.clear();
  for (const Group& g : groups) {
    jobs.push_back({gate_up.rows_from(g.first, g.rows).columns_from(0, n),
                    experts[g.expert].down.view(), output.rows_from(g.first, g.rows)});
  }
  matmul(jobs, executor);
  for (std::int64_t i = 0; i < n_choices; ++i) {
    const Choice& choice = choices[static_cast<std::size_t>(i)];
    const auto from = output.row(i);
    const auto to = y.row(choice.token);
    for (std::size_t j = 0; j < to.size(); ++j) to[j] += choice.weight * from[j];
  }
}

}  // namespace tessera::ops
