#include "text/stream_decoder.h"

#include <string_view>
#include <utility>

#include "text/utf8.h"

namespace tessera::text {

std::string StreamDecoder::push(std::int32_t id) {
  const std::string_view bytes = tokenizer_->bytes_of(id);
  if (skip_special_ && tokenizer_->is_special(id)) return "";
  const std::string all = std::exchange(pending_, {}).append(bytes);
  std::string text;
  for (std::size_t position = 0; position < all.size();) {
    const Sequence sequence = sequence_at(all, position);
    if (sequence.kind == SequenceKind::kIncomplete) {
      pending_ = all.substr(position);
      break;
    }
    append_utf8(text, sequence.code_point);
    position += sequence.n_bytes;
  }
  return text;
}

std::string StreamDecoder::finish() {
  return replace_invalid_utf8(std::exchange(pending_, {}));
}

}  // namespace tessera::text
