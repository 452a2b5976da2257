#include "io/safetensors.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"

namespace tessera {

namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

template <typename... Args>
[[noreturn]] void bad(fmt::format_string<Args...> sentence, Args&&... args) {
  fail(ErrorCode::kBadSafetensors, sentence, std::forward<Args>(args)...);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The header's text; its length field is checked against the file.
std::string_view header_text(std::span<const std::byte> file, const std::string& name) {
  if (as_text(file).starts_with("version https://git-lfs")) {
    bad("{}: is a Git LFS pointer, not the weights; run `git lfs pull` in its folder", name);
  }
  if (file.size() < kLengthBytes) {
    bad("{}: has {} bytes, too short for a safetensors file; download it again", name, file.size());
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    bad("{}: announces a header of {} bytes, more than the {} that the format allows; this is not "
        "a "
        "safetensors file",
        name, length, SafetensorsFile::kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    bad("{}: announces a header of {} bytes, but only {} follow; the file is truncated, download "
        "it "
        "again",
        name, length, file.size() - kLengthBytes);
  }
  const std::string_view text = as_text(file.subspan(kLengthBytes, length));
  if (!text.starts_with('{')) {
    bad("{}: its header does not start with '{{'; this is not a safetensors file", name);
  }
  return text;
}

json parse_header(std::string_view text, const std::string& name) {
  try {
    return parse_json(text, name + " (header)");
  } catch (const Error& error) {  // the same sentence: what is damaged is the container
    throw Error(ErrorCode::kBadSafetensors, error.what());
  }
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& file) {
  if (!value.is_object()) bad("{}: \"__metadata__\" must be an object of strings", file);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      bad("{}: \"__metadata__\" must be an object of strings, but {} is not a string", file,
          in_quotes(key));
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// One entry of the header. After it, dtype, shape and size agree and the bytes lie inside the data;
// how the entries lie to each other is checked by check_layout().
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& tensor, std::size_t data_start,
              std::size_t data_bytes)
      : file_(file), tensor_(tensor), data_start_(data_start), data_bytes_(data_bytes) {}

  SafetensorsEntry read(const json& value) const {
    if (!value.is_object()) bad("{}: the entry of tensor {} must be an object", file_, tensor());
    SafetensorsEntry entry;
    entry.name = tensor_;
    entry.dtype = read_dtype(value);
    entry.shape = read_shape(value);
    const auto [begin, end] = read_offsets(value);
    check_size(entry, end - begin);
    if (end > data_bytes_) {
      bad("{}: tensor {} ends at byte {} of the data, but the file holds only {}; it is truncated, "
          "download it again",
          file_, tensor(), end, data_bytes_);
    }
    entry.offset = data_start_ + static_cast<std::size_t>(begin);
    entry.n_bytes = static_cast<std::size_t>(end - begin);
    return entry;
  }

 private:
  std::string tensor() const { return in_quotes(tensor_); }

  const json& field(const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) bad("{}: tensor {} has no \"{}\"", file_, tensor(), key);
    return *found;
  }

  SafetensorsDType read_dtype(const json& value) const {
    const json& dtype = field(value, "dtype");
    if (!dtype.is_string()) bad("{}: the dtype of tensor {} must be a string", file_, tensor());
    const auto known = safetensors_dtype_from_string(dtype.get_ref<const std::string&>());
    if (!known) {
      bad("{}: tensor {} has the dtype {}, which the format does not know", file_, tensor(),
          in_quotes(dtype.get_ref<const std::string&>()));
    }
    return *known;
  }

  std::vector<std::int64_t> read_shape(const json& value) const {
    const json& shape = field(value, "shape");
    if (!shape.is_array()) bad("{}: the shape of tensor {} must be an array", file_, tensor());
    std::vector<std::int64_t> dims;
    for (const json& dim : shape) {
      if (!dim.is_number_unsigned()) {
        bad("{}: the shape of tensor {} must hold integers from 0 up, not {}", file_, tensor(),
            dim.is_structured() ? "an array or object" : dim.dump());
      }
      if (dim.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        bad("{}: the shape of tensor {} holds {}, which is too large", file_, tensor(), dim.dump());
      }
      dims.push_back(dim.get<std::int64_t>());
    }
    return dims;
  }

  std::pair<std::uint64_t, std::uint64_t> read_offsets(const json& value) const {
    const json& offsets = field(value, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("{}: the data_offsets of tensor {} must be two integers from 0 up", file_, tensor());
    }
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end) {
      bad("{}: the data_offsets of tensor {} are reversed: [{}, {}]", file_, tensor(), begin, end);
    }
    return {begin, end};
  }

  void check_size(const SafetensorsEntry& entry, std::uint64_t n_bytes) const {
    // Zeros are left out of the first product, so that partial products cannot overflow either.
    std::int64_t elements = 1;
    bool overflow = false;
    bool empty = false;
    for (std::int64_t dim : entry.shape) {
      empty |= dim == 0;
      overflow |= dim != 0 && __builtin_mul_overflow(elements, dim, &elements);
    }
    std::int64_t bits = 0;
    overflow |= __builtin_mul_overflow(elements,
                                       static_cast<std::int64_t>(size_in_bits(entry.dtype)), &bits);
    if (overflow) {
      bad("{}: the size of tensor {} with shape {} does not fit in 63 bits", file_, tensor(),
          shape_to_string(entry.shape));
    }
    if (empty) bits = 0;
    if (bits % 8 != 0) {
      bad("{}: tensor {} of shape {} and dtype {} takes {} bits, which is not a whole number of "
          "bytes",
          file_, tensor(), shape_to_string(entry.shape), to_string(entry.dtype), bits);
    }
    if (static_cast<std::uint64_t>(bits) / 8 != n_bytes) {
      bad("{}: tensor {} of shape {} and dtype {} takes {} bytes, but its data_offsets span {}",
          file_, tensor(), shape_to_string(entry.shape), to_string(entry.dtype), bits / 8, n_bytes);
    }
  }

  const std::string& file_;
  const std::string& tensor_;
  std::size_t data_start_;
  std::size_t data_bytes_;
};

// entries are sorted by offset. They must cover the data exactly.
void check_layout(const std::vector<SafetensorsEntry>& entries, const std::string& file,
                  std::size_t data_start, std::size_t data_bytes) {
  std::size_t covered = 0;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    const std::size_t begin = entry.offset - data_start;
    if (begin < covered) {
      bad("{}: tensor {} starts at byte {} of the data, inside tensor {}, which ends at byte {}",
          file, in_quotes(entry.name), begin, in_quotes(previous->name), covered);
    }
    if (begin > covered) {
      bad("{}: bytes {} to {} of the data, before tensor {}, belong to no tensor", file, covered,
          begin, in_quotes(entry.name));
    }
    covered = begin + entry.n_bytes;
    previous = &entry;
  }
  if (covered < data_bytes) {
    bad("{}: {} bytes follow the last tensor and belong to none", file, data_bytes - covered);
  }
}

}  // namespace

std::string shape_to_string(std::span<const std::int64_t> shape) {
  constexpr std::size_t kMaxDims = 8;
  const auto shown = shape.first(std::min(shape.size(), kMaxDims));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shape.size() > kMaxDims ? ", ..." : "");
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> file, std::string name)
    : file_(file), name_(std::move(name)) {
  const std::string_view text = header_text(file, name_);
  const std::size_t data_start = kLengthBytes + text.size();
  const std::size_t data_bytes = file.size() - data_start;
  const json header = parse_header(text, name_);
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadataKey) {
      metadata_ = read_metadata(value, name_);
    } else {
      entries_.push_back(EntryReader(name_, key, data_start, data_bytes).read(value));
    }
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.offset, a.n_bytes, a.name) < std::tie(b.offset, b.n_bytes, b.name);
            });
  check_layout(entries_, name_, data_start, data_bytes);
  for (std::size_t i = 0; i < entries_.size(); ++i) by_name_[entries_[i].name] = i;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile mapping(path);
  SafetensorsFile file(mapping.bytes(), mapping.name());
  file.mapping_ = std::move(mapping);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> file, std::string name) {
  return SafetensorsFile(file, std::move(name));
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void SafetensorsFile::prefetch(const SafetensorsEntry& entry) const {
  if (mapping_) mapping_->prefetch(entry.offset, entry.n_bytes);
}

void SafetensorsFile::release(const SafetensorsEntry& entry, std::size_t first,
                              std::size_t n) const {
  if (mapping_) mapping_->release(entry.offset + first, n);
}

}  // namespace tessera
