// SVG elements as text. Colours, fonts and lines come from the classes of the page's style sheet;
// coordinates are units of the picture, one of which is about a pixel.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/analyze/document.h"

namespace tessera::app::analyze {

constexpr double kChartWidth = 640;
constexpr double kFontSize = 13;
constexpr double kLineHeight = 17;

// An estimate that is rather too large: fonts differ.
double text_width(std::string_view text);

// The text, cut to that width where it is longer; an ellipsis tells.
std::string fitted(std::string_view text, double width);

enum class Anchor { kStart, kMiddle, kEnd };

class Svg {
 public:
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void rect(double x, double y, double width, double height, std::string_view style);
  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view style);
  // "x,y x,y ..." as SVG has it.
  void polyline(const std::string& points, std::string_view style);
  void polygon(const std::string& points, std::string_view style);
  // The sign of a series, which tells it apart without colours too.
  void marker(double x, double y, std::size_t series);

  // What a measured value looks like; its numbers, in the file's unit, are attributes, and what is
  // said about it when it is pointed at is its title. Closed by end_value().
  void begin_value(std::size_t series, std::string_view name, std::string_view at,
                   const Value& value, std::string_view title);
  void end_value();

  // The whole picture, described for those who do not see it. id: unique on the page.
  std::string finish(double height, std::string_view id, std::string_view title,
                     std::string_view description) const;

 private:
  std::string body_;
};

// The class of the n-th series: there are kSeriesStyles of them.
constexpr std::size_t kSeriesStyles = 6;
std::string series_style(std::size_t series);

// Rows of signs and names; y is the top. Returns the height that they take, 0 for no names.
struct LegendEntry {
  std::string name;
  std::optional<std::size_t> series;  // none: the line of a reference
};
double draw_legend(Svg& svg, double y, const std::vector<LegendEntry>& entries, bool with_lines);

}  // namespace tessera::app::analyze
