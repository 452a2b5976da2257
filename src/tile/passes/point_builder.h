// The body of one nest, built by asking for values of tiles at indices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

// Thrown while a body is built: start again with this variable split in two.
struct SplitVar {
  std::string name;
  std::int64_t inner;  // name = outer * inner + rest
};
// Start again with two nests: name below at, and from at on.
struct CutVar {
  std::string name;
  std::int64_t at;
};
// Start again with this tile in memory of its own.
struct NeedsMemory {
  int value;
};

// Tiles by their number, and the memory that holds those that have some.
struct TileValues {
  std::map<int, ir::Op> defined;      // without blocks
  std::map<int, std::string> memory;  // indexed like the tile
};

class PointBuilder {
 public:
  // domain: the variables of the nest, all with static bounds in ranges.
  PointBuilder(const TileValues& tiles, const ir::Ranges& ranges, std::vector<ir::Var> domain,
               int& next_value)
      : tiles_(tiles), ranges_(ranges), domain_(std::move(domain)), next_value_(next_value) {
    ir::add_ranges(domain_, ranges_);
  }

  // The point value of a tile at an index of the tile's rank.
  int value_at(int tile, const std::vector<ir::IndexExpr>& index);
  int add(ir::Op op);
  // op without a result.
  void finish(ir::Op op) { ops_.push_back(std::move(op)); }
  int load(const std::string& memory, Element element, std::vector<ir::IndexExpr> index,
           const Location& location);
  const ir::Ranges& ranges() const { return ranges_; }
  ir::Block take() { return std::move(ops_); }
  const ir::Block& ops() const { return ops_; }

 private:
  int compute(const ir::Op& op, const std::vector<ir::IndexExpr>& index);
  int concat_at(const ir::Op& op, const std::vector<ir::IndexExpr>& index);
  std::vector<ir::IndexExpr> reshaped(const ir::Op& op, const std::vector<ir::IndexExpr>& index);
  void request_split(const ir::IndexExpr& index) const;

  const TileValues& tiles_;
  ir::Ranges ranges_;
  const std::vector<ir::Var> domain_;
  int& next_value_;
  ir::Block ops_;
  std::map<std::string, int> known_;  // "tile at index" -> value
};

}  // namespace tessera::tile::passes
