// Linear layers in a recorded step: what linear() computes, with the same bits.
#pragma once

#include <span>
#include <string>

#include "ops/linear/linear.h"
#include "ops/recorded_rows.h"
#include "tile/product/product.h"

namespace tessera::ops {

// Rows in the form in which a layout's products read them.
struct RecordedOperand {
  PanelLayout layout = PanelLayout::kF32;
  const tile::Product* product = nullptr;
  graph::Memory memory;
  RowCount count;
  std::int64_t k = 0;
};

// "i8g32 [3072, 2048]".
std::string shape_of(const PackedLinear& w);

// Each worker rounds the rows for itself where they are few.
RecordedOperand record_operand(graph::Recorder& recorder, const std::string& name,
                               const RecordedRows& x, PanelLayout layout);

// y = x * w^T, or what the epilogue makes of it (not kScaledAdd). y has one copy.
void record_linear(graph::Recorder& recorder, const std::string& name, const RecordedOperand& x,
                   const PackedLinear& w, const RecordedRows& y,
                   Epilogue epilogue = Epilogue::kStore);
void record_linear(graph::Recorder& recorder, const std::string& name, const RecordedRows& x,
                   const PackedLinear& w, const RecordedRows& y,
                   Epilogue epilogue = Epilogue::kStore);

// Values of several heads per row: those of head h from column h * stride on.
struct RecordedHeads {
  RecordedRows rows;
  std::int64_t heads = 0;
  std::int64_t stride = 0;

  Heads at(int worker) const {
    const Rows all = rows.at(worker);
    return {all.data, all.rows, heads, all.stride, stride};
  }
};

// y's head h = x's head h * w[h]^T. A task is a head.
void record_head_products(graph::Recorder& recorder, const std::string& name,
                          const RecordedHeads& x, std::span<const PackedLinear> w,
                          const RecordedHeads& y);

// Memory in which one worker rounds the rows of one head, of the widest of the weights.
graph::BufferInfo head_operand_buffer(const std::string& name, RowCount count,
                                      std::span<const PackedLinear> weights);
// y = x * w^T on the calling thread; prepared: what head_operand_buffer() says.
void multiply_here(const ConstRows& x, const tile::Product& product, const PackedLinear& w,
                   std::byte* prepared, const Rows& y) noexcept;

}  // namespace tessera::ops
