// The models and values of tests/data/reference, which transformers made.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace tessera::testing {

inline const std::vector<std::string>& reference_models() {
  static const std::vector<std::string> names = {
      "lite",     "full",      "three_dense", "norm_topk", "no_rope_scaling", "mscale_differs",
      "one_head", "six_heads", "odd_dims",    "all_dense", "attention_bias"};
  return names;
}

inline std::filesystem::path reference_folder(const std::string& model) {
  return std::filesystem::path(TESSERA_TEST_DATA) / "reference" / model;
}

// expected.safetensors of one model.
class ReferenceValues {
 public:
  explicit ReferenceValues(const std::string& model)
      : file_(SafetensorsFile::open(reference_folder(model) / "expected.safetensors")) {}

  std::vector<float> floats(const std::string& name) const { return values<float>(name); }
  std::vector<std::int32_t> ids(const std::string& name) const {
    return values<std::int32_t>(name);
  }
  std::size_t number(const std::string& key) const { return std::stoul(file_.metadata().at(key)); }

 private:
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const SafetensorsEntry* entry = file_.find(name);
    if (entry == nullptr) throw std::runtime_error("no reference value " + name);
    std::vector<T> result(entry->n_bytes / sizeof(T));
    std::memcpy(result.data(), file_.bytes(*entry).data(), entry->n_bytes);
    return result;
  }

  SafetensorsFile file_;
};

}  // namespace tessera::testing
