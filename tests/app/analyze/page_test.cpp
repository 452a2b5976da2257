// The page, and the other forms: their numbers are those of the files, and nothing of a file is
// markup.
#include "tests/app/analyze/page.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/analyze/build_document.h"
#include "app/analyze/renderers.h"
#include "app/analyze/sections.h"

namespace tessera::app::analyze {
namespace {

using nlohmann::json;
using testing::chart;
using testing::charts_of;
using testing::data_file;
using testing::data_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PageChart;
using testing::PageMark;
using testing::PageTable;
using testing::PageValue;
using testing::parsed;
using testing::table;
using testing::tables_of;

std::string page_of(const std::vector<std::string>& names) {
  std::vector<ResultFile> files;
  for (const std::string& name : names) files.push_back(data_file(name));
  return to_html(build_document(files));
}

// The attributes hold the file's numbers, all digits; what is shown is them, rounded.
void expect_measured(const PageValue& on_page, const json& in_file, double factor) {
  EXPECT_EQ(on_page.value, in_file.at("median").get<double>());
  EXPECT_EQ(on_page.low.value(), in_file.at("min").get<double>());
  EXPECT_EQ(on_page.high.value(), in_file.at("max").get<double>());
  const std::size_t point = on_page.shown.find('.');
  const auto decimals =
      point == std::string::npos ? 0 : static_cast<int>(on_page.shown.size() - point - 1);
  EXPECT_NEAR(std::stod(on_page.shown), on_page.value * factor, 0.5001 * std::pow(10, -decimals));
}

void expect_median(const PageValue& on_page, const json& in_file) {
  EXPECT_EQ(on_page.value, in_file.at("median").get<double>());
  EXPECT_FALSE(on_page.low);
}

TEST(Page, StepsAreThoseOfTheFile) {
  const json file = data_json("batch.json");
  const PageTable steps = table(tables_of(page_of({"batch.json"})), "Decoding");
  ASSERT_EQ(steps.rows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& result = file.at("results").at(i);
    EXPECT_EQ(steps.value(i, "batch").value, result.at("batch").get<double>());
    EXPECT_EQ(steps.value(i, "depth").value, result.at("depth").get<double>());
    expect_measured(steps.value(i, "tokens/s"), result.at("tokens_per_second"), 1);
    expect_measured(steps.value(i, "MB/token"), result.at("bytes_per_token"), 1e-6);
    expect_measured(steps.value(i, "% of limit"), result.at("share_of_limit"), 100);
    expect_median(steps.value(i, "GB/s"), result.at("gb_per_second"));
    expect_median(steps.value(i, "GFLOP/s"), result.at("gflop_per_second"));
    expect_median(steps.value(i, "limit, tokens/s"), result.at("limit"));
  }
}

TEST(Page, OperatorsAreThoseOfTheFile) {
  const json file = data_json("batch.json");
  const std::string html = page_of({"batch.json"});
  const PageTable ops = table(tables_of(html), "By operator, batch 8");
  const json& by_op = file.at("results").at(2).at("by_op");
  ASSERT_EQ(ops.rows.size(), by_op.size());
  double before = 1e9;
  for (std::size_t i = 0; i < ops.rows.size(); ++i) {
    const auto op = std::ranges::find_if(
        by_op, [&](const json& each) { return each.at("op") == ops.rows[i][0].text; });
    ASSERT_NE(op, by_op.end());
    expect_measured(ops.value(i, "ms/step"), op->at("seconds_per_step"), 1e3);
    expect_median(ops.value(i, "% of time"), op->at("share_of_time"));
    EXPECT_EQ(ops.value(i, "MB/step").value, op->at("bytes_per_step").get<double>());
    EXPECT_LE(ops.value(i, "ms/step").value, before);  // the longest first
    before = ops.value(i, "ms/step").value;
  }
  // The charts show the first and the last case, with the same medians.
  for (const PageMark& mark : chart(charts_of(html), "Time by operator, batch 8").marks) {
    const auto row =
        std::ranges::find_if(ops.rows, [&](const auto& cells) { return cells[0].text == mark.at; });
    ASSERT_NE(row, ops.rows.end());
    EXPECT_EQ(mark.value.value, row->at(1).value->value);
  }
  chart(charts_of(html), "Time by operator, batch 1");
  EXPECT_THROW(chart(charts_of(html), "Time by operator, batch 2"), std::runtime_error);
}

TEST(Page, BarsAreAsLongAsTheirNumbers) {
  const std::string html = page_of({"batch.json", "batch-int8.json"});
  int n_bars = 0;
  for (const PageChart& each : charts_of(html)) {
    std::vector<PageMark> bars = each.marks;
    std::erase_if(bars, [](const PageMark& mark) { return mark.x == 0 || mark.y != 0; });  // a sign
    if (bars.empty()) continue;
    const PageMark& longest = *std::ranges::max_element(bars, {}, &PageMark::x);
    for (const PageMark& bar : bars) {
      const double expected = bar.value.value / longest.value.value * longest.x;
      EXPECT_NEAR(bar.x, std::max(0.5, expected), 0.15) << each.title << " " << bar.at;
      ++n_bars;
    }
  }
  EXPECT_GT(n_bars, 20);
}

TEST(Page, CurvesStandAtTheirNumbers) {
  const PageChart throughput =
      chart(charts_of(page_of({"batch.json"})), "Throughput by batch size");
  std::vector<PageMark> measured;
  for (const PageMark& mark : throughput.marks) {
    if (mark.series == "measured") measured.push_back(mark);
  }
  ASSERT_EQ(measured.size(), 3u);
  EXPECT_EQ(measured[0].at, "1");
  EXPECT_EQ(measured[2].at, "8");
  const auto value = [&](int i) { return measured[i].value.value; };
  EXPECT_EQ(value(1), data_json("batch.json")["results"][1]["tokens_per_second"]["median"]);
  // Linear upwards, logarithmic to the right: from 1 to 2 is a third of from 1 to 8.
  EXPECT_NEAR((measured[0].y - measured[1].y) / (measured[0].y - measured[2].y),
              (value(1) - value(0)) / (value(2) - value(0)), 0.003);
  EXPECT_NEAR((measured[1].x - measured[0].x) / (measured[2].x - measured[0].x), 1.0 / 3, 0.001);
}

TEST(Page, PrologHasItsCrossovers) {
  const json file = data_json("prolog.json");
  const std::string html = page_of({"prolog.json"});
  const PageTable implementations = table(tables_of(html), "KV prolog");
  std::size_t row = 0;
  for (const json& result : file.at("results")) {
    for (const json& each : result.at("implementations")) {
      EXPECT_EQ(implementations.rows.at(row)[1].text, each.at("implementation"));
      EXPECT_EQ(implementations.value(row, "rows").value, result.at("rows").get<double>());
      expect_measured(implementations.value(row, "time, µs"), each.at("seconds"), 1e6);
      expect_measured(implementations.value(row, "% of limit"), each.at("share_of_limit"), 100);
      const PageValue& times = implementations.value(row, "times as fast as baseline");
      EXPECT_EQ(times.value, each.at("times_as_fast").at("median").get<double>());
      ++row;
    }
  }
  EXPECT_EQ(row, implementations.rows.size());
  ASSERT_FALSE(file.at("crossovers").empty());
  for (const json& c : file.at("crossovers")) {
    EXPECT_THAT(html, HasSubstr("<li>From " + std::to_string(c.at("rows").get<int>()) + " rows " +
                                c.at("to").get<std::string>() + " is faster than " +
                                c.at("from").get<std::string>() + ".</li>"));
  }
  const PageChart over_rows = chart(charts_of(html), "Implementations over rows");
  std::size_t n_lines = 0;
  for (std::size_t i = 0; (i = over_rows.svg.find("class=\"change\"", i)) != std::string::npos;
       ++i) {
    ++n_lines;
  }
  EXPECT_EQ(n_lines, file.at("crossovers").size());
  for (const PageMark& mark : over_rows.marks) {
    EXPECT_NE(mark.series, "baseline");  // is the line at 1
    EXPECT_NE(mark.series, "stage 2");   // is half of another
  }
}

TEST(Page, KernelsAndMemoryAreThoseOfTheFile) {
  const std::string html = page_of({"kernels.json", "memory.json"});
  const json kernels = data_json("kernels.json");
  const json& result = kernels.at("results").at(0);
  const PageTable norm = table(tables_of(html), result.at("case"));
  expect_measured(norm.value(0, "time, µs"), result.at("implementations").at(0).at("seconds"), 1e6);
  const json memory = data_json("memory.json");
  const PageTable parts = table(tables_of(html), "Memory");
  for (const auto& row : parts.rows) {
    if (row[0].text == "experts") {
      EXPECT_EQ(row[1].value->value, memory["weight_bytes"]["experts"].get<double>());
    }
    if (row[0].text == "peak of running") {
      EXPECT_EQ(row[1].value->value, memory["peak_bytes"].get<double>());
    }
  }
  EXPECT_EQ(parts.rows.size(), 5u + 7u);
}

TEST(Page, ComparisonTellsNoSpeedOfWhatDiffers) {
  const json file = data_json("compare.json");
  const std::string html = page_of({"compare.json"});
  const PageTable rows = table(tables_of(html), "Comparison");
  ASSERT_EQ(rows.rows.size(), 5u);
  const json& first = file.at("results").at(0);
  expect_measured(rows.value(0, "A, tokens/s"), first.at("a").at("tokens_per_second"), 1);
  expect_measured(rows.value(0, "B, tokens/s"), first.at("b").at("tokens_per_second"), 1);
  const PageValue& speedup = rows.value(0, "B over A");
  EXPECT_EQ(speedup.value, first.at("speedup").at("median").get<double>());
  EXPECT_EQ(speedup.low, first.at("speedup").at("low").get<double>());
  EXPECT_EQ(speedup.high, first.at("speedup").at("high").get<double>());
  EXPECT_EQ(rows.rows[3][rows.column("result")].text, "FAILED");
  EXPECT_EQ(rows.rows[3][rows.column("B over A")].text, "");
  EXPECT_EQ(rows.rows[4][rows.column("result")].text, "DIFFERENT");
  EXPECT_THAT(html, HasSubstr("FAILED: B did not end within 600 s"));
  EXPECT_THAT(html, HasSubstr("A says &quot; b&quot;, B says &quot; &lt;c&gt; &amp; d&quot;"));
  EXPECT_THAT(html, HasSubstr("5 of 6 cases are done."));
  const PageChart speedups = chart(charts_of(html), "Speed-up of B over A, with 95 % intervals");
  EXPECT_EQ(speedups.marks.size(), 3u);
  EXPECT_EQ(speedups.marks[0].value.low, first.at("speedup").at("low").get<double>());
}

TEST(Page, TwoFilesStandSideBySide) {
  const json a = data_json("batch.json");
  const json b = data_json("batch-int8.json");
  const std::string html = page_of({"batch.json", "batch-int8.json"});
  const PageTable steps = table(tables_of(html), "Decoding");
  ASSERT_EQ(steps.rows.size(), 6u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps.rows[2 * i][0].text, "batch");
    EXPECT_EQ(steps.rows[2 * i + 1][0].text, "batch-int8");
    EXPECT_EQ(steps.rows[2 * i][steps.column("times as fast")].text, "");
    const double expected = b["results"][i]["tokens_per_second"]["median"].get<double>() /
                            a["results"][i]["tokens_per_second"]["median"].get<double>();
    const PageValue& ratio = steps.value(2 * i + 1, "times as fast");
    EXPECT_EQ(ratio.value, expected);
    EXPECT_LE(*ratio.low, expected);
    EXPECT_GE(*ratio.high, expected);
  }
  const PageChart speedups = chart(charts_of(html), "Speed-up over batch, with 95 % intervals");
  EXPECT_EQ(speedups.marks.size(), 3u);
  EXPECT_EQ(speedups.marks[0].series, "batch-int8");
  EXPECT_EQ(speedups.marks[0].value.value, steps.value(1, "times as fast").value);
}

// What `bench decode --use-graph --against-eager` writes.
TEST(Page, EagerAndReplayedStepsOfAFileStandSideBySide) {
  json both = data_json("batch.json");
  const json eager = both["results"];
  for (json result : eager) {
    result["steps"] = "replayed";
    for (json& sample : result["tokens_per_second"]["samples"]) sample = 2 * sample.get<double>();
    for (const char* key : {"median", "min", "max"}) {
      result["tokens_per_second"][key] = 2 * result["tokens_per_second"][key].get<double>();
    }
    both["results"].push_back(result);
  }
  const std::string html = to_html(build_document({parsed(both, "both.json")}));
  const PageTable steps = table(tables_of(html), "Decoding");
  ASSERT_EQ(steps.rows.size(), 2 * eager.size());
  EXPECT_EQ(steps.rows[0][0].text, "both, eager");
  EXPECT_EQ(steps.rows[1][0].text, "both, replayed");
  EXPECT_EQ(steps.value(1, "times as fast").value, 2);
}

// Files of one setting with other cases are points of one run, not before and after.
TEST(Page, FilesOfOneRunAreJoined) {
  json deeper = data_json("batch.json");
  for (json& result : deeper["results"]) result["depth"] = 1024;
  deeper["command"] = "bench decode";
  const std::string html =
      to_html(build_document({data_file("batch.json"), parsed(deeper, "deep.json")}));
  const PageTable steps = table(tables_of(html), "Decoding");
  EXPECT_EQ(steps.rows.size(), 6u);
  EXPECT_THAT(steps.columns, Not(::testing::Contains("times as fast")));
  const PageChart by_depth = chart(charts_of(html), "Throughput by depth");
  EXPECT_EQ(by_depth.marks.size(), 6u);  // three batches
  // The same cases again are another run.
  const std::string again =
      to_html(build_document({data_file("batch.json"), data_file("batch.json")}));
  EXPECT_EQ(table(tables_of(again), "Decoding").rows.size(), 6u);
  EXPECT_THAT(table(tables_of(again), "Decoding").columns, ::testing::Contains("times as fast"));
}

TEST(Page, OneSampleHasNoSpread) {
  const std::string html = page_of({"decode-once.json"});
  const PageTable steps = table(tables_of(html), "Decoding");
  ASSERT_EQ(steps.rows.size(), 1u);
  EXPECT_FALSE(steps.value(0, "tokens/s").low);
  EXPECT_THAT(html, Not(HasSubstr("class=\"spread")));
  EXPECT_EQ(chart(charts_of(html), "Throughput").marks.size(), 1u);
  // Held against one of several samples: a ratio without an interval.
  json other = data_json("decode-once.json");
  other["dtype"] = "int8";
  const std::string two =
      to_html(build_document({data_file("decode-once.json"), parsed(other, "other.json")}));
  EXPECT_EQ(table(tables_of(two), "Decoding").value(1, "times as fast").value, 1);
  EXPECT_FALSE(table(tables_of(two), "Decoding").value(1, "times as fast").low);
}

TEST(Page, NoResultsAreNoSection) {
  for (const std::string name : {"batch.json", "prefill.json", "kernels.json", "prolog.json"}) {
    json file = data_json(name);
    file["results"] = json::array();
    const std::string html = to_html(build_document({parsed(file, name)}));
    EXPECT_TRUE(charts_of(html).empty()) << name;
    EXPECT_EQ(tables_of(html).size(), 1u) << name;  // that of the files
  }
}

// Every string of a file that reaches the page.
json with_markup() {
  const std::string evil = "<script>alert(\"1\")</script>&'\x1b[31m|`*";
  json file = data_json("batch.json");
  for (const char* key : {"model", "mode", "dtype", "version"}) file[key] = evil;
  file["machine"]["cpu"] = evil;
  file["kernels"]["rope"] = evil;
  file["kernels"][evil] = "x";
  for (json& result : file["results"]) {
    result["limited_by"] = evil;
    for (json& op : result["by_op"]) op["op"] = evil + op["op"].get<std::string>();
  }
  return file;
}

TEST(Page, TextOfFilesIsNoMarkup) {
  json compare = data_json("compare.json");
  compare["a"]["flags"] = {"--x", "<script>alert(1)</script>\" onload=\"alert(1)"};
  compare["results"][0]["prompts"] = {"<img src=x>"};
  const Document document =
      build_document({parsed(with_markup(), "<script>.json"), parsed(compare, "compare.json")});
  const std::string html = to_html(document);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("\" onload")));
  EXPECT_THAT(html, Not(HasSubstr("\x1b")));
  EXPECT_THAT(html,
              HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\\x1b[31m"));
  EXPECT_THAT(to_text(document), Not(HasSubstr("\x1b")));
  const std::string markdown = to_markdown(document);
  EXPECT_THAT(markdown, Not(HasSubstr("<script")));
  EXPECT_THAT(markdown, HasSubstr("\\|\\`\\*"));
}

TEST(Page, NeedsNothingFromOutside) {
  const std::string html = page_of({"batch.json", "batch-int8.json", "prefill.json", "prolog.json",
                                    "kernels.json", "memory.json", "compare.json"});
  for (const char* outside :
       {"http:", "https:", "//", "src=", "url(", "@import", "<script", "<iframe", "onclick"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  // Every chart is told in words.
  for (const PageChart& each : charts_of(html)) {
    EXPECT_THAT(each.svg, HasSubstr("role=\"img\""));
    EXPECT_THAT(each.svg, ::testing::ContainsRegex("<desc id=\"chart-[0-9]+-text\">[^<]{20,}"));
  }
}

TEST(Page, TheMachineReadableFormHasAllDigits) {
  const json file = data_json("batch.json");
  const json document = json::parse(to_json(build_document({data_file("batch.json")})));
  const json& steps = document.at("sections").at(1).at("tables").at(0);
  EXPECT_EQ(steps.at("title"), "Decoding");
  std::size_t column = 0;
  while (steps.at("columns").at(column).at("title") != "tokens/s") ++column;
  EXPECT_EQ(steps.at("columns").at(column).at("factor"), 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& cell = steps.at("rows").at(i).at(column);
    const json& measured = file.at("results").at(i).at("tokens_per_second");
    EXPECT_EQ(cell.at("median"), measured.at("median"));
    EXPECT_EQ(cell.at("low"), measured.at("min"));
    EXPECT_EQ(cell.at("high"), measured.at("max"));
  }
}

// A table of Markdown has as many cells in every row.
TEST(Page, MarkdownTablesAreWhole) {
  const std::string text = to_markdown(build_document(
      {data_file("batch.json"), data_file("compare.json"), data_file("prolog.json")}));
  std::size_t cells = 0;
  int n_tables = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      cells = 0;
      continue;
    }
    std::size_t n = 0;
    for (std::size_t i = 0; i < line.size(); ++i)
      n += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    n_tables += cells == 0;
    if (cells == 0) cells = n;
    EXPECT_EQ(n, cells) << line;
  }
  EXPECT_EQ(n_tables, 7);  // files, comparison, decoding, three cases by operator, prolog
}

TEST(Ratio, IntervalHoldsWhatSamplesAllow) {
  const Measured a{10, 9, 11, {9, 10, 11}};
  const Measured b{20, 18, 22, {18, 20, 22}};
  const Value ratio = ratio_of(a, b);
  EXPECT_EQ(ratio.median, 2);
  EXPECT_GE(*ratio.low, 18.0 / 11);
  EXPECT_LT(*ratio.low, 2);
  EXPECT_GT(*ratio.high, 2);
  EXPECT_LE(*ratio.high, 22.0 / 9);
  const Measured steady{10, 10, 10, {10, 10, 10}};
  EXPECT_EQ(*ratio_of(steady, steady).low, 1);
  EXPECT_EQ(*ratio_of(steady, steady).high, 1);
}

TEST(Measured, TheMiddleHalf) {
  const Value value = with_middle_half({3, 1, 100, {1, 2, 3, 4, 100}});
  EXPECT_EQ(value.median, 3);
  EXPECT_EQ(value.low, 2);
  EXPECT_EQ(value.high, 4);
  EXPECT_FALSE(with_middle_half({3, 3, 3, {3}}).low);
  EXPECT_EQ(with_extremes({3, 1, 100, {1, 2, 3, 4, 100}}).high, 100);
}

}  // namespace
}  // namespace tessera::app::analyze
