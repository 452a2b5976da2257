// A command line in one string, as a user writes --a "--dtype int8 --system 'be brief'".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::app {

// The words of the text, split and unquoted as a POSIX shell would: 'as it is', "with \" \\ \$ \`",
// and \ before a single character. Nothing is expanded or run. Throws Error(kInvalidArgument),
// naming `option`, for a quote that is not closed and for a backslash at the end.
std::vector<std::string> split_words(std::string_view text, std::string_view option);

// The words as one line that split_words(), and a shell, would split into them again.
std::string join_words(const std::vector<std::string>& words);

}  // namespace tessera::app
