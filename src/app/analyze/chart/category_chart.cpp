#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "app/analyze/chart/axis.h"
#include "app/analyze/chart/chart.h"
#include "app/analyze/chart/svg.h"

namespace tessera::app::analyze {

namespace {

constexpr double kMark = 16;     // from one mark of a category to the next: a label's height
constexpr double kBar = 12;      // of which this is the bar
constexpr double kGroupGap = 9;  // between categories
constexpr double kGap = 28;      // between plot and numbers
constexpr double kLongestLabel = 230;
constexpr int kMostTicks = 7;

using Form = CategoryChart::Form;

struct Plot {
  AxisTicks ticks;
  double left;
  double width;
  double top;
  double bottom;

  double x(double value) const { return left + ticks.position(value) * width; }
};

AxisTicks ticks_of(const CategoryChart& chart, double width) {
  double low = chart.form == Form::kBars ? 0 : 1e300;
  double high = chart.form == Form::kBars ? 0 : -1e300;
  const auto add = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const CategorySeries& series : chart.series) {
    for (const std::optional<Value>& value : series.values) {
      if (!value) continue;
      add(value->median);
      if (value->low) add(*value->low);
      if (value->high) add(*value->high);
    }
  }
  if (chart.reference) add(chart.reference->value);
  if (low > high) low = high = 0;  // no values at all
  for (int most = kMostTicks;; --most) {
    AxisTicks ticks(chart.axis, low, high, most);
    double widest = 0;
    for (const AxisTicks::Tick& tick : ticks.ticks()) {
      widest = std::max(widest, text_width(tick.text));
    }
    const auto n = static_cast<double>(ticks.ticks().size());
    if (most == 2 || (widest + 8) * (n - 1) <= width) return ticks;
  }
}

// What is written beside a mark.
std::string label_of(const CategoryChart& chart, const Value& value) {
  const Quantity& quantity = chart.axis.quantity;
  if (chart.form == Form::kBars || !value.low) return quantity.text(value.median);
  return fmt::format("{} ({} to {})", quantity.text(value.median), quantity.text(*value.low),
                     quantity.text(*value.high));
}

double widest_label(const CategoryChart& chart) {
  double widest = 0;
  for (const CategorySeries& series : chart.series) {
    for (const std::optional<Value>& value : series.values) {
      if (value) widest = std::max(widest, text_width(label_of(chart, *value)));
    }
  }
  return widest;
}

void draw_axis(Svg& svg, const CategoryChart& chart, const Plot& plot) {
  for (const AxisTicks::Tick& tick : plot.ticks.ticks()) {
    const double x = plot.x(tick.value);
    svg.line(x, plot.top, x, plot.bottom, "grid");
    svg.text(x, plot.bottom + 16, Anchor::kMiddle, tick.text, "tick");
  }
  svg.text(plot.left + plot.width / 2, plot.bottom + 36, Anchor::kMiddle, chart.axis.title,
           "label");
}

void draw_value(Svg& svg, const CategoryChart& chart, const Plot& plot, std::size_t series,
                std::size_t category, double middle) {
  const CategorySeries& of = chart.series[series];
  const Value& value = *of.values[category];
  const std::string& at = chart.categories[category];
  svg.begin_value(series, of.name, at, value,
                  fmt::format("{}{}{}: {}", at, of.name.empty() ? "" : ", ", of.name,
                              value_text(value, chart.axis.quantity)));
  const double x = plot.x(value.median);
  if (chart.form == Form::kBars) {
    svg.rect(plot.left, middle - kBar / 2, std::max(0.5, x - plot.left), kBar,
             "bar " + series_style(series));
  }
  if (value.low && value.high) {
    const std::string style = chart.form == Form::kBars ? "over-bar" : series_style(series);
    svg.line(plot.x(*value.low), middle, plot.x(*value.high), middle, "spread " + style);
  }
  if (chart.form == Form::kIntervals) svg.marker(x, middle, series);
  svg.text(kChartWidth, middle + 4.5, Anchor::kEnd, label_of(chart, value), "number");
  svg.end_value();
}

std::string description(const CategoryChart& chart) {
  std::string text = chart.axis.title + ".";
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    fmt::format_to(std::back_inserter(text), " {}:", chart.categories[c]);
    for (const CategorySeries& series : chart.series) {
      if (!series.values[c]) continue;
      fmt::format_to(std::back_inserter(text), " {}{}{}", series.name,
                     series.name.empty() ? "" : " ",
                     value_text(*series.values[c], chart.axis.quantity));
    }
    text += '.';
  }
  return text;
}

}  // namespace

std::string draw(const CategoryChart& chart, const std::string& id) {
  Svg svg;
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (!chart.series[i].name.empty()) entries.push_back({chart.series[i].name, i});
  }
  const double legend = draw_legend(svg, 0, entries, chart.form == Form::kIntervals);

  double left = 0;
  for (const std::string& category : chart.categories) {
    left = std::max(left, text_width(fitted(category, kLongestLabel)));
  }
  left += 10;
  // Numbers stand in a column beside the plot, behind half of the last tick's label.
  const double width = kChartWidth - left - widest_label(chart) - kGap;
  const double group = kMark * static_cast<double>(chart.series.size()) + kGroupGap;
  const double top = legend + (chart.reference ? kLineHeight + 4 : 4);
  const Plot plot{ticks_of(chart, width), left, width, top,
                  top + group * static_cast<double>(chart.categories.size())};

  draw_axis(svg, chart, plot);
  if (chart.reference) {
    const double x = plot.x(chart.reference->value);
    const double half = text_width(chart.reference->label) / 2;
    svg.line(x, plot.top - 2, x, plot.bottom, "reference");
    svg.text(std::clamp(x, half, std::max(half, kChartWidth - half)), plot.top - 6, Anchor::kMiddle,
             chart.reference->label, "tick");
  }
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    const double start = plot.top + group * static_cast<double>(c) + kGroupGap / 2;
    svg.text(left - 8, start + (group - kGroupGap) / 2 + 4.5, Anchor::kEnd,
             fitted(chart.categories[c], kLongestLabel), "label");
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      if (!chart.series[s].values[c]) continue;
      draw_value(svg, chart, plot, s, c, start + kMark * (static_cast<double>(s) + 0.5));
    }
  }
  svg.line(left, plot.top, left, plot.bottom, "axis");
  return svg.finish(plot.bottom + 44, id, chart.title, description(chart));
}

}  // namespace tessera::app::analyze
