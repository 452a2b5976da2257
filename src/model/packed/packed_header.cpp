#include "model/packed/packed_header.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"

namespace tessera {

namespace {

constexpr std::string_view kMagic = "TSSPACK1";
constexpr std::int64_t kMaxSize = std::int64_t{1} << 48;  // of anything: products of two fit
constexpr std::size_t kDigits = 16;                       // of a checksum

[[noreturn]] void fail_damaged(const std::string& name, std::string_view what) {
  fail(ErrorCode::kBadPackedFile, "{}: is damaged ({}); pack the model again", name, what);
}

std::size_t rounded_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void put(std::string& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
}

std::uint64_t get(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

std::string json_of(const PackedHeader& h) {
  nlohmann::ordered_json json;
  json["format_version"] = PackedHeader::kFormatVersion;
  json["layout_version"] = PackedHeader::kLayoutVersion;
  json["dtype"] = to_string(h.format);
  json["kv_cache"] = to_string(h.form);
  json["config"] = h.config_digest;
  json["checkpoint"] = h.checkpoint_digest;
  json["arena_offset"] = h.arena_offset;
  json["arena_bytes"] = h.arena_bytes;
  json["embedding"] = {
      {"dtype", to_string(h.embedding_dtype)}, {"tokens", h.n_tokens}, {"hidden", h.hidden}};
  auto parts = nlohmann::ordered_json::array();
  for (const PackedHeader::Part& p : h.parts) {
    parts.push_back({{"name", p.name},
                     {"layout", tile::cpu::to_string(p.layout)},
                     {"n", p.n},
                     {"k", p.k},
                     {"weights", p.n_weights},
                     {"offset", p.offset}});
  }
  json["parts"] = std::move(parts);
  std::string checksums;
  for (std::uint64_t sum : h.checksums) checksums += fmt::format("{:016x}", sum);
  json["checksums"] = checksums;
  return json.dump();
}

std::vector<std::uint64_t> parse_checksums(const std::string& digits, const std::string& name) {
  if (digits.size() % kDigits != 0) fail_damaged(name, "checksums of another length");
  std::vector<std::uint64_t> sums(digits.size() / kDigits);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const char* begin = digits.data() + i * kDigits;
    const auto [end, error] = std::from_chars(begin, begin + kDigits, sums[i], 16);
    if (error != std::errc() || end != begin + kDigits) fail_damaged(name, "a broken checksum");
  }
  return sums;
}

std::optional<KvCacheForm> form_from_string(std::string_view text) {
  for (KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
    if (to_string(form) == text) return form;
  }
  return std::nullopt;
}

PackedHeader::Part parse_part(const JsonObject& json) {
  PackedHeader::Part part;
  part.name = json.required_string("name");
  const auto layout = tile::cpu::parse_panel_layout(json.required_string("layout"));
  if (!layout) json.refuse("layout", "the name of a panel layout");
  part.layout = *layout;
  part.n = json.required_int("n", 1, std::int64_t{1} << 32);
  part.k = json.required_int("k", 0, std::int64_t{1} << 24);
  part.n_weights = json.required_int("weights", 1, 2);
  part.offset = static_cast<std::size_t>(json.required_int("offset", 0, kMaxSize));
  return part;
}

PackedHeader header_of(const JsonObject& json, const std::string& name) {
  // Before anything else: other versions may have other keys.
  if (json.required_int("format_version", 0, JsonObject::kMaxInt) != PackedHeader::kFormatVersion ||
      json.required_int("layout_version", 0, JsonObject::kMaxInt) != PackedHeader::kLayoutVersion) {
    fail(ErrorCode::kBadPackedFile,
         "{}: was packed by another version of tessera; pack the model again", name);
  }
  PackedHeader h;
  const auto format = weight_format_from_string(json.required_string("dtype"));
  if (!format) json.refuse("dtype", "a format of weights");
  h.format = *format;
  const auto form = form_from_string(json.required_string("kv_cache"));
  if (!form) json.refuse("kv_cache", "latent or expanded");
  h.form = *form;
  h.config_digest = json.required_string("config");
  h.checkpoint_digest = json.required_string("checkpoint");
  h.arena_offset = static_cast<std::size_t>(json.required_int("arena_offset", 0, kMaxSize));
  h.arena_bytes = static_cast<std::size_t>(json.required_int("arena_bytes", 0, kMaxSize));
  const JsonObject embedding = json.required_object("embedding");
  const auto dtype = dtype_from_string(embedding.required_string("dtype"));
  if (!dtype) embedding.refuse("dtype", "fp32, bf16 or fp16");
  h.embedding_dtype = *dtype;
  h.n_tokens = embedding.required_int("tokens", 1, std::int64_t{1} << 31);
  h.hidden = embedding.required_int("hidden", 1, std::int64_t{1} << 24);
  for (const JsonObject& part : json.required_objects("parts")) {
    h.parts.push_back(parse_part(part));
  }
  h.checksums = parse_checksums(json.required_string("checksums"), name);
  return h;
}

// In the order of their offsets, without overlap, inside the arena.
void check_parts(const PackedHeader& h, const std::string& name) {
  std::size_t end = 0;
  for (const PackedHeader::Part& part : h.parts) {
    if (part.offset % Buffer::kAlignment != 0 || part.offset < end || part.offset > h.arena_bytes ||
        part.bytes() > h.arena_bytes - part.offset) {
      fail_damaged(name, fmt::format("{} does not lie where it should", in_quotes(part.name)));
    }
    end = part.offset + part.bytes();
  }
}

}  // namespace

std::size_t PackedHeader::Part::bytes() const {
  if (k == 0) return static_cast<std::size_t>(n) * sizeof(float);
  return ops::PackedLinear::packed_bytes(layout, n, k, static_cast<int>(n_weights));
}

std::size_t PackedHeader::embedding_offset() const {
  return rounded_up(arena_offset + arena_bytes, kEmbeddingAlignment);
}

std::size_t PackedHeader::embedding_bytes() const {
  return static_cast<std::size_t>(n_tokens) * static_cast<std::size_t>(hidden) *
         size_in_bytes(embedding_dtype);
}

std::size_t PackedHeader::n_blocks() const {
  return (file_bytes() - arena_offset + kBlockBytes - 1) / kBlockBytes;
}

std::size_t PackedHeader::block_bytes(std::size_t i) const {
  return std::min(kBlockBytes, file_bytes() - block_offset(i));
}

void PackedHeader::place_arena() {
  arena_offset = kArenaAlignment;
  checksums.resize(n_blocks());
  // The offset's own digits are the only ones that can still change.
  constexpr std::size_t kSlack = 32;
  arena_offset = rounded_up(kPreambleBytes + json_of(*this).size() + kSlack, kArenaAlignment);
}

std::string PackedHeader::to_bytes() const {
  const std::string json = json_of(*this);
  std::string bytes(kMagic);
  put(bytes, json.size());
  put(bytes, checksum(std::as_bytes(std::span(json))));
  bytes += json;
  bytes.resize(arena_offset);
  return bytes;
}

bool PackedHeader::begins(std::span<const std::byte> start) {
  return start.size() >= kMagic.size() &&
         std::memcmp(start.data(), kMagic.data(), kMagic.size()) == 0;
}

PackedHeader PackedHeader::parse(std::span<const std::byte> start, std::size_t file_size,
                                 const std::string& name) {
  if (start.size() < kPreambleBytes || !begins(start)) {
    fail(ErrorCode::kBadPackedFile, "{}: is not a packed model; make one with tessera pack", name);
  }
  const std::uint64_t size = get(start.subspan(8, 8));
  if (size > kMaxHeaderBytes) fail_damaged(name, "a header of impossible length");
  if (size > start.size() - kPreambleBytes) fail_damaged(name, "cut off within the header");
  const auto json = start.subspan(kPreambleBytes, static_cast<std::size_t>(size));
  if (checksum(json) != get(start.subspan(16, 8))) {
    fail_damaged(name, "wrong checksum of the header");
  }
  const std::string_view text(reinterpret_cast<const char*>(json.data()), json.size());
  const PackedHeader h = header_of(JsonObject::parse(text, name, ErrorCode::kBadPackedFile), name);
  if (h.arena_offset % kArenaAlignment != 0 || h.arena_offset < kPreambleBytes + size) {
    fail_damaged(name, "an impossible place of the arena");
  }
  check_parts(h, name);
  if (file_size != h.file_bytes()) {
    fail(ErrorCode::kBadPackedFile,
         "{}: has {} bytes, but its header says {}; copy it or pack the model again", name,
         file_size, h.file_bytes());
  }
  if (h.checksums.size() != h.n_blocks()) fail_damaged(name, "checksums of another number");
  return h;
}

std::vector<PackedHeader::Part> parts_of(const WeightPlan& plan) {
  std::vector<PackedHeader::Part> parts;
  parts.reserve(plan.matrices.size() + plan.vectors.size());
  for (const MatrixPlan& m : plan.matrices) {
    std::string name = m.tensors[0];
    if (m.tensors.size() == 2) name += " + " + m.tensors[1];
    if (m.transposed || m.first > 0) {
      name += fmt::format(" from {}{}", m.first, m.transposed ? ", transposed" : "");
    }
    parts.push_back({std::move(name), m.layout, m.n, m.k, m.n_weights(), m.offset});
  }
  for (const VectorPlan& v : plan.vectors) {
    parts.push_back({v.tensor, tile::cpu::PanelLayout::kF32, v.n, 0, 1, v.offset});
  }
  return parts;
}

}  // namespace tessera
