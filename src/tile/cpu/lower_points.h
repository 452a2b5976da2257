// The body of a nest: one point in scalar registers, or as many as a vector holds.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tile/cpu/lower_context.h"

namespace tessera::tile::cpu {

// How an access moves when the vector's variable does.
struct Movement {
  bool known = false;    // false: no vector, an index that is not linear in the variable
  ir::IndexExpr stride;  // elements; 0: the same for all lanes
  bool is(std::int64_t elements) const { return known && stride == ir::IndexExpr(elements); }
};
Movement movement(const ir::IndexExpr& offset, const std::string& var);

struct Points {
  std::string vector_var;        // empty: scalar code
  llvm::Value* mask = nullptr;   // lanes that are real; nullptr: all
  llvm::Value* count = nullptr;  // their number, where there is a mask
  llvm::Value* acc = nullptr;    // what `acc` is: a scalar or a vector
};

class PointEmitter {
 public:
  PointEmitter(LowerContext& context, const ir::Block& body) : c_(context), body_(body) {}

  // Emits what does not depend on the vector's variable, once, in front of the loop over it.
  void hoist(const Points& points);
  // Emits the rest; variables must be in the context's names, the vector's at its first lane.
  void emit(const Points& points);
  // The operand of the body's accumulate after emit: a vector where points has a variable and the
  // value depends on it. If the operand is a product, sum + a * b is formed at once.
  llvm::Value* accumulated(const Points& points, llvm::Value* sum);
  bool sums() const { return body_.back().kind == ir::Kind::kAccumulateSum; }

 private:
  struct Value {
    llvm::Value* value = nullptr;
    bool lanes = false;
  };

  bool moves(const ir::Op& op, const Points& points) const;
  void one(const ir::Op& op, const Points& points);
  Value load(const ir::Op& op, const Points& points);
  void store(const ir::Op& op, const Points& points);
  // The access of the same kind to the element before or behind, if both go to every second
  // element.
  struct Partner {
    const ir::Op* op = nullptr;
    bool is_second = false;  // it accesses the element behind
  };
  Partner partner(const ir::Op& op, const Points& points) const;
  llvm::Value* operand(int value, bool lanes);
  llvm::Value* compute(const ir::Op& op, bool lanes);
  llvm::Value* convert(const ir::Op& op, llvm::Value* from, tile::Element from_element);
  bool is_fused_product(const ir::Op& op) const;

  LowerContext& c_;
  const ir::Block& body_;
  std::map<int, Value> values_;
  std::map<int, tile::Element> elements_;
  std::set<int> paired_;  // loaded together with their partner
};

}  // namespace tessera::tile::cpu
