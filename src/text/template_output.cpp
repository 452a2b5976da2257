// Values as text and as JSON.
#include <cmath>
#include <optional>

#include "text/template_call.h"
#include "text/template_error.h"

namespace tessera::text {

namespace {

// Python's repr() of a float: the shortest digits that read back, always with a point or an
// exponent.
std::string python_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string digits = fmt::format("{}", number);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

class JsonWriter {
 public:
  JsonWriter(std::optional<int> indent, int line, RenderBudget& budget)
      : indent_(indent), line_(line), budget_(budget) {}

  // Values nest at most Value::kMaxDepth deep, and so does this.
  void write(const Value& value, int level) {
    budget_.spend_step(line_);
    if (value.is_none()) {
      out_ += "null";
    } else if (const bool* boolean = value.as_boolean()) {
      out_ += *boolean ? "true" : "false";
    } else if (const std::int64_t* integer = value.as_integer()) {
      out_ += fmt::format("{}", *integer);
    } else if (const double* real = value.as_real()) {
      out_ += std::isnan(*real)   ? "NaN"
              : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                                  : python_float(*real);
    } else if (const MarkedText* text = value.as_string()) {
      write_string(*text);
    } else if (const List* items = value.as_list()) {
      write_items('[', ']', *items, level, [&](const Value& item) { write(item, level + 1); });
    } else if (const Dict* entries = value.as_dict()) {
      write_items('{', '}', *entries, level, [&](const auto& entry) {
        write_string(entry.first);
        out_ += ": ";
        write(entry.second, level + 1);
      });
    } else {
      template_fail(line_, "tojson: {} has no JSON form", value.type_name());
    }
  }

  MarkedText take() {
    budget_.spend_bytes(out_.size(), line_);
    return has_user_text_ ? MarkedText::from_user(std::move(out_))
                          : MarkedText{std::move(out_), {}};
  }

 private:
  template <typename Items, typename Write>
  void write_items(char open, char close, const Items& items, int level, Write write_item) {
    out_ += open;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += indent_ ? "," : ", ";
      is_first = false;
      if (indent_) new_line(level + 1);
      write_item(item);
    }
    if (indent_ && !items.empty()) new_line(level);
    out_ += close;
  }

  void new_line(int level) {
    const std::size_t n_spaces =
        static_cast<std::size_t>(level) * static_cast<std::size_t>(*indent_);
    budget_.spend_bytes(n_spaces, line_);
    out_ += '\n';
    out_.append(n_spaces, ' ');
  }

  void write_string(const MarkedText& text) {
    budget_.spend_bytes(text.text.size(), line_);
    has_user_text_ = has_user_text_ || !text.user_ranges.empty();
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    out_ += '"';
    for (const char c : text.text) {
      const std::size_t letter = kEscaped.find(c);
      if (letter != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[letter];
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::optional<int> indent_;
  int line_;
  RenderBudget& budget_;
  std::string out_;
  bool has_user_text_ = false;
};

}  // namespace

MarkedText to_text(const Value& value, int line) {
  if (const MarkedText* text = value.as_string()) return *text;
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", {}};
  if (const bool* boolean = value.as_boolean()) return {*boolean ? "True" : "False", {}};
  if (const std::int64_t* integer = value.as_integer()) return {fmt::format("{}", *integer), {}};
  if (const double* real = value.as_real()) return {python_float(*real), {}};
  template_fail(line, "printing {} is not supported; tojson prints lists and mappings",
                value.type_name());
}

MarkedText to_json(const Value& value, std::optional<int> indent, int line, RenderBudget& budget) {
  JsonWriter writer(indent, line, budget);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace tessera::text
