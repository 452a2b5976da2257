// Parameters and arguments: making them.
#include <algorithm>

#include <tessera/tile.h>

#include "tile/ir/fail.h"
#include "tile/trace/tracer.h"

namespace tessera::tile {

Dim operator*(const Dim& a, const Dim& b) {
  Dim product(1);
  product.factors_ = {a, b};
  product.dynamic_ = a.is_dynamic() || b.is_dynamic();
  return product;
}

Parameter in(std::string name, std::vector<Dim> dims, std::optional<Element> element) {
  return {Parameter::Role::kIn, std::move(name), element, std::move(dims)};
}
Parameter out(std::string name, std::vector<Dim> dims, std::optional<Element> element) {
  return {Parameter::Role::kOut, std::move(name), element, std::move(dims)};
}
Parameter inout(std::string name, std::vector<Dim> dims, std::optional<Element> element) {
  return {Parameter::Role::kInOut, std::move(name), element, std::move(dims)};
}
Parameter weight(std::string name, std::vector<Dim> dims, std::optional<Element> element) {
  return {Parameter::Role::kWeight, std::move(name), element, std::move(dims)};
}
Parameter indices(std::string name, std::vector<Dim> dims) {
  return {Parameter::Role::kIn, std::move(name), Element::kI32, std::move(dims)};
}

Argument argument(const void* data, Element element, std::span<const std::int64_t> dims) {
  Argument argument;
  if (dims.size() > argument.dims.size()) {
    fail_at(code::kBadCall, {}, "an argument of rank {}: at most {}", dims.size(), kMaxRank);
  }
  argument.data = const_cast<void*>(data);  // written only where the signature says out
  argument.element = element;
  argument.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), argument.dims.begin());
  return argument;
}

Argument argument(const void* data, Element element, std::initializer_list<std::int64_t> dims) {
  return argument(data, element, std::span<const std::int64_t>(dims.begin(), dims.size()));
}

Argument strided_argument(const void* data, Element element,
                          std::initializer_list<std::int64_t> dims,
                          std::initializer_list<std::int64_t> strides) {
  Argument strided = argument(data, element, dims);
  if (strides.size() + 1 != dims.size()) {
    fail_at(code::kBadCall, {},
            "an argument of rank {} with {} strides: one for each dim but the last", dims.size(),
            strides.size());
  }
  std::copy(strides.begin(), strides.end(), strided.strides.begin());
  strided.strides[strides.size()] = 1;
  // Where every element is at its place in a dense tensor, it is one.
  std::int64_t distance = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    strided.dense = strided.dense && (strided.dims[d] == 1 || strided.strides[d] == distance);
    distance *= strided.dims[d];
  }
  return strided;
}

Argument packed_argument(const void* panels, Element element, std::int64_t n, std::int64_t k) {
  Argument packed = argument(panels, element, {n, k});
  packed.packed = true;
  return packed;
}

void internal::wrong_arity(const std::string& name, std::size_t parameters, std::size_t arity,
                           const Where& where) {
  fail_at(code::kBadSignature, to_location(where),
          "kernel {}: the signature has {} parameters, the body takes {}", name, parameters, arity);
}

}  // namespace tessera::tile
