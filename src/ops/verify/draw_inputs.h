// The inputs of a case: checked shapes, and guarded memory filled from the case's seed.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ops/rows.h"
#include "ops/verify/case.h"
#include "ops/verify/guarded.h"

namespace tessera::ops::verify {

// Throw Error(kBadCases): a tensor the operator does not know; a shape that is not the one which
// the other tensors ask for; one of another rank than "[batch, seq, hidden]" names.
void allow_tensors(const Case& c, std::initializer_list<std::string_view> inputs,
                   std::initializer_list<std::string_view> outputs);
void expect_shape(const Case& c, const std::string& name, const Shape& shape, const Shape& wanted);
void expect_rank(const Case& c, const std::string& name, const Shape& shape,
                 std::string_view wanted);

// The numbers of an input, already rounded to its element type: the stream of its name, times its
// scale in the case or else default_scale.
std::vector<float> draw(const Case& c, const std::string& name, double default_scale = 1);

// The same in fp32 in guarded memory.
Guarded draw_floats(const Case& c, const std::string& name);

// cos, sin [positions, rope / 2] in fp32, and for every token [batch * seq] its row of them.
struct RopeTables {
  RopeTables(const Case& c, std::int64_t batch, std::int64_t seq, std::int64_t rope);

  ConstRows cos_rows() const { return {cos.as<float>(), n_positions, pairs}; }
  ConstRows sin_rows() const { return {sin.as<float>(), n_positions, pairs}; }

  std::int64_t n_positions, pairs;
  Guarded cos, sin;
  std::vector<std::int64_t> positions;
};

}  // namespace tessera::ops::verify
