// Random values on their way to a file: computed by all threads, written in order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "io/gguf_writer.h"
#include "model/synth/random_values.h"

namespace tessera {

// A part of a stream, as it stands in the file.
struct Piece {
  RandomStream stream;
  std::size_t first = 0;  // in the stream
  std::size_t n = 0;      // values, at most kMostPieceValues
  GgmlType type = GgmlType::kBF16;
  // Not 0: the values are a matrix of so many rows, whose transpose is written.
  std::size_t transposed_rows = 0;

  std::size_t bytes() const { return n / block_values(type) * block_bytes(type); }
};

inline constexpr std::size_t kMostPieceValues = std::size_t{1} << 23;

// Appends the first n values of a stream, in pieces of which there are enough to share them evenly.
void add_pieces(const RandomStream& stream, std::size_t n, GgmlType type,
                std::vector<Piece>& pieces);

// Holds two batches of 32 MB: one is computed while the one before goes to the disk.
class PieceWriter {
 public:
  explicit PieceWriter(ThreadPool& pool);

  // sink takes the bytes in order; written(n_bytes) is called after every batch.
  void write(std::span<const Piece> pieces,
             const std::function<void(std::span<const std::byte>)>& sink,
             const std::function<void(std::size_t)>& written);

 private:
  ThreadPool& pool_;
  Buffer computed_;
  Buffer ready_;
};

}  // namespace tessera
