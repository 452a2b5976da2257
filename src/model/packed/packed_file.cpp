#include "model/packed/packed_file.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/checksum.h"
#include "base/fail.h"
#include "io/atomic_file.h"
#include "tile/jit/hash.h"

namespace tessera {

namespace {

// Blocks compared with their checksums when a file is opened for a run: 64 MB, less than 20 ms.
constexpr std::size_t kSampledBlocks = 16;
// Written at once: the page cache then keeps the file in huge pages, where the file system can.
constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

// One checksum after another, by all threads. The arena and the embedding lie apart in memory; a
// block may begin in one and end in the other.
std::vector<std::uint64_t> checksums_of(const PackedHeader& h, const ModelWeights& weights,
                                        ops::Executor& executor) {
  std::vector<std::uint64_t> sums(h.n_blocks());
  executor.pool().parallel_for(std::ssize(sums), [&](std::int64_t index, int) {
    const auto i = static_cast<std::size_t>(index);
    const std::size_t begin = h.block_offset(i);
    const std::size_t end = begin + h.block_bytes(i);
    const std::size_t arena_end = h.arena_offset + h.arena_bytes;
    if (end <= arena_end) {
      sums[i] = checksum(weights.arena.bytes.subspan(begin - h.arena_offset, end - begin));
      return;
    }
    std::vector<std::byte> block(end - begin);  // with the zeros between them
    if (begin < arena_end) {
      std::ranges::copy(weights.arena.bytes.subspan(begin - h.arena_offset), block.begin());
    }
    const std::size_t rows = std::max(begin, h.embedding_offset());
    if (rows < end) {
      std::ranges::copy(weights.embedding.bytes().subspan(rows - h.embedding_offset(), end - rows),
                        block.begin() + static_cast<std::ptrdiff_t>(rows - begin));
    }
    sums[i] = checksum(block);
  });
  return sums;
}

void write_pieces(AtomicFile& file, std::span<const std::byte> bytes, ProgressCounter& progress) {
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    file.write(piece);
    progress.add(piece.size());
  }
}

}  // namespace

std::string config_digest(const ModelConfig& config) {
  tile::Hasher hasher;
  for (const TensorShape& tensor : checkpoint_tensors(config)) {
    hasher.add(tensor.name);
    for (std::int64_t size : tensor.shape) hasher.add(static_cast<std::uint64_t>(size));
  }
  return hasher.result().to_hex();
}

std::filesystem::path packed_path(const std::filesystem::path& folder, WeightFormat format,
                                  KvCacheForm form) {
  return folder / fmt::format("model-{}{}.tessera", to_string(format),
                              form == KvCacheForm::kExpanded ? "-expanded" : "");
}

PackedFile PackedFile::open(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  PackedHeader header = PackedHeader::parse(file->bytes(), file->bytes().size(), file->name());
  return {std::move(file), std::move(header)};
}

void PackedFile::check_config(const ModelConfig& config,
                              const std::filesystem::path& folder) const {
  // Three tensors of an expert are two parts; a config of many more is not even named.
  const bool is_too_large = tensor_count(config) / 2 > std::ssize(header_.parts);
  if (is_too_large || header_.config_digest != config_digest(config) ||
      header_.n_tokens != config.vocab_size || header_.hidden != config.hidden_size) {
    fail(ErrorCode::kBadPackedFile,
         "{}: holds a model of other sizes than {}; use the folder that it was packed from", name(),
         (folder / "config.json").string());
  }
  ModelWeights weights;
  const WeightPlan plan(config, header_.format, header_.form, weights);
  if (plan.arena_bytes != header_.arena_bytes || parts_of(plan) != header_.parts) {
    fail(ErrorCode::kBadPackedFile,
         "{}: its parts do not lie where this version has them; pack the model again", name());
  }
}

void PackedFile::check_checkpoint(std::string_view digest,
                                  const std::filesystem::path& folder) const {
  if (header_.checkpoint_digest == digest) return;
  fail(ErrorCode::kBadPackedFile,
       "{}: was packed from other weights than those in {}; pack the model again", name(),
       folder.string());
}

bool PackedFile::is_intact(std::size_t block) const {
  return checksum(file_->bytes().subspan(header_.block_offset(block),
                                         header_.block_bytes(block))) == header_.checksums[block];
}

void PackedFile::fail_block(std::size_t block) const {
  fail(ErrorCode::kBadPackedFile,
       "{}: is damaged (wrong checksum of the {} bytes from {}); pack the model again", name(),
       header_.block_bytes(block), header_.block_offset(block));
}

ModelWeights PackedFile::weights(const ModelConfig& config, ops::Executor& executor,
                                 ProgressCounter& progress) const {
  ModelWeights weights;
  const WeightPlan plan(config, header_.format, header_.form, weights);
  file_->use_huge_pages(header_.arena_offset, header_.arena_bytes);

  // The page table is filled here, by all threads: a fault for every few pages would make the first
  // tokens slow.
  const std::size_t n_blocks = header_.n_blocks();
  const std::size_t every = std::max<std::size_t>(n_blocks / (kSampledBlocks - 1), 1);
  std::atomic<std::size_t> damaged = n_blocks;
  const std::size_t step = 64;  // blocks between two reports of progress
  for (std::size_t first = 0; first < n_blocks; first += step) {
    const std::size_t count = std::min(step, n_blocks - first);
    executor.pool().parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t i, int) {
      const std::size_t block = first + static_cast<std::size_t>(i);
      file_->populate(header_.block_offset(block), header_.block_bytes(block));
      if ((block % every == 0 || block + 1 == n_blocks) && !is_intact(block)) damaged = block;
    });
    const std::size_t end = first + count - 1;
    progress.add(header_.block_offset(end) + header_.block_bytes(end) -
                 header_.block_offset(first));
  }
  if (damaged != n_blocks) fail_block(damaged);

  weights.arena = {file_, file_->bytes().subspan(header_.arena_offset, header_.arena_bytes)};
  plan.attach(weights.arena.bytes.data());
  weights.embedding = Embedding(
      file_, file_->bytes().subspan(header_.embedding_offset(), header_.embedding_bytes()),
      header_.embedding_dtype, header_.n_tokens, header_.hidden);
  return weights;
}

void PackedFile::check_data(ops::Executor& executor, const ProgressFn& progress) const {
  ProgressCounter counter(progress, header_.file_bytes() - header_.arena_offset);
  for (std::size_t first = 0; first < header_.n_blocks(); first += 16) {
    const std::size_t count = std::min<std::size_t>(16, header_.n_blocks() - first);
    std::atomic<std::size_t> damaged = header_.n_blocks();
    executor.pool().parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t i, int) {
      const std::size_t block = first + static_cast<std::size_t>(i);
      if (!is_intact(block)) damaged = block;
    });
    if (damaged != header_.n_blocks()) fail_block(damaged);
    for (std::size_t i = first; i < first + count; ++i) {
      file_->release(header_.block_offset(i), header_.block_bytes(i));
      counter.add(header_.block_bytes(i));
    }
  }
}

void write_packed_file(const std::filesystem::path& path, const ModelWeights& weights,
                       const ModelConfig& config, WeightFormat format, KvCacheForm form,
                       std::string_view checkpoint_digest, ops::Executor& executor,
                       ProgressCounter& progress) {
  ModelWeights targets;
  const WeightPlan plan(config, format, form, targets);
  PackedHeader h;
  h.format = format;
  h.form = form;
  h.config_digest = config_digest(config);
  h.checkpoint_digest = checkpoint_digest;
  h.arena_bytes = plan.arena_bytes;
  h.embedding_dtype = weights.embedding.dtype();
  h.n_tokens = weights.embedding.n_tokens();
  h.hidden = weights.embedding.hidden();
  h.parts = parts_of(plan);
  h.place_arena();
  h.checksums = checksums_of(h, weights, executor);

  AtomicFile file(path);
  const std::string header = h.to_bytes();
  file.write(std::as_bytes(std::span(header)));
  write_pieces(file, weights.arena.bytes, progress);
  const std::vector<std::byte> zeros(h.embedding_offset() - h.arena_offset - h.arena_bytes);
  file.write(zeros);
  write_pieces(file, weights.embedding.bytes(), progress);
  file.commit();
}

std::size_t packed_file_bytes(const Checkpoint& checkpoint, const ModelConfig& config,
                              WeightFormat format, KvCacheForm form) {
  ModelWeights targets;
  const WeightPlan plan(config, format, form, targets);
  return plan.arena_bytes + checkpoint.get(WeightPlan::kEmbedding).bytes().size();
}

}  // namespace tessera
