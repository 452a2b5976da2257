// Generated matrix products by packed weights, for use from C++.
#pragma once

#include <memory>

#include "tile/packed/panel_layout.h"
#include "tile/product/product_arguments.h"

namespace tessera::tile {

class CompiledCode;

// The functions for one layout of the weight: any number of rows, any k and n, every epilogue.
//
// A row's bits depend on its own numbers and the weight alone: not on the other rows of the call,
// on its place among them, nor on how the work is cut into ranges.
class Product {
 public:
  // Compiles with the plugin or takes the code from the cache; throws what that throws.
  explicit Product(cpu::PanelLayout layout);

  const ProductPlan& plan() const { return plan_; }
  void prepare(const ProductArguments& call, std::int64_t begin, std::int64_t end) const {
    prepare_(&call, begin, end);
  }
  void multiply(const ProductArguments& call, std::int64_t strip_begin, std::int64_t strip_end,
                std::int64_t block_begin, std::int64_t block_end) const {
    multiply_(&call, strip_begin, strip_end, block_begin, block_end);
  }

 private:
  std::shared_ptr<const CompiledCode> code_;
  ProductPlan plan_;
  PrepareFunction* prepare_ = nullptr;
  MultiplyFunction* multiply_ = nullptr;
};

// The product of a layout for the CPU of TESSERA_TARGET_CPU, made at the first call.
const Product& shared_product(cpu::PanelLayout layout);

}  // namespace tessera::tile
