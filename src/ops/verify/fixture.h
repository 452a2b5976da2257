// A case made ready to run: its inputs, drawn, and any implementation of its operator on them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/registry.h"
#include "ops/verify/case.h"
#include "ops/verify/guarded.h"

namespace tessera::ops::verify {

// One output of one run.
struct OutputMemory {
  OutputMemory(std::string name, const Shape& shape, DType dtype)
      : name(std::move(name)),
        shape(shape),
        dtype(dtype),
        memory(static_cast<std::size_t>(n_elements(shape)) * size_in_bytes(dtype)) {}

  std::string name;
  Shape shape;
  DType dtype;
  Guarded memory;
  std::string
      fault;  // what the run did beside its results, such as "wrote before or after the tensor"
};

class Fixture {
 public:
  virtual ~Fixture() = default;

  virtual std::vector<std::string_view> implementations() const = 0;

  // Why the implementation cannot run this case; empty: it can.
  virtual std::string unsupported(std::string_view implementation) const = 0;

  // Fills the outputs, which are those of the case, in any element type. Faults of memory are noted
  // in them.
  virtual void run(std::string_view implementation, std::span<OutputMemory> outputs,
                   Executor& executor) const = 0;
};

// Throw Error(kBadCases) where shapes of the case do not fit together. The lists are those of the
// registry, or a test's own.
std::unique_ptr<Fixture> make_rms_norm_fixture(
    const Case& c, std::span<const RmsNormImplementation* const> list = rms_norm_implementations());
std::unique_ptr<Fixture> make_rope_fixture(
    const Case& c, std::span<const RopeImplementation* const> list = rope_implementations());
std::unique_ptr<Fixture> make_mla_prolog_fixture(
    const Case& c,
    std::span<const MlaPrologImplementation* const> list = mla_prolog_implementations());

// By the name of the operator.
std::unique_ptr<Fixture> make_fixture(const Case& c);

}  // namespace tessera::ops::verify
