// Names that come out of a file, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The text in double quotes, with control characters, quotes, backslashes and bytes that are not
// UTF-8 written as escapes (\n, \x1b), and cut after 120 bytes: a message stays one line whatever
// the file holds.
std::string in_quotes(std::string_view text);

// The whole text, with control characters and bytes that are not UTF-8 written as escapes.
std::string on_one_line(std::string_view text);

}  // namespace tessera
