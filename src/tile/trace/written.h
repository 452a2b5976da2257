// What a kernel has written so far, as boxes of each tensor, while it is traced.
//
// Four questions are answered, and an answer that cannot be shown is "no": do the iterations of a
// store touch different elements; does a store touch what an earlier one wrote; has everything that
// is read been written before, in this iteration or in a loop that is finished; and, of tensors
// that are updated in place, is everything that an iteration reads overwritten later by that
// iteration alone.
#pragma once

#include <string>
#include <vector>

#include "tile/ir/kernel.h"
#include "tile/trace/bounds.h"

namespace tessera::tile {

// One dim of a box: low, low + step, ..., count of them.
struct Span {
  ir::IndexExpr low;
  ir::IndexExpr count;
  std::int64_t step = 1;

  ir::IndexExpr end() const { return low + (count - 1) * step + 1; }
};

struct Box {
  std::string memory;
  std::vector<Span> spans;
  std::vector<LoopVar> loops;                 // open where it was stored
  std::vector<std::pair<int, int>> branches;  // the unrolled loops it is in: (loop, which factor)
  Location location;
  std::string scatter;  // the index, where it was scattered
};

class Written {
 public:
  explicit Written(const LoopBounds& loops) : loops_(loops) {}

  // An assemble of spans; throws TL103.
  void store(Box box, const ir::Op& op, const ir::Memory& memory);
  // A scatter: index in terms of the axes @0 ... of the extents; throws TL103. Not readable
  // afterwards.
  void scatter(const ir::Op& op, const ir::Memory& memory,
               const std::vector<ir::IndexExpr>& extents);
  // A view of spans; throws TL102.
  void read(const Box& box, const ir::Op& op, const ir::Memory& memory) const;
  // A view of a tensor that is updated in place; throws TL113 where it was overwritten before.
  void read_in_place(Box box, const ir::Op& op, const ir::Memory& memory);
  // Once everything is traced: what was read in place was overwritten by its readers; throws TL113.
  void check_in_place() const;

  void open_unroll() { ++unrolls_; }
  void open_branch(int unroll, int branch) { branches_.emplace_back(unroll, branch); }
  void close_branch() { branches_.pop_back(); }
  int unroll_id() const { return unrolls_; }
  // The innermost loop ends: what its iterations wrote is joined. first is the number of boxes that
  // there were before it; branches is the number of factors (1 for plain loops).
  void close_loop(const LoopVar& loop, std::size_t first, int branches);
  std::size_t size() const { return readable_.size(); }
  bool any(const std::string& memory) const;

 private:
  void refuse_overlaps(const Box& box, const ir::Op& op, const ir::Memory& memory) const;
  bool apart(const Box& box, const Box& other) const;
  bool other_factor(const Box& other) const;

  const LoopBounds& loops_;
  std::vector<Box> stores_;    // as stored, for overlaps
  std::vector<Box> readable_;  // joined
  std::vector<Box> in_place_;  // views of tensors that are updated in place
  std::vector<std::pair<int, int>> branches_;
  int unrolls_ = 0;
};

}  // namespace tessera::tile
