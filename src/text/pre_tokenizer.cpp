#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"
#include "text/tokenizer_json.h"

namespace tessera::text {

namespace {

using Json = nlohmann::json;

// ByteLevel's built-in expression: contractions, words, numbers, other signs, white space.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior behavior_from(const std::string& name) {
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail(ErrorCode::kUnsupported, "pre_tokenizer Split: the behavior '{}' is not supported", name);
}

Regex split_pattern(const Json& split) {
  const auto pattern = split.find("pattern");
  if (pattern == split.end() || !pattern->is_object() || pattern->size() != 1) {
    fail(ErrorCode::kBadTokenizer,
         "pre_tokenizer Split: 'pattern' is neither a Regex nor a String");
  }
  if (pattern->contains("Regex")) {
    return Regex::compile(string_member(*pattern, "pre_tokenizer Split", "Regex"));
  }
  const std::string text = string_member(*pattern, "pre_tokenizer Split", "String");
  if (text.empty()) fail(ErrorCode::kUnsupported, "pre_tokenizer Split: the pattern is empty");
  return Regex::literal(text);
}

SplitStep split_step(const Json& json) {
  constexpr std::string_view kWhere = "pre_tokenizer Split";
  refuse_unknown_members(json, kWhere, {"type", "pattern", "behavior", "invert"});
  return {split_pattern(json), behavior_from(string_member(json, kWhere, "behavior")),
          bool_member(json, kWhere, "invert", false)};
}

SplitStep digits_step(const Json& json) {
  constexpr std::string_view kWhere = "pre_tokenizer Digits";
  refuse_unknown_members(json, kWhere, {"type", "individual_digits"});
  // One number character a match; runs of them are joined afterwards.
  const bool is_individual = bool_member(json, kWhere, "individual_digits", false);
  return {Regex::compile(R"(\p{N})"),
          is_individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false};
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const Json& json) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(json);
  if (!pre_tokenizer.has_byte_level_) {
    fail(ErrorCode::kUnsupported, "pre_tokenizer: without ByteLevel it is not supported");
  }
  return pre_tokenizer;
}

void PreTokenizer::add(const Json& json) {
  const std::string type = string_member(json, "pre_tokenizer", "type");
  if (has_byte_level_) {
    fail(ErrorCode::kUnsupported, "pre_tokenizer: '{}' after ByteLevel is not supported", type);
  }
  if (type == "Sequence") {
    constexpr std::string_view kWhere = "pre_tokenizer Sequence";
    refuse_unknown_members(json, kWhere, {"type", "pretokenizers"});
    const auto list = json.find("pretokenizers");
    if (list == json.end() || !list->is_array()) {
      fail(ErrorCode::kBadTokenizer, "{}: the list 'pretokenizers' is missing", kWhere);
    }
    for (const Json& step : *list) {
      if (string_member(step, kWhere, "type") == "Sequence") {
        fail(ErrorCode::kUnsupported, "{}: a Sequence inside is not supported", kWhere);
      }
      add(step);
    }
  } else if (type == "Split") {
    steps_.push_back(split_step(json));
    n_steps_before_prefix_ = steps_.size();
  } else if (type == "Digits") {
    steps_.push_back(digits_step(json));
    n_steps_before_prefix_ = steps_.size();
  } else if (type == "ByteLevel") {
    constexpr std::string_view kWhere = "pre_tokenizer ByteLevel";
    refuse_unknown_members(json, kWhere, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    add_prefix_space_ = bool_member(json, kWhere, "add_prefix_space", true);
    if (bool_member(json, kWhere, "use_regex", true)) {
      steps_.push_back({Regex::compile(kByteLevelPattern), SplitBehavior::kIsolated, false});
    }
    has_byte_level_ = true;
  } else {
    fail(ErrorCode::kUnsupported, "pre_tokenizer: '{}' is not supported", type);
  }
}

PreTokenizer::Scratch::Scratch(const PreTokenizer& pre_tokenizer) {
  for (const SplitStep& step : pre_tokenizer.steps_) searches_.emplace_back(step.pattern);
}

// Splits one range; its text alone is what anchors and lookaround of the pattern see.
void PreTokenizer::split_range(std::string_view text, std::size_t step, ByteRange range,
                               Scratch& scratch, std::vector<ByteRange>& out) const {
  const std::string_view subject = text.substr(range.begin, range.end - range.begin);
  RegexSearch& search = scratch.searches_[step];
  const bool can_match_empty = steps_[step].pattern.can_match_empty();
  std::vector<Scratch::Part>& parts = scratch.parts_;
  parts.clear();
  const auto put = [&](std::size_t begin, std::size_t end, bool is_match) {
    parts.push_back({{range.begin + begin, range.begin + end}, is_match != steps_[step].invert});
  };
  std::size_t done = 0;
  bool has_match = false;
  for (std::size_t from = 0;
       from < subject.size() || (can_match_empty && from == subject.size());) {
    ByteRange match;
    if (!search.next(subject, from, match)) break;
    if (match.begin == match.end && has_match && match.end == done) {
      // An empty match right behind the last one does not count: look from the next character on.
      do {
        ++from;
      } while (from < subject.size() && (static_cast<unsigned char>(subject[from]) & 0xC0) == 0x80);
      continue;
    }
    if (done != match.begin) put(done, match.begin, false);
    put(match.begin, match.end, true);
    has_match = true;
    done = from = match.end;
  }
  if (done != subject.size()) put(done, subject.size(), false);

  const std::size_t first = out.size();
  const SplitBehavior behavior = steps_[step].behavior;
  bool previous = false;
  if (behavior == SplitBehavior::kMergedWithNext) std::reverse(parts.begin(), parts.end());
  for (const Scratch::Part& part : parts) {
    bool joins = false;
    if (behavior == SplitBehavior::kRemoved && part.is_match) continue;
    if (behavior == SplitBehavior::kContiguous) joins = part.is_match == previous;
    if (behavior == SplitBehavior::kMergedWithPrevious ||
        behavior == SplitBehavior::kMergedWithNext) {
      joins = part.is_match && !previous;
    }
    previous = part.is_match;
    if (joins && out.size() > first) {
      out.back().begin = std::min(out.back().begin, part.bytes.begin);
      out.back().end = std::max(out.back().end, part.bytes.end);
    } else {
      out.push_back(part.bytes);
    }
  }
  if (behavior == SplitBehavior::kMergedWithNext) {
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }
  if (can_match_empty) {
    out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                             [](const ByteRange& part) { return part.begin == part.end; }),
              out.end());
  }
}

void PreTokenizer::split(std::string_view text, Scratch& scratch,
                         std::vector<std::string_view>& pieces) const {
  if (text.empty()) return;
  std::vector<ByteRange>& ranges = scratch.ranges_;
  std::vector<ByteRange>& next = scratch.next_ranges_;
  const auto run = [&](std::string_view subject, std::size_t step, std::size_t last_step) {
    for (; step < last_step; ++step) {
      next.clear();
      for (const ByteRange& range : ranges) split_range(subject, step, range, scratch, next);
      ranges.swap(next);
    }
  };
  ranges.assign(1, {0, text.size()});
  if (!add_prefix_space_) {
    run(text, 0, steps_.size());
    for (const ByteRange& range : ranges) {
      pieces.push_back(text.substr(range.begin, range.end - range.begin));
    }
    return;
  }
  run(text, 0, n_steps_before_prefix_);
  for (const ByteRange& part : std::vector<ByteRange>(ranges)) {
    std::string_view piece = text.substr(part.begin, part.end - part.begin);
    if (piece.front() != ' ') piece = scratch.prefixed_.emplace_back(" ").append(piece);
    ranges.assign(1, {0, piece.size()});
    run(piece, n_steps_before_prefix_, steps_.size());
    for (const ByteRange& range : ranges) {
      pieces.push_back(piece.substr(range.begin, range.end - range.begin));
    }
  }
}

}  // namespace tessera::text
