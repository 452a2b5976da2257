// Text of a growing list of token ids, as soon as it is certain.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace tessera::text {

// Tokens may end inside a character: its bytes wait here for the rest. What push() and finish()
// return, joined, is decode() of all the ids.
class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that id completes; may be "". Throws Error(kInvalidArgument) for an id that no token
  // has.
  std::string push(std::int32_t id);

  // An unfinished character, as U+FFFD, or "". The decoder is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // the start of a character: at most 3 bytes
};

}  // namespace tessera::text
