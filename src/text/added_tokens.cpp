#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"
#include "text/utf8.h"

namespace tessera::text {

namespace {

bool is_space(char32_t code_point) {  // Unicode's White_Space
  return is_python_space(code_point) && !(code_point >= 0x1C && code_point <= 0x1F);
}

// Start of the character that ends at position > 0.
std::size_t character_before(std::string_view text, std::size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

}  // namespace

bool is_control_token(std::string_view content, bool is_special) {
  return is_special || (content.starts_with('<') && content.ends_with('>'));
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (Trie& trie : tries_) trie.roots.fill(-1);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    insert(tries_[tokens_[i].normalized ? 1 : 0], static_cast<std::int32_t>(i));
  }
}

void AddedTokenFinder::insert(Trie& trie, std::int32_t token) {
  std::int32_t node = -1;
  for (const char byte : tokens_[token].content) {
    const auto link = [&]() -> std::int32_t& {
      return node < 0 ? trie.roots[static_cast<unsigned char>(byte)] : trie.nodes[node].first_child;
    };
    std::int32_t child = link();
    while (child >= 0 && trie.nodes[child].byte != byte) child = trie.nodes[child].next_sibling;
    if (child < 0) {
      child = static_cast<std::int32_t>(trie.nodes.size());
      trie.nodes.push_back({byte, -1, -1, link()});
      link() = child;
    }
    node = child;
  }
  trie.nodes[node].token = token;
}

AddedTokenFinder::Match AddedTokenFinder::find(const Trie& trie, const MarkedText& text,
                                               ByteRange where) const {
  const std::string_view bytes = text.text;
  for (std::size_t begin = where.begin; begin < where.end; ++begin) {
    Match longest;
    std::int32_t node = trie.roots[static_cast<unsigned char>(bytes[begin])];
    for (std::size_t end = begin + 1; node >= 0; ++end) {
      const std::int32_t token = trie.nodes[node].token;
      if (token >= 0 && !(tokens_[token].is_control && text.touches_user(begin, end))) {
        longest = {{begin, end}, token};
      }
      if (end == where.end) break;
      node = trie.nodes[node].first_child;
      while (node >= 0 && trie.nodes[node].byte != bytes[end]) node = trie.nodes[node].next_sibling;
    }
    if (longest.token >= 0) return longest;
  }
  return {};
}

bool AddedTokenFinder::touches_word(std::string_view text, ByteRange match, ByteRange part) const {
  // \w of the Rust regex crate.
  static const Regex kWord =
      Regex::compile_native(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}])");
  RegexSearch search(kWord);
  const auto is_word = [&](std::size_t begin) {
    ByteRange found;
    return search.next(text.substr(begin, sequence_at(text, begin).n_bytes), 0, found);
  };
  return (match.begin > part.begin && is_word(character_before(text, match.begin))) ||
         (match.end < part.end && is_word(match.end));
}

void AddedTokenFinder::split_part(const Trie& trie, const MarkedText& text, ByteRange part,
                                  std::vector<AddedTokenSpan>& spans) const {
  const std::string_view bytes = text.text;
  std::size_t done = part.begin;  // everything before lies in spans
  for (std::size_t from = part.begin;;) {
    const Match match = find(trie, text, {from, part.end});
    if (match.token < 0) break;
    from = match.bytes.end;
    const AddedToken& token = tokens_[match.token];
    if (token.single_word && touches_word(bytes, match.bytes, part)) continue;
    auto [begin, end] = match.bytes;
    while (token.lstrip && begin > done) {
      const std::size_t before = character_before(bytes, begin);
      if (!is_space(sequence_at(bytes, before).code_point)) break;
      begin = before;
    }
    while (token.rstrip && end < part.end) {
      const Sequence after = sequence_at(bytes, end);
      if (!is_space(after.code_point)) break;
      end += after.n_bytes;
    }
    if (done < begin) spans.push_back({{done, begin}, -1});
    spans.push_back({{begin, end}, token.id});
    done = end;
  }
  if (done < part.end) spans.push_back({{done, part.end}, -1});
}

std::vector<AddedTokenSpan> AddedTokenFinder::split(const MarkedText& text) const {
  std::vector<AddedTokenSpan> first;
  split_part(tries_[0], text, {0, text.text.size()}, first);
  std::vector<AddedTokenSpan> second;
  for (const AddedTokenSpan& span : first) {
    if (span.id >= 0) {
      second.push_back(span);
    } else {
      split_part(tries_[1], text, span.bytes, second);
    }
  }
  return second;
}

}  // namespace tessera::text
