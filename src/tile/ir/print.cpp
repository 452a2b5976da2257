#include "tile/ir/print.h"

#include <fmt/format.h>

namespace tessera::tile::ir {

namespace {

std::string number_text(double value) {
  if (value != value) return "nan";
  if (value == value * 2 && value != 0) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);
}

std::string vars_text(const std::vector<Var>& vars) {
  std::string text = "(";
  bool reducing = false;
  for (const Var& var : vars) {
    if (var.reduces && !reducing) {
      text += text.size() > 1 ? "; " : ";";
      reducing = true;
    } else if (text.size() > 1) {
      text += ", ";
    }
    text += var.name + " < " + var.extent.to_string();
  }
  return text + ")";
}

std::string head(const Op& op) {
  const KindInfo& kind = info(op.kind);
  std::string text;
  if (op.result >= 0) text += fmt::format("%{} = ", op.result);
  text += kind.name;
  const char* separator = " ";
  for (int operand : op.operands) {
    text += fmt::format("{}%{}", separator, operand);
    separator = ", ";
  }
  const bool has_index = kind.index && (op.kind != Kind::kContract || !op.index.empty());
  if (kind.memory || has_index) text += fmt::format("{}{}", separator, op.memory);
  if (has_index) text += shape_text(op.index);
  if (op.kind == Kind::kConst) text += fmt::format(" {}", number_text(op.number));
  if (kind.vars != 0) text += fmt::format(" {}", vars_text(op.vars));
  if (!op.ints.empty()) text += fmt::format(" {} {}", kind.ints, shape_text(op.ints));
  if (op.result >= 0) text += fmt::format(" : {}", print(op.type));
  return text;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string kernel(const Kernel& kernel) {
    text_ = "kernel " + kernel.name + " {\n";
    for (const Symbol& symbol : kernel.symbols) {
      text_ += fmt::format("  symbol {} in {}..{}\n", symbol.name, symbol.low,
                           symbol.high < 0 ? "*" : std::to_string(symbol.high));
    }
    for (const Memory& memory : kernel.memories) {
      text_ += fmt::format("  {} {}: {}{}{}", to_string(memory.kind), memory.name,
                           to_string(memory.element), memory.panels ? " panels" : "",
                           shape_text(memory.dims));
      if (!memory.strides.empty()) text_ += fmt::format(" strides {}", shape_text(memory.strides));
      if (memory.placed) text_ += fmt::format(" at {}", memory.offset.to_string());
      location(memory.location);
      text_ += "\n";
    }
    for (const Limit& limit : kernel.limits) {
      text_ += fmt::format("  limit {} < {}\n", limit.memory, limit.limit.to_string());
    }
    for (const Option& option : kernel.options) {
      text_ += fmt::format("  option {} = {}\n", option.name, shape_text(option.values));
    }
    block(kernel.body, 1);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  void location(const Location& at) {
    if (options_.locations && at.known()) text_ += fmt::format(" loc \"{}\":{}", at.file, at.line);
  }

  void block(const Block& block, int depth) {
    for (const Op& op : block) {
      text_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + head(op);
      location(op.location);
      for (const Block& inner : op.blocks) {
        text_ += " {\n";
        this->block(inner, depth + 1);
        text_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + "}";
      }
      text_ += "\n";
    }
  }

  const PrintOptions options_;
  std::string text_;
};

}  // namespace

std::string print(const Type& type) {
  std::string text(to_string(type.element));
  if (!type.shape.empty()) text += shape_text(type.shape);
  if (!type.fully_valid()) text += fmt::format(" valid {}", shape_text(type.valid));
  return text;
}

std::string print(const Op& op) {
  return head(op);
}

std::string print(const Kernel& kernel, const PrintOptions& options) {
  return Printer(options).kernel(kernel);
}

}  // namespace tessera::tile::ir
