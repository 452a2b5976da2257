#include <algorithm>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "base/checksum.h"
#include "io/atomic_file.h"
#include "model/pack_weights.h"
#include "model/packed/checkpoint_digest.h"
#include "model/packed/packed_file.h"

namespace tessera {

namespace {

// Written at once: the page cache then keeps the file in huge pages, where the file system can.
constexpr std::size_t kWriteBytes = std::size_t{64} << 20;

// Writes what follows the header, and takes its checksums. Memory holds what is not yet written:
// kWriteBytes and a piece.
class FileSink final : public ArenaSink {
 public:
  FileSink(AtomicFile& file, ops::Executor& executor, std::vector<std::uint64_t>& checksums)
      : file_(file), executor_(executor), checksums_(checksums), memory_(2 * kWriteBytes) {}

  std::byte* piece(std::size_t offset, std::size_t n) override {
    const std::size_t begin = offset - written_;
    if (begin + n > memory_.size()) {
      Buffer larger(begin + n);
      std::memcpy(larger.data(), memory_.data(), filled_);
      memory_ = std::move(larger);
    }
    std::memset(memory_.data() + filled_, 0, begin - filled_);
    filled_ = begin + n;
    return memory_.data() + begin;
  }

  void done() override {
    if (filled_ >= kWriteBytes) write(filled_ / PackedHeader::kBlockBytes);
  }

  // The last block may be a part of one.
  void finish() { write((filled_ + PackedHeader::kBlockBytes - 1) / PackedHeader::kBlockBytes); }

 private:
  void write(std::size_t n_blocks) {
    const std::size_t bytes = std::min(n_blocks * PackedHeader::kBlockBytes, filled_);
    const std::span<const std::byte> all(memory_.data(), bytes);
    const std::size_t first = checksums_.size();
    checksums_.resize(first + n_blocks);
    executor_.pool().parallel_for(static_cast<std::int64_t>(n_blocks), [&](std::int64_t i, int) {
      const std::size_t at = static_cast<std::size_t>(i) * PackedHeader::kBlockBytes;
      checksums_[first + static_cast<std::size_t>(i)] =
          checksum(all.subspan(at, std::min(PackedHeader::kBlockBytes, bytes - at)));
    });
    file_.write(all);
    written_ += bytes;
    filled_ -= bytes;
    std::memmove(memory_.data(), memory_.data() + bytes, filled_);
  }

  AtomicFile& file_;
  ops::Executor& executor_;
  std::vector<std::uint64_t>& checksums_;
  Buffer memory_;
  std::size_t written_ = 0;  // bytes of the arena and what follows that are in the file
  std::size_t filled_ = 0;   // bytes of memory_ that follow them
};

void copy_rows(const CheckpointTensor& tensor, std::size_t offset, FileSink& sink,
               ProgressCounter& progress) {
  const std::span<const std::byte> rows = tensor.bytes();
  for (std::size_t at = 0; at < rows.size(); at += PackedHeader::kBlockBytes) {
    const auto part = rows.subspan(at, std::min(PackedHeader::kBlockBytes, rows.size() - at));
    std::memcpy(sink.piece(offset + at, part.size()), part.data(), part.size());
    sink.done();
    tensor.release(at, part.size());
    progress.add(part.size());
  }
}

}  // namespace

void write_packed_file(const std::filesystem::path& path, const Checkpoint& checkpoint,
                       const ModelConfig& config, WeightFormat format, KvCacheForm form,
                       ops::Executor& executor, ProgressCounter& progress) {
  check_tensor_count(checkpoint, config);
  ModelWeights targets;
  const WeightPlan plan(config, format, form, targets);
  check_tensors(checkpoint, plan);
  const CheckpointTensor& rows = checkpoint.get(WeightPlan::kEmbedding);
  PackedHeader h;
  h.format = format;
  h.form = form;
  h.config_digest = config_digest(config);
  h.checkpoint_digest = checkpoint_digest(checkpoint);
  h.arena_bytes = plan.arena_bytes;
  h.embedding_dtype = *compute_dtype(rows.dtype());
  h.n_tokens = rows.shape()[0];
  h.hidden = rows.shape()[1];
  h.parts = parts_of(plan);
  h.place_arena();

  AtomicFile file(path);
  file.write(
      std::vector<std::byte>(h.arena_offset));  // the header comes when its checksums are known
  h.checksums.clear();
  FileSink sink(file, executor, h.checksums);
  pack_weights(checkpoint, plan, sink, executor, progress);
  copy_rows(rows, h.embedding_offset() - h.arena_offset, sink, progress);
  sink.finish();
  const std::string header = h.to_bytes();
  file.rewrite_start(std::as_bytes(std::span(header)));
  file.commit();
}

std::size_t packing_bytes(const Checkpoint& checkpoint, const ModelConfig& config) {
  const CheckpointTensor* rows = checkpoint.find(WeightPlan::kEmbedding);
  return source_bytes(checkpoint, config) + (rows == nullptr ? 0 : rows->bytes().size());
}

std::size_t packed_file_bytes(const Checkpoint& checkpoint, const ModelConfig& config,
                              WeightFormat format, KvCacheForm form) {
  ModelWeights targets;
  const WeightPlan plan(config, format, form, targets);
  return plan.arena_bytes + checkpoint.get(WeightPlan::kEmbedding).bytes().size();
}

}  // namespace tessera
