// Feed-forward networks in a recorded step: what feed_forward() and moe() compute, with the same
// bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/linear/record.h"
#include "ops/moe/moe.h"
#include "ops/router/router.h"

namespace tessera::ops {

// y += ffn(x).
void record_feed_forward(graph::Recorder& recorder, const std::string& name, const RecordedRows& x,
                         const FeedForward& ffn, const RecordedRows& y);

struct RecordedMoe {
  std::string name;
  RecordedRows x;
  const PackedLinear* router = nullptr;
  RouterParameters routing;
  std::span<const FeedForward> experts;
  const FeedForward* shared = nullptr;   // may be empty
  RecordedRows y;                        // += shared(x) + the chosen experts
  std::int64_t* experts_read = nullptr;  // += experts whose weights a replay read
};

void record_moe(graph::Recorder& recorder, const RecordedMoe& call);

}  // namespace tessera::ops
