// The page of tessera analyze in a real browser: it renders without a word on the console, is not
// blank, follows the reader's choice of light and dark, and no label lies over another.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "app/analyze/build_document.h"
#include "app/analyze/renderers.h"
#include "io/text_file.h"
#include "tests/app/analyze/page.h"
#include "tests/io/temporary_folder.h"

namespace tessera::app::analyze {
namespace {

using nlohmann::json;
using testing::data_file;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Browser : public ::testing::Test {
 protected:
  std::string read(const std::string& name) const { return read_text_file(folder_ / name); }

  std::string url(const std::string& name) const { return "file://" + (folder_ / name).string(); }

  // Runs chromium; what it prints is in the files out and err.
  void run(const std::string& flags) const {
    const std::string command =
        "timeout 100 " TESSERA_CHROMIUM
        " --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
        "--hide-scrollbars --enable-logging=stderr --user-data-dir=" +
        (folder_ / "profile").string() + " " + flags + " >" + (folder_ / "out").string() + " 2>" +
        (folder_ / "err").string();
    const int status = std::system(command.c_str());
    ASSERT_EQ(status, 0) << read("err");
  }

  // What pages said on the console in the last run.
  std::vector<std::string> console() const {
    std::vector<std::string> lines;
    std::istringstream text(read("err"));
    for (std::string line; std::getline(text, line);) {
      if (line.find("CONSOLE") != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  // The object that a script of the page left as JSON in the element "report".
  json report(const std::string& page) const {
    run("--virtual-time-budget=5000 --dump-dom " + url(page));
    const std::string dom = read("out");
    const std::string begin = "<pre id=\"report\">";
    const std::size_t start = dom.rfind(begin);  // scripts have it too
    if (start == std::string::npos) return {};
    const std::size_t from = start + begin.size();
    return json::parse(dom.substr(from, dom.find("</pre>", from) - from));
  }

  // {"colours", "corner"}: how many colours a picture has, and the brightness of its corner, 0 to
  // 255.
  json look_at_picture(const std::string& picture) {
    folder_.write("look.html", R"(<img id="picture" src="data:image/png;base64,)" +
                                   base64(read(picture)) + R"("><script>
      addEventListener('load', () => {
        const canvas = document.createElement('canvas');
        canvas.width = picture.naturalWidth;
        canvas.height = picture.naturalHeight;
        const context = canvas.getContext('2d');
        context.drawImage(picture, 0, 0);
        const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
        const colours = new Set();
        for (let i = 0; i < pixels.length; i += 4) {
          colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
        }
        document.body.insertAdjacentHTML('beforeend', '<pre id="report">' + JSON.stringify(
            {colours: colours.size, corner: pixels[1], width: canvas.width}) + '</pre>');
      });
    </script>)");
    return report("look.html");
  }

  static std::string base64(const std::string& bytes) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      unsigned group = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
      }
      for (std::size_t k = 0; k < 4; ++k) {
        text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
      }
    }
    return text;
  }

  // The texts of each chart that leave it, or lie over another.
  json misplaced(const std::string& html, int width) {
    folder_.write("measured.html", html + R"(<script>
      const wrong = [];
      let n = 0;
      for (const svg of document.querySelectorAll('svg')) {
        const whole = svg.getBoundingClientRect();
        const boxes = [...svg.querySelectorAll('text')].map(
            text => ({text: text.textContent, box: text.getBoundingClientRect()}));
        n += boxes.length;
        boxes.forEach(({text, box}, i) => {
          if (box.left < whole.left - 1 || box.right > whole.right + 1 ||
              box.top < whole.top - 3 || box.bottom > whole.bottom + 3) {
            wrong.push(text + ' leaves ' + svg.querySelector('title').textContent);
          }
          boxes.slice(i + 1).forEach(other => {
            const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
            const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
            // Boxes have room above and below the letters.
            if (across > 0.5 && down > box.height * 0.3) wrong.push(text + ' over ' + other.text);
          });
        });
      }
      document.body.insertAdjacentHTML('beforeend',
          '<pre id="report">' + JSON.stringify({texts: n, wrong}) + '</pre>');
    </script>)");
    return report("measured.html --window-size=" + std::to_string(width) + ",900");
  }

  TemporaryFolder folder_;
};

std::string whole_page() {
  std::vector<ResultFile> files;
  for (const char* name : {"batch.json", "batch-int8.json", "decode-once.json", "prefill.json",
                           "prolog.json", "kernels.json", "memory.json", "compare.json"}) {
    files.push_back(data_file(name));
  }
  return to_html(build_document(files));
}

TEST_F(Browser, RendersInLightAndDark) {
  folder_.write("page.html", whole_page());
  for (const bool dark : {false, true}) {
    run(std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1") +
        " --window-size=1280,3000 --screenshot=" + (folder_ / "picture.png").string() + " " +
        url("page.html"));
    EXPECT_THAT(console(), IsEmpty());
    const json seen = look_at_picture("picture.png");
    EXPECT_EQ(seen.at("width"), 1280);
    EXPECT_GT(seen.at("colours"), 100) << "a blank page has one colour";
    if (dark) {
      EXPECT_LT(seen.at("corner"), 60);
    } else {
      EXPECT_GT(seen.at("corner"), 200);
    }
  }
}

TEST_F(Browser, LabelsDoNotOverlap) {
  for (const int width : {1400, 700}) {
    const json seen = misplaced(whole_page(), width);
    EXPECT_GT(seen.at("texts"), 200);
    EXPECT_EQ(seen.at("wrong"), json::array()) << "at " << width;
  }
}

// Names and numbers as long as they come.
TEST_F(Browser, LongLabelsHaveRoomToo) {
  const auto with_long_names = [](const std::string& name, double factor) {
    json file = testing::data_json(name);
    const std::string wide = "一个很长很长很长很长很长很长很长很长的名字 WWWWWWWWWWWWWWWWWWWW";
    file["dtype"] = wide;
    for (json& result : file["results"]) {
      for (json& op : result["by_op"]) {
        op["op"] = op["op"].get<std::string>() + wide;
        for (json* of : {&op["seconds_per_step"], &op["kernel_seconds_per_step"]}) {
          for (const char* key : {"median", "min", "max"}) {
            (*of)[key] = (*of)[key].get<double>() * factor;
          }
          for (json& sample : (*of)["samples"]) sample = sample.get<double>() * factor;
        }
      }
    }
    return file;
  };
  const std::string name = std::string(100, 'W') + ".json";
  const std::string html =
      to_html(build_document({testing::parsed(with_long_names("batch.json", 1e6), name),
                              testing::parsed(with_long_names("batch.json", 1), "b" + name),
                              testing::parsed(with_long_names("batch.json", 1e-4), "c" + name)}));
  const json seen = misplaced(html, 1400);
  EXPECT_GT(seen.at("texts"), 100);
  EXPECT_EQ(seen.at("wrong"), json::array());
}

// That the tests above would notice.
TEST_F(Browser, TroubleIsSeen) {
  folder_.write("page.html", "<script>console.error('an error')</script>");
  run("--screenshot=" + (folder_ / "picture.png").string() + " " + url("page.html"));
  EXPECT_THAT(console(), ::testing::ElementsAre(HasSubstr("an error")));
  EXPECT_EQ(look_at_picture("picture.png").at("colours"), 1);
  const json seen = misplaced(
      "<body><svg width=100 height=50><title>x</title><text x=10 y=20>one</text>"
      "<text x=15 y=20>two</text><text x=90 y=40>three</text></svg>",
      600);
  EXPECT_EQ(seen.at("wrong"), (json{"one over two", "three leaves x"}));
}

}  // namespace
}  // namespace tessera::app::analyze
