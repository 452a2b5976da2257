#include "io/safetensors_writer.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/quote.h"
#include "io/safetensors.h"

namespace tessera {

namespace {

using nlohmann::ordered_json;

std::size_t size_of(const SafetensorsLayout& tensor, const std::string& file) {
  std::int64_t bits = static_cast<std::int64_t>(size_in_bits(tensor.dtype));
  bool overflow = false;
  for (std::int64_t dim : tensor.shape) {
    overflow |= dim < 0 || __builtin_mul_overflow(bits, dim, &bits);
  }
  if (overflow || bits % 8 != 0) {
    fail(ErrorCode::kInvalidArgument, "{}: tensor {} cannot have the shape {} with dtype {}", file,
         in_quotes(tensor.name), shape_to_string(tensor.shape), to_string(tensor.dtype));
  }
  return static_cast<std::size_t>(bits / 8);
}

std::string to_text(const ordered_json& header, const std::string& file) {
  try {
    return header.dump();
  } catch (const ordered_json::type_error&) {
    fail(ErrorCode::kInvalidArgument, "{}: a tensor name or a metadata string is not UTF-8", file);
  }
}

// The length field and the header, padded so that the data starts at a multiple of 8.
std::string header_bytes(const std::vector<SafetensorsLayout>& layout,
                         const SafetensorsWriter::Metadata& metadata, const std::string& file,
                         std::size_t& data_bytes) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> names = {"__metadata__"};
  data_bytes = 0;
  for (const SafetensorsLayout& tensor : layout) {
    if (!names.insert(tensor.name).second) {
      fail(ErrorCode::kInvalidArgument, "{}: the tensor name {} is used twice or reserved", file,
           in_quotes(tensor.name));
    }
    const std::size_t begin = data_bytes;
    data_bytes += size_of(tensor, file);
    header[tensor.name] = {{"dtype", to_string(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, data_bytes}}};
  }
  std::string text = to_text(header, file);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > SafetensorsFile::kMaxHeaderBytes) {
    fail(ErrorCode::kInvalidArgument,
         "{}: the header would take {} bytes, more than the format's {}", file, text.size(),
         SafetensorsFile::kMaxHeaderBytes);
  }
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> shift & 0xff);
  }
  return bytes + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<SafetensorsLayout> layout,
                                     const Metadata& metadata)
    : name_(path.string()) {
  const std::string header = header_bytes(layout, metadata, name_, bytes_left_);
  file_.emplace(path);
  file_->write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_left_) {
    fail(ErrorCode::kInvalidArgument, "{}: {} bytes of data were given where {} are left to write",
         name_, bytes.size(), bytes_left_);
  }
  file_->write(bytes);
  bytes_left_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  if (bytes_left_ != 0) {
    fail(ErrorCode::kInvalidArgument, "{}: {} bytes of data are missing", name_, bytes_left_);
  }
  file_->commit();
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsTensor>& tensors,
                       const SafetensorsWriter::Metadata& metadata) {
  std::vector<SafetensorsLayout> layout;
  for (const SafetensorsTensor& tensor : tensors) {
    layout.push_back({tensor.name, tensor.dtype, tensor.shape});
    const std::size_t n_bytes = size_of(layout.back(), path.string());
    if (tensor.bytes.size() != n_bytes) {
      fail(ErrorCode::kInvalidArgument,
           "{}: tensor {} of shape {} and dtype {} takes {} bytes, not {}", path.string(),
           in_quotes(tensor.name), shape_to_string(tensor.shape), to_string(tensor.dtype), n_bytes,
           tensor.bytes.size());
    }
  }
  SafetensorsWriter writer(path, std::move(layout), metadata);
  for (const SafetensorsTensor& tensor : tensors) writer.append(tensor.bytes);
  writer.finish();
}

}  // namespace tessera
