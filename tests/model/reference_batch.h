// The four sequences of different lengths of tests/data/reference, as one batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/kv_cache.h"
#include "tests/compare.h"
#include "tests/model/reference_data.h"

namespace tessera::testing {

// Pages that the batch and what came before it take.
inline constexpr std::int64_t kReferenceBatchPages = 6;

// Reads the sequences `chunk` tokens a step, with NaN in everything of the cache that does not
// belong to them, and expects the logits of each alone. Returns how many tokens they have.
inline std::size_t expect_reference_batch(const ReferenceValues& expected, ForwardPass& forward,
                                          KvCache& cache, std::int64_t n_layers,
                                          std::size_t chunk) {
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const auto bytes = cache.raw_layer(layer);
    std::memset(bytes.data(), 0xff, bytes.size());  // NaN in every element
  }
  // A sequence that came and went, so that pages are not handed out in order.
  const SequenceId gone = cache.add_sequence();
  cache.extend(gone, KvCache::kPageTokens + 1);
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::vector<float>> logits(4);
  std::vector<SequenceId> sequences;
  std::size_t n_tokens = 0;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(expected.ids("batch." + std::to_string(i) + ".ids"));
    n_tokens += ids.back().size();
    sequences.push_back(cache.add_sequence());
    if (i == 1) cache.remove_sequence(gone);
  }
  for (std::size_t first = 0; first < 40; first += chunk) {
    std::vector<Segment> segments;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (first >= ids[i].size()) continue;
      const auto part = std::span(ids[i]).subspan(first, std::min(chunk, ids[i].size() - first));
      segments.push_back({sequences[i], part, std::ssize(part)});
      owner.insert(owner.end(), part.size(), i);
    }
    const ops::ConstRows rows = forward.run(segments, cache);
    for (std::size_t r = 0; r < owner.size(); ++r) {
      const auto row = rows.row(static_cast<std::int64_t>(r));
      logits[owner[r]].insert(logits[owner[r]].end(), row.begin(), row.end());
    }
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(
        close(logits[i], expected.floats("batch." + std::to_string(i) + ".fp32.logits"), 1e-4))
        << "sequence " << i << ", chunks of " << chunk;
  }
  return n_tokens;
}

}  // namespace tessera::testing
