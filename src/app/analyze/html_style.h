// The style sheet of the page.
#pragma once

#include <string_view>

namespace tessera::app::analyze {

// Colours of series are told apart with any kind of colour vision, and have a contrast of at least
// 3 to 1 to the background; signs and names tell them apart without colours.
extern const std::string_view kPageStyle;

}  // namespace tessera::app::analyze
