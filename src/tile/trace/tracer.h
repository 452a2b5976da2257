// Recording: the kernel's body runs, and every function of the language adds an operation here.
//
// The tracer checks each operation as it comes, so that an error names the line that wrote it:
// types by ir::infer(), bounds, what is written and read by Written (written.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tessera/tile.h>

#include "tile/ir/kernel.h"
#include "tile/trace/bounds.h"
#include "tile/trace/written.h"

namespace tessera::tile {

class Tracer {
 public:
  explicit Tracer(std::string name);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The tracer of the kernel being traced on this thread; an error (TL110) outside of one.
  static Tracer& current(std::string_view what, const Where& where);

  void add_symbol(ir::Symbol symbol);
  Tensor add_memory(ir::Memory memory);
  // Ends the trace: every value stored, every output written.
  ir::Kernel finish();

  Tile add(ir::Op op);    // one that has a result
  void store(ir::Op op);  // assemble and scatter
  Tile view(ir::Op op);
  Tile operand(const Operand& operand);  // a number becomes a const
  const ir::Type& type(const Tile& tile) const {
    return values_[static_cast<std::size_t>(tile.id())].type;
  }

  bool is_weight(int value) const {
    return values_[static_cast<std::size_t>(value)].kind == ir::Kind::kWeight;
  }

  void loop(ir::Kind kind, const Index& count, const std::function<void(Index)>& body,
            const Location& location);
  void unroll(const Index& count, const std::vector<int>& factors,
              const std::function<void(Index, int)>& body, const Location& location);
  void set_option(const std::string& name, std::vector<std::int64_t> values);

  // The fixed extents of a shape; a dynamic one is an error (TL105).
  std::vector<std::int64_t> fixed_shape(const Indices& shape, std::string_view what,
                                        const Location& location) const;
  const ir::Memory& memory(const Tensor& tensor, const Location& location) const;

 private:
  ir::Op& push(ir::Op op);
  std::string new_name(const std::string& stem);
  // Indices of memory, from low to low + span, lie within its dims. Adds limits for index tensors.
  void check_bounds(const ir::Op& op, const ir::Memory& memory,
                    const std::vector<ir::IndexExpr>& low, const std::vector<ir::IndexExpr>& span);
  void check_size(const ir::Op& op) const;
  void check_all_stored() const;

  Tracer* outer_;
  ir::Kernel kernel_;
  std::vector<ir::Block*> blocks_;  // open, outermost first
  std::vector<ir::Op> values_;      // by id, without blocks
  std::vector<bool> used_;
  std::map<std::string, int> names_;
  LoopBounds loops_;
  Written written_;
};

Location to_location(const Where& where);

}  // namespace tessera::tile
