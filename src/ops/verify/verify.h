// Golden tests of operators: every implementation against the reference, which computes in double.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/executor.h"
#include "ops/verify/case.h"
#include "ops/verify/fixture.h"
#include "ops/verify/measure.h"

namespace tessera::ops::verify {

struct OutputReport {
  std::string name;
  Shape shape;
  DType dtype;
  Measure measure;
  Shape worst;        // measure.worst as an index into shape
  std::string fault;  // empty: none
  bool pass = false;
};

struct Report {
  std::string op;
  std::string id;
  std::string implementation;
  std::string unsupported;  // why it was not run; empty: it was
  std::vector<OutputReport> outputs;

  bool ran() const { return unsupported.empty(); }
  bool pass() const;  // ran, and all outputs are right
};

// One case: its inputs, and what the reference makes of them in fp32.
class Verification {
 public:
  // The fixture has the implementation "reference". Throws Error(kBadCases).
  Verification(Case c, std::unique_ptr<Fixture> fixture, Executor& executor);
  Verification(const Case& c, Executor& executor) : Verification(c, make_fixture(c), executor) {}

  std::vector<std::string_view> implementations() const { return fixture_->implementations(); }

  // A name of implementations().
  Report check(std::string_view implementation, Executor& executor) const;

  // What an implementation writes, output after output, in the order of their names.
  std::vector<OutputMemory> run(std::string_view implementation, Executor& executor) const;

 private:
  Case case_;
  std::unique_ptr<Fixture> fixture_;
  std::vector<OutputMemory> golden_;
};

}  // namespace tessera::ops::verify
