// Activations: matrices of floats in which a row is contiguous and rows stand `stride` apart.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

namespace tessera::ops {

template <typename T>
struct BasicRows {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // in elements, >= columns

  BasicRows() = default;
  BasicRows(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data(data), rows(rows), columns(columns), stride(stride) {}
  BasicRows(T* data, std::int64_t rows, std::int64_t columns)
      : BasicRows(data, rows, columns, columns) {}
  operator BasicRows<const T>() const { return {data, rows, columns, stride}; }

  std::span<T> row(std::int64_t r) const {
    assert(0 <= r && r < rows);
    return {data + r * stride, static_cast<std::size_t>(columns)};
  }
  // n columns from column c on, of every row.
  BasicRows columns_from(std::int64_t c, std::int64_t n) const {
    assert(0 <= c && c + n <= columns);
    return {data + c, rows, n, stride};
  }
  BasicRows rows_from(std::int64_t r, std::int64_t n) const {
    assert(0 <= r && r + n <= rows);
    return {data + r * stride, n, columns, stride};
  }
};

// Values of several heads per row: those of one head are contiguous, heads stand `head_stride`
// apart.
template <typename T>
struct BasicHeads {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;

  operator BasicHeads<const T>() const { return {data, rows, heads, row_stride, head_stride}; }
  T* at(std::int64_t row, std::int64_t head) const {
    assert(0 <= row && row < rows && 0 <= head && head < heads);
    return data + row * row_stride + head * head_stride;
  }
  // The first n values of one head, as a matrix [rows, n].
  BasicRows<T> head(std::int64_t index, std::int64_t n) const {
    return {data + index * head_stride, rows, n, row_stride};
  }
};

using Rows = BasicRows<float>;
using ConstRows = BasicRows<const float>;
using Heads = BasicHeads<float>;
using ConstHeads = BasicHeads<const float>;

}  // namespace tessera::ops
