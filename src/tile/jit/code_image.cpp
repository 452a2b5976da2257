#include "tile/jit/code_image.h"

#include <cstring>

#include "base/fail.h"

namespace tessera::tile {

namespace {

void put(std::vector<std::byte>& out, const void* data, std::size_t size) {
  if (size == 0) return;
  const std::size_t end = out.size();
  out.resize(end + size);
  std::memcpy(out.data() + end, data, size);
}

void put_number(std::vector<std::byte>& out, std::uint64_t value) {
  put(out, &value, sizeof(value));
}

void put_text(std::vector<std::byte>& out, const std::string& text) {
  put_number(out, text.size());
  put(out, text.data(), text.size());
}

// Takes from the front of the bytes; whatever they hold, it reads nothing beyond them.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size()) fail(ErrorCode::kCompiler, "the compiled code is cut off");
    const auto taken = bytes_.first(static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text() {
    const auto taken = take(number());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> CodeImage::serialize() const {
  std::vector<std::byte> out;
  for (const std::string* text :
       {&origin.kernel, &origin.shape_class, &origin.cpu, &origin.compiler}) {
    put_text(out, *text);
  }
  put_number(out, entries.size());
  for (const Entry& entry : entries) {
    put_text(out, entry.name);
    put_number(out, entry.offset);
  }
  put_text(out, cannot_run);
  put_number(out, code.size());
  put(out, code.data(), code.size());
  return out;
}

CodeImage CodeImage::parse(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  CodeImage image;
  CodeImage::Origin& origin = image.origin;
  for (std::string* text : {&origin.kernel, &origin.shape_class, &origin.cpu, &origin.compiler}) {
    *text = reader.text();
  }
  const std::uint64_t n_entries = reader.number();
  for (std::uint64_t i = 0; i < n_entries; ++i) {
    std::string name = reader.text();
    const std::uint64_t offset = reader.number();
    image.entries.push_back({std::move(name), offset});
  }
  image.cannot_run = reader.text();
  const auto code = reader.take(reader.number());
  image.code.assign(code.begin(), code.end());
  for (const Entry& entry : image.entries) {
    if (entry.offset >= image.code.size()) {
      fail(ErrorCode::kCompiler, "the compiled code has no place for its entry {}", entry.name);
    }
  }
  if (reader.left() != 0) fail(ErrorCode::kCompiler, "the compiled code has bytes left over");
  return image;
}

}  // namespace tessera::tile
