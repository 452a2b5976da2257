// Any bytes as tokenizer.json, then texts through what came of it.
//
// Nothing but tessera::Error may be thrown. Where no part of a text is removed or prefixed and
// every byte has a token, decoding gives the text back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tessera/error.h>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using tessera::text::SpecialTokens;
using tessera::text::Tokenizer;

namespace {

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

void check_text(const Tokenizer& tokenizer, std::string_view text, bool is_lossless) {
  for (const SpecialTokens mode : {SpecialTokens::kParse, SpecialTokens::kPlain}) {
    std::vector<std::int32_t> ids;
    try {
      ids = tokenizer.encode(text, mode);
    } catch (const tessera::Error&) {
      continue;  // a byte without a token, or a pattern that takes too long
    }
    const std::string decoded = tokenizer.decode(ids, false);
    if (is_lossless &&
        without_spaces(decoded) != without_spaces(tessera::text::replace_invalid_utf8(text))) {
      std::abort();
    }
    tessera::text::StreamDecoder decoder(tokenizer, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += decoder.push(id);
    if (streamed + decoder.finish() != decoded) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::parse(bytes, "input");
    // "strip" of added tokens and "Removed" of splits lose text, escapes may hide either; a
    // prefix space only adds spaces.
    bool is_lossless = true;
    for (const std::string_view lossy : {"strip\"", "Removed", "\\u"}) {
      is_lossless = is_lossless && bytes.find(lossy) == std::string_view::npos;
    }
    check_text(tokenizer, "a b<x> 12\n", is_lossless);
    check_text(tokenizer, "é中\xF0\x9F\x98\x80\xFF\xC3", is_lossless);
    check_text(tokenizer, bytes.substr(size - size / 8 < size ? size - size / 8 : 0).substr(0, 64),
               is_lossless);
  } catch (const tessera::Error&) {
  }
  return 0;
}
