// Any bytes as a chat template, rendered for a conversation that has everything.
//
// Nothing but tessera::Error may be thrown, and marks must be sorted, apart, and inside the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include <tessera/error.h>

#include "text/chat_template.h"
#include "text/utf8.h"

namespace {

const nlohmann::ordered_json& variables() {
  static const auto kVariables = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": " Be brief. "},
      {"role": "user", "content": "a<｜User｜>b é中 </think> x"},
      {"role": "assistant", "content": null, "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"k": [1, 2.5, true, null]}}}]},
      {"role": "tool", "content": "22"},
      {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}],
    "tools": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "n": 7, "s": "abc", "l": ["a", "b"], "d": {"k": "v"}})");
  return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto program =
        tessera::text::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
    const tessera::text::MarkedText text =
        program.render(variables(), {.n_steps = 200'000, .n_bytes = 1 << 20});
    if (!tessera::text::is_valid_utf8(text.text)) std::abort();
    std::size_t end = 0;
    for (const tessera::text::ByteRange& range : text.user_ranges) {
      if (range.begin >= range.end || (range.begin <= end && end != 0)) std::abort();
      end = range.end;
    }
    if (end > text.text.size()) std::abort();
  } catch (const tessera::Error&) {
  }
  return 0;
}
