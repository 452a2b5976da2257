#include "model/packed/packed_file.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/checksum.h"
#include "base/fail.h"
#include "tile/jit/hash.h"

namespace tessera {

namespace {

// Blocks compared with their checksums when a file is opened for a run: 64 MB, less than 20 ms.
constexpr std::size_t kSampledBlocks = 16;
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
  // tokens slow. Of the embedding, rows are read as they are needed.
  const std::size_t arena_end = header_.arena_offset + header_.arena_bytes;
  const std::size_t n_blocks = header_.n_blocks();
  const std::size_t every = std::max<std::size_t>(n_blocks / (kSampledBlocks - 1), 1);
  std::atomic<std::size_t> damaged = n_blocks;
  const std::size_t step = 64;  // blocks between two reports of progress
  for (std::size_t first = 0; first < n_blocks; first += step) {
    const std::size_t count = std::min(step, n_blocks - first);
    executor.pool().parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t i, int) {
      const std::size_t block = first + static_cast<std::size_t>(i);
      const std::size_t begin = header_.block_offset(block);
      if (begin < arena_end) {
        file_->populate(begin, std::min(header_.block_bytes(block), arena_end - begin));
      }
      if ((block % every == 0 || block + 1 == n_blocks) && !is_intact(block)) damaged = block;
    });
    const std::size_t end = first + count - 1;
    progress.add(header_.block_offset(end) + header_.block_bytes(end) -
                 header_.block_offset(first));
  }
  if (damaged != n_blocks) fail_block(damaged);

  weights.arena = {file_, file_->bytes().subspan(header_.arena_offset, header_.arena_bytes), true};
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

}  // namespace tessera
