#include "tile/call/shape_class.h"

#include <algorithm>
#include <bit>

#include "tile/call/overlap.h"
#include "tile/ir/fail.h"

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

DimSource source_of(const Signature& signature, const Dim& dim) {
  DimSource source;
  if (!dim.factors().empty()) {
    source.kind = DimSource::Kind::kProduct;
    for (const Dim& factor : dim.factors()) source.factors.push_back(source_of(signature, factor));
  } else if (dim.name().empty()) {
    source.number = dim.number();
  } else {
    source.kind = dim.is_dynamic() ? DimSource::Kind::kDynamic : DimSource::Kind::kFixed;
    source.name = position(dim.is_dynamic() ? signature.dynamic : signature.fixed, dim.name());
  }
  return source;
}

std::int64_t value_of(const DimSource& source, const Binding& binding) {
  switch (source.kind) {
    case DimSource::Kind::kFixed:
      return binding.fixed[source.name];
    case DimSource::Kind::kDynamic:
      return binding.symbols[source.name];
    case DimSource::Kind::kProduct: {
      std::int64_t product = 1;
      for (const DimSource& factor : source.factors) product *= value_of(factor, binding);
      return product;
    }
    default:
      return source.number;
  }
}

// 1, 2, 3-4, 5-8, 9-16, 17 and more.
std::uint8_t range_of(std::int64_t value) {
  constexpr int kLast = 5;
  if (value > 16) return kLast;
  return value < 2
             ? 0
             : static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(value - 1)));
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
  if (dynamic.size() > static_cast<std::size_t>(kMaxDynamicDims)) {
    fail_at(code::kBadSignature, location, "kernel {}: {} dynamic dims, at most {}", kernel,
            dynamic.size(), kMaxDynamicDims);
  }
  for (const Parameter& parameter : parameters) {
    sources.emplace_back();
    for (const Dim& dim : parameter.dims) {
      if (!dim.factors().empty()) products.emplace_back(sources.size() - 1, sources.back().size());
      sources.back().push_back(source_of(*this, dim));
    }
  }
}

namespace {

[[noreturn]] void refuse_element(const std::string& kernel, const Parameter& parameter,
                                 const Argument& argument) {
  const bool packed = parameter.role == Parameter::Role::kWeight;
  fail_at(code::kBadCall, {}, "kernel {}: {}, but must be {}{}", kernel,
          describe(parameter, argument), packed ? "packed " : "",
          parameter.element ? to_string(*parameter.element)
          : packed          ? "floating-point, int8 or int4"
                            : "floating-point");
}

[[noreturn]] void refuse_dim(const std::string& kernel, const Parameter& parameter,
                             const Argument& argument, std::size_t d, std::int64_t wanted) {
  const std::string& name = parameter.dims[d].name();
  fail_at(code::kBadCall, {}, "kernel {}: {}: dim {}{}{} must be {}", kernel,
          describe(parameter, argument), d, name.empty() ? "" : " ", name, wanted);
}

// Everything that a call may have wrong with one argument but its dims' values.
void check_argument(const std::string& kernel, const Parameter& parameter,
                    const Argument& argument) {
  const bool packed = parameter.role == Parameter::Role::kWeight;
  const bool fits = parameter.element ? argument.element == *parameter.element
                    : packed          ? is_weight_element(argument.element)
                                      : is_float(argument.element);
  if (!fits || argument.packed != packed) refuse_element(kernel, parameter, argument);
  if (argument.rank != static_cast<int>(parameter.dims.size())) {
    fail_at(code::kBadCall, {}, "kernel {}: {}, but must have {} dims", kernel,
            describe(parameter, argument), parameter.dims.size());
  }
  for (std::size_t d = 0; d < parameter.dims.size(); ++d) {
    if (argument.dims[d] > 0) continue;
    if (argument.dims[d] == 0 && parameter.dims[d].is_dynamic()) continue;
    fail_at(code::kBadCall, {}, "kernel {}: {}: dim {} must be positive", kernel,
            describe(parameter, argument), d);
  }
}

void check_strides(const std::string& kernel, const Parameter& parameter,
                   const Argument& argument) {
  const bool written = parameter.role != Parameter::Role::kIn;
  const auto last = argument.strides.begin() + argument.rank;
  if (std::any_of(argument.strides.begin(), last, [](std::int64_t s) { return s < 0; })) {
    fail_at(code::kBadCall, {}, "kernel {}: {}: a stride is negative", kernel,
            describe(parameter, argument));
  }
  if (written && !elements_apart(argument)) {
    fail_at(code::kBadCall, {}, "kernel {}: {}: with strides {} its elements overlap", kernel,
            describe(parameter, argument),
            ir::shape_text(std::vector<std::int64_t>(argument.strides.begin(), last)));
  }
}

}  // namespace

void bind(const std::string& kernel, const Signature& signature,
          std::span<const Argument> arguments, Binding& binding) {
  if (arguments.size() != signature.parameters.size()) {
    fail_at(code::kBadCall, {}, "kernel {} takes {} arguments, not {}", kernel,
            signature.parameters.size(), arguments.size());
  }
  const std::size_t n_dynamic = signature.dynamic.size();
  std::fill_n(binding.fixed.begin(), signature.fixed.size(), kUnset);
  std::fill_n(binding.symbols.begin(), n_dynamic, kUnset);
  std::size_t n_symbols = n_dynamic;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const Parameter& parameter = signature.parameters[i];
    check_argument(kernel, parameter, argument);
    binding.elements[i] = argument.element;
    for (std::size_t d = 0; d < parameter.dims.size(); ++d) {
      const DimSource& source = signature.sources[i][d];
      std::int64_t number = source.number;
      std::int64_t* value = &number;
      if (source.kind == DimSource::Kind::kProduct) continue;  // when all names are known
      if (source.kind == DimSource::Kind::kFixed) value = &binding.fixed[source.name];
      if (source.kind == DimSource::Kind::kDynamic) value = &binding.symbols[source.name];
      if (*value == kUnset) *value = argument.dims[d];
      if (*value != argument.dims[d]) refuse_dim(kernel, parameter, argument, d, *value);
    }
    if (argument.dense) continue;
    check_strides(kernel, parameter, argument);
    binding.gaps |= 1u << i;
    for (std::size_t d = 0; d + 1 < parameter.dims.size(); ++d) {
      binding.symbols[n_symbols++] = argument.strides[d];
    }
  }
  for (std::size_t i = 0; i < n_dynamic; ++i) {
    if (binding.symbols[i] == kUnset) {
      fail_at(code::kBadCall, {}, "kernel {}: nothing says what dim {} is", kernel,
              signature.dynamic[i]);
    }
    binding.empty = binding.empty || binding.symbols[i] == 0;
    binding.ranges[i] = range_of(binding.symbols[i]);
  }
  for (std::size_t i = 0; i < signature.fixed.size(); ++i) {
    if (binding.fixed[i] == kUnset) {
      fail_at(code::kBadCall, {}, "kernel {}: nothing says what dim {} is", kernel,
              signature.fixed[i]);
    }
  }
  for (const auto& [i, d] : signature.products) {
    const std::int64_t wanted = value_of(signature.sources[i][d], binding);
    if (arguments[i].dims[d] != wanted) {
      refuse_dim(kernel, signature.parameters[i], arguments[i], d, wanted);
    }
  }
}

void check_data(const std::string& kernel, const Signature& signature,
                std::span<const Argument> arguments) {
  std::array<std::uintptr_t, kMaxParameters> begin;
  std::array<std::uintptr_t, kMaxParameters> end;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    begin[i] = reinterpret_cast<std::uintptr_t>(argument.data);
    end[i] = begin[i] + span_in_bytes(argument);
    const std::size_t alignment = argument.packed ? 64 : size_in_bytes(argument.element);
    if (begin[i] == 0 || (begin[i] & (alignment - 1)) != 0) {
      fail_at(code::kBadCall, {}, "kernel {}: {} at {}: the address must be a multiple of {}",
              kernel, describe(signature.parameters[i], argument), argument.data, alignment);
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter::Role role = signature.parameters[i].role;
    if (role != Parameter::Role::kOut && role != Parameter::Role::kInOut) continue;
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      const bool may_meet = j != i && begin[j] < end[i] && begin[i] < end[j];
      if (!may_meet || !share_memory(arguments[i], arguments[j])) continue;
      fail_at(code::kAliasing, {}, "kernel {}: the {} {} and {} share memory", kernel,
              role == Parameter::Role::kOut ? "output" : "updated tensor",
              signature.parameters[i].name, signature.parameters[j].name);
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
  return a.gaps == b.gaps && equal_parts(a.ranges, b.ranges, signature.dynamic.size()) &&
         equal_parts(a.fixed, b.fixed, signature.fixed.size()) &&
         equal_parts(a.elements, b.elements, signature.parameters.size());
}

ir::IndexExpr dim_expression(const Signature& signature, const Dim& dim, const Binding& binding) {
  if (!dim.factors().empty()) {
    ir::IndexExpr product = 1;
    for (const Dim& factor : dim.factors())
      product = product * dim_expression(signature, factor, binding);
    return product;
  }
  if (!dim.name().empty() && dim.is_dynamic()) return ir::IndexExpr::name(dim.name());
  return value_of(source_of(signature, dim), binding);
}

}  // namespace tessera::tile
