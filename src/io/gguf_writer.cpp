#include "io/gguf_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <utility>

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;

// Types of values of metadata, by their numbers in the file.
constexpr std::uint32_t kUint32 = 4;
constexpr std::uint32_t kInt32 = 5;
constexpr std::uint32_t kFloat32 = 6;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

template <typename T>
void put(std::string& bytes, T value) {
  const auto raw = std::bit_cast<std::array<char, sizeof(T)>>(value);
  bytes.append(raw.data(), raw.size());
}

void put_string(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

std::size_t aligned(std::size_t position) {
  return (position + GgufWriter::kAlignment - 1) / GgufWriter::kAlignment * GgufWriter::kAlignment;
}

// Everything before the data.
std::string header(const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  std::string bytes(kMagic);
  put(bytes, kVersion);
  put(bytes, static_cast<std::uint64_t>(tensors.size()));
  put(bytes, static_cast<std::uint64_t>(metadata.size()));
  bytes += metadata.bytes();
  std::size_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    put_string(bytes, tensor.name);
    put(bytes, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) {
      put(bytes, static_cast<std::uint64_t>(*dim));
    }
    put(bytes, static_cast<std::uint32_t>(tensor.type));
    put(bytes, static_cast<std::uint64_t>(offset));
    offset = aligned(offset + tensor.bytes());
  }
  bytes.resize(aligned(bytes.size()));
  return bytes;
}

}  // namespace

std::size_t block_values(GgmlType type) {
  return type == GgmlType::kQ4_0 || type == GgmlType::kQ8_0 ? 32 : 1;
}

std::size_t block_bytes(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return 4;
    case GgmlType::kQ4_0:
      return 2 + 16;  // the scale in fp16, and two values a byte
    case GgmlType::kQ8_0:
      return 2 + 32;
    case GgmlType::kBF16:
      return 2;
  }
  __builtin_unreachable();
}

void GgufMetadata::begin(std::string_view key, std::uint32_t type) {
  put_string(bytes_, key);
  put(bytes_, type);
  ++n_entries_;
}

void GgufMetadata::add(std::string_view key, std::uint32_t value) {
  begin(key, kUint32);
  put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, float value) {
  begin(key, kFloat32);
  put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, bool value) {
  begin(key, kBool);
  put(bytes_, static_cast<std::uint8_t>(value));
}

void GgufMetadata::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_string(bytes_, value);
}

void GgufMetadata::add(std::string_view key, const std::vector<std::string>& values) {
  begin(key, kArray);
  put(bytes_, kString);
  put(bytes_, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) put_string(bytes_, value);
}

void GgufMetadata::add(std::string_view key, const std::vector<std::int32_t>& values) {
  begin(key, kArray);
  put(bytes_, kInt32);
  put(bytes_, static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) put(bytes_, value);
}

std::size_t GgufTensor::bytes() const {
  std::size_t values = 1;
  for (const std::int64_t dim : shape) values *= static_cast<std::size_t>(dim);
  return values / block_values(type) * block_bytes(type);
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::vector<GgufTensor> tensors)
    : tensors_(std::move(tensors)) {
  const std::string bytes = header(metadata, tensors_);
  file_.emplace(path);
  file_->write(std::as_bytes(std::span(bytes)));
  if (!tensors_.empty()) bytes_left_ = tensors_[0].bytes();
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    assert(bytes_left_ > 0);
    const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), bytes_left_));
    file_->write(part);
    position_ += part.size();
    bytes_left_ -= part.size();
    bytes = bytes.subspan(part.size());
    if (bytes_left_ > 0) continue;
    pad();
    if (++current_ < tensors_.size()) bytes_left_ = tensors_[current_].bytes();
  }
}

void GgufWriter::pad() {
  static constexpr std::array<std::byte, kAlignment> kZeros = {};
  const std::size_t end = aligned(position_);
  file_->write(std::span(kZeros).first(end - position_));
  position_ = end;
}

void GgufWriter::finish() {
  assert(bytes_left_ == 0);
  file_->commit();
}

std::size_t GgufWriter::file_bytes(const GgufMetadata& metadata,
                                   const std::vector<GgufTensor>& tensors) {
  std::size_t bytes = header(metadata, tensors).size();
  for (const GgufTensor& tensor : tensors) bytes += aligned(tensor.bytes());
  return bytes;
}

}  // namespace tessera
