#include "tile/product/product.h"

#include <map>
#include <mutex>
#include <string>

#include "tile/call/shared_cache.h"
#include "tile/jit/compiler.h"

namespace tessera::tile {

Product::Product(cpu::PanelLayout layout) {
  CompileRequest request;
  request.front_end = "product";
  request.ir = to_string(layout);
  request.name = "product of " + request.ir;
  request.cpu = target_cpu_from_environment();
  code_ = shared_cache()->get(request);
  code_->function<ProductPlanFunction>("plan")(&plan_);
  prepare_ = code_->function<PrepareFunction>("prepare");
  multiply_ = code_->function<MultiplyFunction>("multiply");
}

const Product& shared_product(cpu::PanelLayout layout) {
  static std::mutex mutex;
  static std::map<cpu::PanelLayout, Product> products;
  const std::lock_guard lock(mutex);
  const auto found = products.find(layout);
  return found != products.end() ? found->second : products.emplace(layout, layout).first->second;
}

}  // namespace tessera::tile
