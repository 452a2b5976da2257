// Text from files, made fit for an HTML page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::app::analyze {

// With <, >, &, " and ' as entities, and control characters and bytes that are not UTF-8 written as
// escapes: good for elements and for attributes in quotes.
std::string escaped(std::string_view text);

// Columns of a terminal, and about as many halves of an em on a page: 2 for wide characters (CJK,
// emoji), 0 for combining marks, else 1.
std::size_t display_width(std::string_view text);

// The text, cut to at most that many columns, the last of which is then an ellipsis.
std::string shortened(std::string_view text, std::size_t columns);

}  // namespace tessera::app::analyze
