#include "ops/matmul/primitive_cache.h"

#include "base/fail.h"

// From the OpenMP run-time that oneDNN was built with. Declared here because the header of the same
// name may belong to another run-time (clang's), and nothing else of OpenMP is used.
extern "C" void omp_set_num_threads(int n_threads);

namespace tessera::ops {

namespace {

// Row counts of prefill chunks vary freely; a bound keeps the cache small in a long-lived process.
constexpr std::size_t kMaxEntries = 4096;

}  // namespace

MatmulCache::MatmulCache() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

bool MatmulCache::has_bf16() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core || isa == dnnl::cpu_isa::avx512_core_vnni ||
         isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

const MatmulCache::Entry& MatmulCache::entry(const MatmulShape& shape) {
  if (const auto found = entries_.find(shape); found != entries_.end()) return found->second;
  if (entries_.size() >= kMaxEntries) entries_.clear();

  using dnnl::memory;
  const auto type = shape.dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc x({shape.m, shape.k}, type, memory::dims{shape.x_stride, 1});
  const memory::desc w({shape.k, shape.n}, type, memory::dims{shape.w_k_stride, shape.w_n_stride});
  const memory::desc y({shape.m, shape.n}, memory::data_type::f32, memory::dims{shape.y_stride, 1});
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, y), engine_);
  return entries_.emplace(shape, Entry{x, w, y, dnnl::matmul(description)}).first->second;
}

void MatmulCache::run(const MatmulShape& shape, const void* x, const void* w, float* y) {
  // The pool is the only source of parallelism: oneDNN's own would split the sum over k by the
  // thread count and change the result. The setting belongs to the calling thread.
  omp_set_num_threads(1);
  try {
    const Entry& product = entry(shape);
    product.primitive.execute(
        stream_, {{DNNL_ARG_SRC, dnnl::memory(product.x, engine_, const_cast<void*>(x))},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(product.w, engine_, const_cast<void*>(w))},
                  {DNNL_ARG_DST, dnnl::memory(product.y, engine_, y)}});
  } catch (const dnnl::error& error) {
    fail(ErrorCode::kUnsupported, "oneDNN refuses a {} product of {} x {} x {}: {}",
         to_string(shape.dtype), shape.m, shape.n, shape.k, error.what());
  }
}

}  // namespace tessera::ops
