// Charts as SVG, for a page that has the style sheet of html_page.cpp.
#pragma once

#include <string>

#include "app/analyze/document.h"

namespace tessera::app::analyze {

// id: unique on the page, of letters, digits and dashes.
std::string draw(const LineChart& chart, const std::string& id);
std::string draw(const CategoryChart& chart, const std::string& id);

}  // namespace tessera::app::analyze
