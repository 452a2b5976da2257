// Result files of tessera bench: an input is read, and what is read is rendered in every form,
// alone and beside itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/error.h>

#include "app/analyze/build_document.h"
#include "app/analyze/renderers.h"
#include "app/analyze/result_file.h"

namespace {

namespace analyze = tessera::app::analyze;

void require(bool condition) {
  if (!condition) std::abort();
}

// No number of a file may lead to one that is none, and no text to markup.
void check(const std::vector<analyze::ResultFile>& files) {
  const analyze::Document document = analyze::build_document(files);
  const std::string html = analyze::to_html(document);
  require(html.find("<script") == std::string::npos);
  for (const char* attribute : {" data-value=", " x1=", " y1=", " x2=", " y2=", " width="}) {
    for (const char* none : {"\"nan", "\"-nan", "\"inf", "\"-inf"}) {
      require(html.find(std::string(attribute) + none) == std::string::npos);
    }
  }
  analyze::to_text(document);
  analyze::to_markdown(document);
  analyze::to_json(document);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const analyze::ResultFile file = analyze::ResultFile::parse(text, "result.json");
    check({file});
    check({file, file});
  } catch (const tessera::Error& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
  return 0;
}
