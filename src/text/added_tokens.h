// Tokens that are found in the text as it stands, before it is split and merged.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"
#include "text/regex.h"

namespace tessera::text {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool is_special = false;  // left out by decode(skip_special)
  bool is_control =
      false;  // has a meaning to the model or the chat template; not for users to write
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and that after it
  bool normalized = false;   // looked for in the second pass
};

// Whether a token that looks like this steers the model: special, or bracketed as in "<｜User｜>".
bool is_control_token(std::string_view content, bool is_special);

// A part of the text: a token, or (id -1) text between tokens.
struct AddedTokenSpan {
  ByteRange bytes;
  std::int32_t id = -1;
};

// Splits texts at added tokens: first at those that are not `normalized`, then the text between at
// the others; in each pass the leftmost match, and of those the longest, wins.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Control tokens that touch a user's range are not recognised. text is valid UTF-8.
  std::vector<AddedTokenSpan> split(const MarkedText& text) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // A trie of bytes. Children are chained: few nodes have more than one.
  struct Node {
    char byte = 0;
    std::int32_t token = -1;  // index into tokens_ of the token that ends here
    std::int32_t first_child = -1;
    std::int32_t next_sibling = -1;
  };
  struct Trie {
    std::array<std::int32_t, 256> roots;
    std::vector<Node> nodes;
  };
  struct Match {
    ByteRange bytes;
    std::int32_t token = -1;
  };

  void insert(Trie& trie, std::int32_t token);
  Match find(const Trie& trie, const MarkedText& text, ByteRange where) const;
  void split_part(const Trie& trie, const MarkedText& text, ByteRange part,
                  std::vector<AddedTokenSpan>& spans) const;
  bool touches_word(std::string_view text, ByteRange match, ByteRange part) const;

  std::vector<AddedToken> tokens_;
  std::array<Trie, 2> tries_;  // by `normalized`
};

}  // namespace tessera::text
