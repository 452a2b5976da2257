#include "app/analyze/chart/svg.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "app/analyze/html_text.h"
#include "text/utf8.h"

namespace tessera::app::analyze {

namespace {

constexpr double kMarker = 4.5;  // half of its size
constexpr double kSign = 26;     // of an entry of the legend
constexpr double kEntryGap = 18;
constexpr double kEllipsis = 1;  // of the font's size

template <typename... Args>
void append(std::string& body, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(body), text, std::forward<Args>(args)...);
}

// Takes a character away and returns its width in ems, that of DejaVu Sans, a wide font, or more.
double take_width(std::string_view& text) {
  const text::Sequence character = text::sequence_at(text, 0);
  const std::string_view bytes = text.substr(0, character.n_bytes);
  text.remove_prefix(character.n_bytes);
  if (bytes.size() > 1) return display_width(bytes) == 0 ? 0 : 1;
  const char c = bytes[0];
  if (std::string_view("mMW@%").find(c) != std::string_view::npos) return 1;
  if (c == 'w' || ('A' <= c && c <= 'Z') ||
      std::string_view("+=<>~&#").find(c) != std::string_view::npos) {
    return 0.85;
  }
  if (std::string_view(" .,:;'|!iljtfrI()[]/-").find(c) != std::string_view::npos) return 0.42;
  return 0.65;
}

std::string_view anchor_name(Anchor anchor) {
  return anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
}

}  // namespace

double text_width(std::string_view text) {
  double ems = 0;
  while (!text.empty()) ems += take_width(text);
  return ems * kFontSize;
}

std::string fitted(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  std::string_view rest = text;
  std::size_t end = 0;
  for (double ems = kEllipsis; !rest.empty();) {
    ems += take_width(rest);
    if (ems * kFontSize > width) break;
    end = text.size() - rest.size();
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string series_style(std::size_t series) {
  return fmt::format("s{}", series % kSeriesStyles);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  append(body_, "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
         x1, y1, x2, y2, style);
}

void Svg::rect(double x, double y, double width, double height, std::string_view style) {
  append(body_,
         "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"1.5\" "
         "class=\"{}\"/>\n",
         x, y, width, height, style);
}

void Svg::text(double x, double y, Anchor anchor, std::string_view text, std::string_view style) {
  append(body_, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y,
         anchor_name(anchor), style, escaped(text));
}

void Svg::polyline(const std::string& points, std::string_view style) {
  append(body_, "<polyline points=\"{}\" class=\"{}\"/>\n", points, style);
}

void Svg::polygon(const std::string& points, std::string_view style) {
  append(body_, "<polygon points=\"{}\" class=\"{}\"/>\n", points, style);
}

void Svg::marker(double x, double y, std::size_t series) {
  const std::string style = "marker " + series_style(series);
  const double r = kMarker;
  const auto shape = [&](std::initializer_list<std::array<double, 2>> corners) {
    std::string points;
    for (const auto& [dx, dy] : corners) append(points, "{:.1f},{:.1f} ", x + dx * r, y + dy * r);
    polygon(points, style);
  };
  switch (series % kSeriesStyles) {
    case 0:
      append(body_, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"/>\n", x, y, r,
             style);
      break;
    case 1:
      rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8, style);
      break;
    case 2:
      shape({{0, -1.2}, {1.2, 0.9}, {-1.2, 0.9}});
      break;
    case 3:
      shape({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
      break;
    case 4:
      shape({{0, 1.2}, {1.2, -0.9}, {-1.2, -0.9}});
      break;
    default:
      shape({{-1.3, -0.4},
             {-0.4, -0.4},
             {-0.4, -1.3},
             {0.4, -1.3},
             {0.4, -0.4},
             {1.3, -0.4},
             {1.3, 0.4},
             {0.4, 0.4},
             {0.4, 1.3},
             {-0.4, 1.3},
             {-0.4, 0.4},
             {-1.3, 0.4}});
  }
}

void Svg::begin_value(std::size_t series, std::string_view name, std::string_view at,
                      const Value& value, std::string_view title) {
  append(body_, "<g class=\"value {}\" data-series=\"{}\" data-at=\"{}\" data-value=\"{}\"",
         series_style(series), escaped(name), escaped(at), value.median);
  if (value.low && value.high) {
    append(body_, " data-low=\"{}\" data-high=\"{}\"", *value.low, *value.high);
  }
  append(body_, "><title>{}</title>\n", escaped(title));
}

void Svg::end_value() {
  body_ += "</g>\n";
}

std::string Svg::finish(double height, std::string_view id, std::string_view title,
                        std::string_view description) const {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-labelledby=\"{}-title {}-text\">\n"
      "<title id=\"{}-title\">{}</title>\n<desc id=\"{}-text\">{}</desc>\n{}</svg>\n",
      kChartWidth, height, id, id, id, escaped(title), id, escaped(description), body_);
}

double draw_legend(Svg& svg, double y, const std::vector<LegendEntry>& entries, bool with_lines) {
  if (entries.empty()) return 0;
  double x = 0;
  double row = 0;
  for (const LegendEntry& entry : entries) {
    const std::string name = fitted(entry.name, kChartWidth - kSign);
    const double width = kSign + text_width(name);
    if (x > 0 && x + width > kChartWidth) {
      x = 0;
      row += kLineHeight + 3;
    }
    const double middle = y + row + kLineHeight / 2;
    if (!entry.series) {
      svg.line(x, middle, x + 20, middle, "reference");
    } else if (with_lines) {
      svg.line(x, middle, x + 20, middle, "curve " + series_style(*entry.series));
      svg.marker(x + 10, middle, *entry.series);
    } else {
      svg.rect(x + 4, middle - 6, 12, 12, "bar " + series_style(*entry.series));
    }
    svg.text(x + kSign, middle + 4.5, Anchor::kStart, name, "label");
    x += width + kEntryGap;
  }
  return row + kLineHeight + 8;
}

}  // namespace tessera::app::analyze
