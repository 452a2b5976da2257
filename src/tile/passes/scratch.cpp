#include "tile/passes/scratch.h"

#include <algorithm>
#include <map>

#include "tile/ir/fail.h"
#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Op;

// What one task may hold: it lies on a thread's stack.
constexpr std::int64_t kMaxTaskBytes = 512 * 1024;

struct Life {
  ir::Memory* memory;
  int first;
  int last;
};

IndexExpr bytes_of(const ir::Memory& memory) {
  IndexExpr n = static_cast<std::int64_t>(size_in_bytes(memory.element));
  for (const IndexExpr& dim : memory.dims) n = n * dim;
  // Rounded up, so that every part is aligned.
  if (n.is_constant())
    return (n.constant() + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  return IndexExpr::div(n + (kScratchAlignment - 1), kScratchAlignment) * kScratchAlignment;
}

// Slots in order of first use; a slot is taken again by memory whose life begins after the slot's
// last one ended. A slot is as large as the largest memory in it.
void place(std::vector<Life> lives) {
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.first < b.first; });
  struct Slot {
    IndexExpr bytes;
    int last = -1;
    std::vector<ir::Memory*> members;
  };
  std::vector<Slot> slots;
  for (const Life& life : lives) {
    auto slot = std::find_if(slots.begin(), slots.end(),
                             [&](const Slot& s) { return s.last < life.first; });
    if (slot == slots.end()) slot = slots.insert(slots.end(), Slot{});
    slot->bytes = slot->members.empty() ? bytes_of(*life.memory)
                                        : IndexExpr::max(slot->bytes, bytes_of(*life.memory));
    slot->last = life.last;
    slot->members.push_back(life.memory);
  }
  IndexExpr offset = 0;
  for (const Slot& slot : slots) {
    for (ir::Memory* memory : slot.members) {
      memory->placed = true;
      memory->offset = offset;
    }
    offset = offset + slot.bytes;
  }
}

class Scan {
 public:
  explicit Scan(ir::Kernel& kernel) : kernel_(kernel) {}

  void run() {
    for (std::size_t p = 0; p < kernel_.body.size(); ++p) {
      for (Op& tasks : kernel_.body[p].blocks[0]) {
        for_each_op(tasks.blocks[0], [&](const Op& op) {
          touch(op, ir::MemoryKind::kLocal, static_cast<int>(p), across_);
          touch(op, ir::MemoryKind::kScratch, static_cast<int>(p), across_);
        });
        within(tasks);
      }
    }
    std::vector<Life> lives;
    for (auto& [name, life] : across_) lives.push_back(life);
    place(lives);
  }

 private:
  using Lives = std::map<std::string, Life>;

  void touch(const Op& op, ir::MemoryKind kind, int time, Lives& lives) {
    if (op.memory.empty()) return;
    ir::Memory* memory = kernel_.find_memory(op.memory);
    if (memory->kind != kind) return;
    const auto [at, first] = lives.emplace(op.memory, Life{memory, time, time});
    at->second.last = time;
  }

  // Inside a loop, memory lives for the whole loop.
  void within(Op& tasks) {
    Lives lives;
    int time = 0;
    const bool one_loop = tasks.blocks[0].size() == 1 && tasks.blocks[0][0].kind == ir::Kind::kLoop;
    const ir::Block& statements = one_loop ? tasks.blocks[0][0].blocks[0] : tasks.blocks[0];
    for (const Op& statement : statements) {
      for_each_op({statement},
                  [&](const Op& op) { touch(op, ir::MemoryKind::kTemp, time, lives); });
      // Rows of a temporary value that is indexed by the loop around it are all alive together.
      if (!one_loop) ++time;
    }
    std::vector<Life> list;
    for (auto& [name, life] : lives) list.push_back(life);
    place(list);
    for (const Life& life : list) {
      const IndexExpr end = life.memory->offset + bytes_of(*life.memory);
      if (end.constant() <= kMaxTaskBytes) continue;
      fail_at(code::kTileTooLarge, tasks.location,
              "scratch: the intermediate tiles of one task need {} bytes, more than {}; use "
              "smaller tiles or a "
              "local tensor",
              end.constant(), kMaxTaskBytes);
    }
  }

  ir::Kernel& kernel_;
  Lives across_;
};

}  // namespace

void scratch(ir::Kernel& kernel) {
  Scan(kernel).run();
}

IndexExpr call_scratch_bytes(const ir::Kernel& kernel) {
  IndexExpr total = 0;
  for (const ir::Memory& memory : kernel.memories) {
    const bool across =
        memory.kind == ir::MemoryKind::kLocal || memory.kind == ir::MemoryKind::kScratch;
    if (across && memory.placed) total = IndexExpr::max(total, memory.offset + bytes_of(memory));
  }
  return total;
}

std::int64_t task_scratch_bytes(const ir::Kernel& kernel) {
  std::int64_t total = 0;
  for (const ir::Memory& memory : kernel.memories) {
    if (memory.kind != ir::MemoryKind::kTemp || !memory.placed) continue;
    total = std::max(total, memory.offset.constant() + bytes_of(memory).constant());
  }
  return total;
}

}  // namespace tessera::tile::passes
