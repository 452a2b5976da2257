// How far each weight format is from fp32 on any model, beside the plain max-scaled scheme:
//   format_accuracy MODEL_FOLDER SCRATCH_FOLDER [TOKENS]
// The scratch folder gets a copy of the model in fp32, which is removed again.
#include "tests/engine/format_accuracy.h"

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include <tessera/error.h>

#include "model/config.h"
#include "tests/engine/max_scaled.h"

namespace {

using namespace tessera;
using testing::logits_of;

void run(const std::filesystem::path& model, const std::filesystem::path& scratch, int n_tokens) {
  const ModelConfig config = ModelConfig::load(model);
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> any(0,
                                                  static_cast<std::int32_t>(config.vocab_size) - 1);
  testing::Texts texts(1);
  for (int i = 0; i < n_tokens; ++i) texts[0].push_back(any(random));
  const std::vector<Logits> expected = logits_of(model, WeightFormat::kF32, texts);
  for (WeightFormat format : kWeightFormats) {
    if (format == WeightFormat::kF32) continue;
    const std::string name(to_string(format));
    testing::print(name, testing::compare(logits_of(model, format, texts), expected));
    if (format == WeightFormat::kF16 || format == WeightFormat::kBF16) continue;
    const std::filesystem::path folder = scratch / ("max-scaled-" + name);
    std::filesystem::create_directories(folder);
    testing::write_max_scaled(model, folder, format);
    testing::print(name + ", max", testing::compare(logits_of(folder, format, texts), expected));
    std::filesystem::remove_all(folder);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: format_accuracy MODEL_FOLDER SCRATCH_FOLDER [TOKENS]\n", stderr);
    return 2;
  }
  try {
    run(argv[1], argv[2], argc > 3 ? std::stoi(argv[3]) : 64);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "format_accuracy: %s\n", error.what());
    return 1;
  }
  return 0;
}
