#include "tile/call/shape_class.h"

#include <algorithm>

#include "tile/ir/fail.h"
#include "tile/packed/panel_layout.h"

namespace tessera::tile {

namespace {

constexpr std::int64_t kUnset = -1;

std::size_t position(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (position(names, name) == names.size()) names.push_back(name);
}

std::string describe(const Parameter& parameter, const Argument& argument) {
  return fmt::format("{} is {}{}{}", parameter.name, to_string(argument.element),
                     argument.packed ? " packed " : " ",
                     ir::shape_text(std::vector<std::int64_t>(
                         argument.dims.begin(), argument.dims.begin() + argument.rank)));
}

std::int64_t value_of(const Signature& signature, const Dim& dim, const Binding& binding) {
  if (!dim.factors().empty()) {
    std::int64_t product = 1;
    for (const Dim& factor : dim.factors()) product *= value_of(signature, factor, binding);
    return product;
  }
  if (dim.name().empty()) return dim.number();
  return dim.is_dynamic() ? binding.symbols[position(signature.dynamic, dim.name())]
                          : binding.fixed[position(signature.fixed, dim.name())];
}

std::size_t bytes_of(const Argument& argument) {
  if (argument.packed) {
    return cpu::PackedShape{cpu::weight_layout(argument.element), argument.dims[0],
                            argument.dims[1]}
        .bytes();
  }
  std::size_t n = size_in_bytes(argument.element);
  for (int d = 0; d < argument.rank; ++d)
    n *= static_cast<std::size_t>(argument.dims[static_cast<std::size_t>(d)]);
  return n;
}

}  // namespace

Signature::Signature(const std::string& kernel, std::vector<Parameter> list,
                     const Location& location)
    : parameters(std::move(list)) {
  if (parameters.size() > static_cast<std::size_t>(kMaxParameters)) {
    fail_at(code::kBadSignature, location, "kernel {}: {} parameters, at most {}", kernel,
            parameters.size(), kMaxParameters);
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.dims.size() > static_cast<std::size_t>(kMaxRank)) {
      fail_at(code::kBadSignature, location, "kernel {}: {} has {} dims, at most {}", kernel,
              parameter.name, parameter.dims.size(), kMaxRank);
    }
    if (parameter.element == Element::kI4 && parameter.role != Parameter::Role::kWeight) {
      fail_at(code::kBadSignature, location, "kernel {}: {} of int4 is no packed weight", kernel,
              parameter.name);
    }
    if (parameter.role == Parameter::Role::kWeight && parameter.dims.size() != 2) {
      fail_at(code::kBadSignature, location, "kernel {}: weight {} has {} dims, not [n, k]", kernel,
              parameter.name, parameter.dims.size());
    }
    for (const Dim& dim : parameter.dims) {
      if (parameter.role == Parameter::Role::kWeight && dim.is_dynamic()) {
        fail_at(code::kBadSignature, location, "kernel {}: weight {} has a dynamic dim", kernel,
                parameter.name);
      }
      if (!dim.name().empty()) add_name(dim.is_dynamic() ? dynamic : fixed, dim.name());
      for (const Dim& factor : dim.factors()) {
        if (!factor.name().empty()) add_name(factor.is_dynamic() ? dynamic : fixed, factor.name());
      }
    }
  }
  for (const std::string& name : dynamic) {
    if (position(fixed, name) != fixed.size()) {
      fail_at(code::kBadSignature, location, "kernel {}: dim {} is both fixed and dynamic", kernel,
              name);
    }
  }
  if (dynamic.size() > static_cast<std::size_t>(kMaxSymbols)) {
    fail_at(code::kBadSignature, location, "kernel {}: {} dynamic dims, at most {}", kernel,
            dynamic.size(), kMaxSymbols);
  }
}

Binding bind(const std::string& kernel, const Signature& signature,
             std::span<const Argument> arguments) {
  if (arguments.size() != signature.parameters.size()) {
    fail_at(code::kBadCall, {}, "kernel {} takes {} arguments, not {}", kernel,
            signature.parameters.size(), arguments.size());
  }
  Binding binding;
  binding.fixed.fill(kUnset);
  binding.symbols.fill(kUnset);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& parameter = signature.parameters[i];
    const Argument& argument = arguments[i];
    const bool packed = parameter.role == Parameter::Role::kWeight;
    const bool fits = parameter.element ? argument.element == *parameter.element
                      : packed          ? is_weight_element(argument.element)
                                        : is_float(argument.element);
    if (!fits || argument.packed != packed) {
      fail_at(code::kBadCall, {}, "kernel {}: {}, but must be {}{}", kernel,
              describe(parameter, argument), packed ? "packed " : "",
              parameter.element ? to_string(*parameter.element)
              : packed          ? "floating-point, int8 or int4"
                                : "floating-point");
    }
    binding.elements[i] = argument.element;
    if (argument.rank != static_cast<int>(parameter.dims.size())) {
      fail_at(code::kBadCall, {}, "kernel {}: {}, but must have {} dims", kernel,
              describe(parameter, argument), parameter.dims.size());
    }
    for (std::size_t d = 0; d < parameter.dims.size(); ++d) {
      const Dim& dim = parameter.dims[d];
      if (argument.dims[d] < 0 || (argument.dims[d] == 0 && !dim.is_dynamic())) {
        fail_at(code::kBadCall, {}, "kernel {}: {}: dim {} must be positive", kernel,
                describe(parameter, argument), d);
      }
      if (dim.name().empty()) continue;
      std::int64_t& value = dim.is_dynamic()
                                ? binding.symbols[position(signature.dynamic, dim.name())]
                                : binding.fixed[position(signature.fixed, dim.name())];
      if (value == kUnset) value = argument.dims[d];
    }
  }
  for (std::size_t i = 0; i < signature.dynamic.size(); ++i) {
    if (binding.symbols[i] == 0) binding.empty = true;
    if (binding.symbols[i] == kUnset) {
      fail_at(code::kBadCall, {}, "kernel {}: nothing says what dim {} is", kernel,
              signature.dynamic[i]);
    }
  }
  for (std::size_t i = 0; i < signature.fixed.size(); ++i) {
    if (binding.fixed[i] == kUnset) {
      fail_at(code::kBadCall, {}, "kernel {}: nothing says what dim {} is", kernel,
              signature.fixed[i]);
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& parameter = signature.parameters[i];
    for (std::size_t d = 0; d < parameter.dims.size(); ++d) {
      const std::int64_t wanted = value_of(signature, parameter.dims[d], binding);
      if (arguments[i].dims[d] == wanted) continue;
      fail_at(code::kBadCall, {}, "kernel {}: {}: dim {}{}{} must be {}", kernel,
              describe(parameter, arguments[i]), d, parameter.dims[d].name().empty() ? "" : " ",
              parameter.dims[d].name(), wanted);
    }
  }
  return binding;
}

void check_data(const std::string& kernel, const Signature& signature,
                std::span<const Argument> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const auto begin = reinterpret_cast<std::uintptr_t>(argument.data);
    const std::size_t alignment = argument.packed ? 64 : size_in_bytes(argument.element);
    if (begin == 0 || begin % alignment != 0) {
      fail_at(code::kBadCall, {}, "kernel {}: {} at {}: the address must be a multiple of {}",
              kernel, describe(signature.parameters[i], argument), argument.data, alignment);
    }
    if (signature.parameters[i].role != Parameter::Role::kOut) continue;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      if (j == i) continue;
      const auto other = reinterpret_cast<std::uintptr_t>(arguments[j].data);
      if (other < begin + bytes_of(argument) && begin < other + bytes_of(arguments[j])) {
        fail_at(code::kAliasing, {}, "kernel {}: the output {} and {} share memory", kernel,
                signature.parameters[i].name, signature.parameters[j].name);
      }
    }
  }
}

ir::Symbol symbol_class(const std::string& name, std::int64_t value) {
  if (value > 16) return {name, 17, -1};
  std::int64_t high = 1;
  while (high < value) high *= 2;
  return {name, high / 2 + 1, high};
}

bool same_class(const Signature& signature, const Binding& a, const Binding& b) {
  const auto equal_parts = [](const auto& x, const auto& y, std::size_t n) {
    return std::equal(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n), y.begin());
  };
  if (!equal_parts(a.elements, b.elements, signature.parameters.size()) ||
      !equal_parts(a.fixed, b.fixed, signature.fixed.size())) {
    return false;
  }
  for (std::size_t i = 0; i < signature.dynamic.size(); ++i) {
    const auto high = [](std::int64_t value) {
      std::int64_t bound = 1;
      while (bound < value && bound < 32) bound *= 2;
      return bound;
    };
    if (high(a.symbols[i]) != high(b.symbols[i])) return false;
  }
  return true;
}

ir::IndexExpr dim_expression(const Signature& signature, const Dim& dim, const Binding& binding) {
  if (!dim.factors().empty()) {
    ir::IndexExpr product = 1;
    for (const Dim& factor : dim.factors())
      product = product * dim_expression(signature, factor, binding);
    return product;
  }
  if (!dim.name().empty() && dim.is_dynamic()) return ir::IndexExpr::name(dim.name());
  return value_of(signature, dim, binding);
}

}  // namespace tessera::tile
