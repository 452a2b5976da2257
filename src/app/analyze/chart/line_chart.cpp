#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "app/analyze/chart/axis.h"
#include "app/analyze/chart/chart.h"
#include "app/analyze/chart/svg.h"

namespace tessera::app::analyze {

namespace {

constexpr double kPlotHeight = 270;
constexpr int kMostYTicks = 7;
constexpr int kMostLogTicks = 10;  // 1, 2 and 5 of three decades

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// The part of the picture that has the curves in it.
struct Plot {
  AxisTicks x_ticks;
  AxisTicks y_ticks;
  double left;
  double width;
  double top;

  double bottom() const { return top + kPlotHeight; }
  double x(double value) const { return left + x_ticks.position(value) * width; }
  double y(double value) const { return bottom() - y_ticks.position(value) * kPlotHeight; }
};

// As many ticks as have room for their labels.
AxisTicks x_ticks_of(const Axis& axis, const Range& range, double width) {
  for (int most = 12;; --most) {
    AxisTicks ticks(axis, range.low, range.high, most);
    double end = -std::numeric_limits<double>::infinity();
    bool fits = true;
    for (const AxisTicks::Tick& tick : ticks.ticks()) {
      const double half = text_width(tick.text) / 2;
      const double middle = ticks.position(tick.value) * width;
      fits &= middle - half > end + 6;
      end = middle + half;
    }
    if (fits || most == 2) return ticks;
  }
}

void draw_axes(Svg& svg, const LineChart& chart, const Plot& plot) {
  const double right = plot.left + plot.width;
  for (const AxisTicks::Tick& tick : plot.y_ticks.ticks()) {
    const double y = plot.y(tick.value);
    svg.line(plot.left, y, right, y, "grid");
    svg.text(plot.left - 7, y + 4.5, Anchor::kEnd, tick.text, "tick");
  }
  for (const AxisTicks::Tick& tick : plot.x_ticks.ticks()) {
    const double x = plot.x(tick.value);
    svg.line(x, plot.bottom(), x, plot.bottom() + 5, "axis");
    svg.text(x, plot.bottom() + 20, Anchor::kMiddle, tick.text, "tick");
  }
  svg.line(plot.left, plot.bottom(), right, plot.bottom(), "axis");
  svg.text((plot.left + right) / 2, plot.bottom() + 40, Anchor::kMiddle, chart.x.title, "label");
}

void draw_series(Svg& svg, const LineChart& chart, const Plot& plot, std::size_t i) {
  const LineSeries& series = chart.series[i];
  std::string curve;
  for (const Point& point : series.points) {
    fmt::format_to(std::back_inserter(curve), "{:.1f},{:.1f} ", plot.x(point.x),
                   plot.y(point.y.median));
  }
  svg.polyline(curve, "curve " + series_style(i));
  for (const Point& point : series.points) {
    const std::string at = chart.x.quantity.text(point.x);
    svg.begin_value(i, series.name, at, point.y,
                    fmt::format("{}, {} {}: {}", series.name, chart.x.title, at,
                                value_text(point.y, chart.y.quantity)));
    const double x = plot.x(point.x);
    if (point.y.low && point.y.high) {
      svg.line(x, plot.y(*point.y.low), x, plot.y(*point.y.high), "spread " + series_style(i));
    }
    svg.marker(x, plot.y(point.y.median), i);
    svg.end_value();
  }
}

// Lines through the plot, with labels above it in as many rows as keep them apart. Returns the
// rows.
struct PlacedMark {
  double middle;
  int row;
};

std::vector<PlacedMark> place_marks(const LineChart& chart, const AxisTicks& ticks, double left,
                                    double width) {
  std::vector<PlacedMark> placed;
  std::vector<double> ends;  // of each row
  for (const Mark& mark : chart.marks) {
    const double half = text_width(mark.label) / 2;
    const double x = left + ticks.position(mark.x) * width;
    const double middle = std::clamp(x, half, std::max(half, kChartWidth - half));
    std::size_t row = 0;
    while (row < ends.size() && middle - half < ends[row] + 8) ++row;
    if (row == ends.size()) ends.push_back(0);
    ends[row] = middle + half;
    placed.push_back({middle, static_cast<int>(row)});
  }
  return placed;
}

std::string description(const LineChart& chart) {
  std::string text = fmt::format("{} over {}.", chart.y.title, chart.x.title);
  for (const LineSeries& series : chart.series) {
    if (series.points.empty()) continue;
    const Point& first = series.points.front();
    const Point& last = series.points.back();
    fmt::format_to(std::back_inserter(text), " {}: {} at {}", series.name,
                   value_text(first.y, chart.y.quantity), chart.x.quantity.text(first.x));
    if (series.points.size() == 1) {
      text += '.';
      continue;
    }
    fmt::format_to(std::back_inserter(text), ", {} at {}, {} points.",
                   value_text(last.y, chart.y.quantity), chart.x.quantity.text(last.x),
                   series.points.size());
  }
  return text;
}

}  // namespace

std::string draw(const LineChart& chart, const std::string& id) {
  Range xs;
  Range ys;
  for (const LineSeries& series : chart.series) {
    for (const Point& point : series.points) {
      xs.add(point.x);
      ys.add(point.y.median);
      if (point.y.low) ys.add(*point.y.low);
      if (point.y.high) ys.add(*point.y.high);
    }
  }
  if (chart.reference) ys.add(chart.reference->value);
  if (chart.y.scale == Scale::kLinear && chart.from_zero) ys.add(0);

  Svg svg;
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    entries.push_back({chart.series[i].name, i});
  }
  if (chart.reference) entries.push_back({chart.reference->label, std::nullopt});
  const double legend = draw_legend(svg, 0, entries, true);

  const AxisTicks y_ticks(chart.y, ys.low, ys.high,
                          chart.y.scale == Scale::kLinear ? kMostYTicks : kMostLogTicks);
  double left = 0;
  for (const AxisTicks::Tick& tick : y_ticks.ticks()) left = std::max(left, text_width(tick.text));
  left += 14;
  // Half of the last tick's label stands beside the plot.
  const double right = 8 + text_width(chart.x.quantity.text(xs.high)) / 2;
  const double width = kChartWidth - left - right;
  const AxisTicks x_ticks = x_ticks_of(chart.x, xs, width);
  const std::vector<PlacedMark> marks = place_marks(chart, x_ticks, left, width);
  int rows = 0;
  for (const PlacedMark& mark : marks) rows = std::max(rows, mark.row + 1);
  const double title = legend + kLineHeight;
  const Plot plot{x_ticks, y_ticks, left, width,
                  title + 10 + rows * kLineHeight + (rows > 0 ? 4 : 0)};

  svg.text(0, title - 3, Anchor::kStart, chart.y.title, "label");
  draw_axes(svg, chart, plot);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const double x = plot.x(chart.marks[i].x);
    const double baseline = title + (marks[i].row + 1) * kLineHeight;
    svg.line(x, baseline + 4, x, plot.bottom(), "change");
    svg.text(marks[i].middle, baseline, Anchor::kMiddle, chart.marks[i].label, "tick");
  }
  if (chart.reference) {
    const double y = plot.y(chart.reference->value);
    svg.line(left, y, left + width, y, "reference");
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) draw_series(svg, chart, plot, i);
  return svg.finish(plot.bottom() + 48, id, chart.title, description(chart));
}

}  // namespace tessera::app::analyze
