#include "text/marked_text.h"

#include <algorithm>
#include <utility>

namespace tessera::text {

namespace {

// The first range that ends after position.
std::vector<ByteRange>::const_iterator first_after(const std::vector<ByteRange>& ranges,
                                                   std::size_t position) {
  return std::upper_bound(ranges.begin(), ranges.end(), position,
                          [](std::size_t at, const ByteRange& range) { return at < range.end; });
}

}  // namespace

MarkedText MarkedText::from_user(std::string text) {
  MarkedText marked{std::move(text), {}};
  if (!marked.text.empty()) marked.user_ranges.push_back({0, marked.text.size()});
  return marked;
}

MarkedText MarkedText::slice(std::size_t begin, std::size_t end) const {
  MarkedText part{text.substr(begin, end - begin), {}};
  for (auto range = first_after(user_ranges, begin);
       range != user_ranges.end() && range->begin < end; ++range) {
    const ByteRange clipped{std::max(range->begin, begin) - begin,
                            std::min(range->end, end) - begin};
    if (clipped.begin < clipped.end) part.user_ranges.push_back(clipped);
  }
  return part;
}

void MarkedText::append(const MarkedText& tail) {
  const std::size_t offset = text.size();
  text += tail.text;
  for (const ByteRange& range : tail.user_ranges) {
    const ByteRange moved{range.begin + offset, range.end + offset};
    if (!user_ranges.empty() && user_ranges.back().end == moved.begin) {
      user_ranges.back().end = moved.end;
    } else {
      user_ranges.push_back(moved);
    }
  }
}

bool MarkedText::touches_user(std::size_t begin, std::size_t end) const {
  const auto range = first_after(user_ranges, begin);
  return range != user_ranges.end() && range->begin < end;
}

}  // namespace tessera::text
