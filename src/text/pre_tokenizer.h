// Splitting text into the pieces that BPE works on: tokenizer.json's "pre_tokenizer".
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/marked_text.h"
#include "text/regex.h"

namespace tessera::text {

// What a split does with the parts that match.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  Regex pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the parts between matches count as matches
};

class PreTokenizer {
 public:
  // A ByteLevel pre-tokenizer, or a Sequence of Split, Digits and, last, ByteLevel. Throws
  // Error(kUnsupported) or Error(kBadTokenizer).
  static PreTokenizer from_json(const nlohmann::json& json);

  // The working memory of one text: searches, and pieces that differ from the text.
  class Scratch {
   public:
    explicit Scratch(const PreTokenizer& pre_tokenizer);

   private:
    friend class PreTokenizer;
    struct Part {
      ByteRange bytes;
      bool is_match = false;
    };

    std::vector<RegexSearch> searches_;  // one for each step
    std::vector<Part> parts_;
    std::vector<ByteRange> ranges_;
    std::vector<ByteRange> next_ranges_;
    std::deque<std::string> prefixed_;
  };

  // Appends the pieces of text, in order. They view into text or, where a space was put in front,
  // into scratch.
  void split(std::string_view text, Scratch& scratch, std::vector<std::string_view>& pieces) const;

 private:
  void add(const nlohmann::json& json);
  void split_range(std::string_view text, std::size_t step, ByteRange range, Scratch& scratch,
                   std::vector<ByteRange>& out) const;

  std::vector<SplitStep> steps_;  // ByteLevel's own expression is the last of them, if it is used
  std::size_t n_steps_before_prefix_ = 0;
  bool add_prefix_space_ = false;
  bool has_byte_level_ = false;
};

}  // namespace tessera::text
