// Text to token ids and back, as the `tokenizers` package does it for byte-level BPE files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace tessera::text {

// What becomes of added tokens that are spelled out in a text. A *control token* is an added token
// that is special, or whose content starts with '<' and ends with '>' ("<｜User｜>"); other added
// tokens (the "ø" of DeepSeek-V2) are always recognised.
enum class SpecialTokens {
  kParse,  // all are recognised: the text is trusted
  kPlain,  // control tokens are ordinary text: a user wrote it
};

// Immutable: threads may share it.
//
// Input that is not UTF-8 is repaired first: each maximal invalid part becomes one U+FFFD. Output
// is always UTF-8, repaired the same way.
class Tokenizer {
 public:
  // Reads tokenizer.json and, where there is one, tokenizer_config.json (bos_token, eos_token,
  // add_bos_token). Throws Error(kFileNotFound, kIo, kBadJson, kBadTokenizer, kUnsupported).
  static Tokenizer load(const std::filesystem::path& model_folder);

  // tokenizer.json alone; name stands for it in errors. A TemplateProcessing post-processor says
  // which token is bos; there is no eos.
  static Tokenizer parse(std::string_view tokenizer_json, std::string name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of the text alone: no bos is added. Throws Error(kUnsupported) where a pattern of the
  // file takes too long on the text, Error(kBadTokenizer) for a byte that the vocabulary lacks.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens mode) const;

  // A rendered chat template: control tokens are recognised where the template wrote them whole.
  std::vector<std::int32_t> encode(const MarkedText& text) const;

  // encode(), then bos in front if the model wants one (add_bos()) and the ids do not begin with
  // it.
  std::vector<std::int32_t> encode_prompt(std::string_view text, SpecialTokens mode) const;
  std::vector<std::int32_t> encode_prompt(const MarkedText& text) const;

  // skip_special leaves special tokens out. Throws Error(kInvalidArgument) for an id that no token
  // has.
  //
  // An added token stands for its content. The `tokenizers` package differs where that content
  // happens to be spelled in the byte-level alphabet: there "ø" decodes to the byte F8, that is, to
  // U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  // The bytes of one token, not repaired: they may be part of a character. Throws as decode() does.
  std::string_view bytes_of(std::int32_t id) const;

  // By spelling, as in tokenizer.json ("Ġthe", "<｜User｜>").
  std::optional<std::int32_t> id_of(std::string_view token) const;

  std::int32_t vocab_size() const;  // one more than the largest id
  bool has(std::int32_t id) const;
  bool is_special(std::int32_t id) const;  // false for ids that no token has

  std::optional<std::int32_t> bos_id() const { return bos_id_; }
  std::optional<std::int32_t> eos_id() const { return eos_id_; }
  bool add_bos() const { return add_bos_; }

  // Their text, "" without one: what chat templates call bos_token and eos_token.
  std::string bos_token() const;
  std::string eos_token() const;

 private:
  struct Parts;

  explicit Tokenizer(std::unique_ptr<Parts> parts);
  void read_config(std::string_view json, const std::string& name);

  std::unique_ptr<Parts> parts_;
  std::optional<std::int32_t> bos_id_;
  std::optional<std::int32_t> eos_id_;
  bool add_bos_ = false;
};

}  // namespace tessera::text
