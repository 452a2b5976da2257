// What llama-bench of llama.cpp and of ik_llama.cpp prints with -o json.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tessera::app {

// The rates in the output: prefill_tokens_per_second of a test of a prompt alone (n_prompt > 0,
// n_gen 0), decode_tokens_per_second of a test of generation alone. A rate is the median of
// samples_ts, or avg_ts where an old version writes no samples. Tests of both together (-pg) are
// passed over. Throws Error(kBadJson) for what is not such output, for two tests of one kind, and
// where neither rate is there.
std::map<std::string, double> parse_llama_bench(std::string_view output);

}  // namespace tessera::app
