// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

namespace plimsoll::exec::cuda {

namespace {

constexpr int kWays = 12;                                    // cuBLASLt algorithms to try
constexpr int kTimes = 5;                                    // measurements; the median counts
constexpr std::size_t kMaxScratch = std::size_t{256} << 20;  // for products that are added to their result

// Returns twice the cache size of the current device: writing that much evicts everything else.
std::size_t flush_bytes() {
  int device = 0, cache = 0;
  check(cudaGetDevice(&device), "reading the current device");
  check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "reading the cache size");
  return 2 * static_cast<std::size_t>(cache);
}

}  // namespace

// Algorithms are chosen once for a bucket: four buckets to each power of two lose little and keep the number of
// measurements small.
std::int64_t gemm_bucket(std::int64_t rows) {
  if (rows <= 512) return decode_bucket(rows);
  const auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)) / 4);
  return (rows + step - 1) / step * step;
}

Gemm::Gemm(std::filesystem::path file) { use_file(std::move(file)); }

void Gemm::use_file(std::filesystem::path file) {
  file_ = std::move(file);
  if (!file_.empty()) choices_ = load_choices(file_);
}

Gemm::~Gemm() {
  try {
    if (!file_.empty() && !fresh_.empty()) save_choices(file_, fresh_);
  } catch (const std::exception&) {
    // Unsaved choices are only measured again next time.
  }
}

void Gemm::reserve(std::size_t result_bytes) {
  result_bytes = std::min(result_bytes, kMaxScratch);
  if (flush_.bytes() == 0) flush_ = DeviceBuffer(flush_bytes(), "measuring products");
  if (result_bytes <= scratch_.bytes()) return;
  scratch_ = {};  // free the old memory before allocating the new
  scratch_ = DeviceBuffer(result_bytes, "measuring products");
}

std::size_t Gemm::bytes(std::size_t result_bytes) {
  return std::min(result_bytes, kMaxScratch) + flush_bytes() + kBlasWorkspaceBytes;
}

void Gemm::run(MatmulShape shape, const GemmOperands& operands, bool may_measure, cudaStream_t stream) {
  if (shape.m == 0 || shape.n == 0) return;
  const auto known = exact_.find({shape});
  run_way(shape, known != exact_.end() ? known->second : find(shape, operands, may_measure, stream), operands, stream);
}

// A choice that was measured with another row count of the bucket, or read from a file, may not support this one.
// Asking cuBLASLt costs as much host time as a product, so the answer is kept.
GemmChoice Gemm::find(const MatmulShape& shape, const GemmOperands& operands, bool may_measure, cudaStream_t stream) {
  MatmulShape bucket = shape;
  bucket.m = gemm_bucket(shape.m);
  const bool fits_scratch = static_cast<std::size_t>(shape.m * shape.n * bytes_of(shape.y)) <= scratch_.bytes();
  if (const auto known = choices_.find({bucket}); known != choices_.end()) {
    // Our own kernel, without an algorithm, supports every shape.
    const bool possible = !known->second || blas_.fits(shape, *known->second);
    return exact_[{shape}] = possible ? known->second : first_way(shape);
  }
  if (!may_measure) return first_way(shape);  // a later call may measure
  if (flush_.bytes() == 0 || (shape.accumulate && !fits_scratch)) return exact_[{shape}] = first_way(shape);
  const GemmChoice best = choose(shape, operands, stream);
  choices_[{bucket}] = fresh_[{bucket}] = best;
  return exact_[{shape}] = best;
}

GemmChoice Gemm::first_way(const MatmulShape& shape) {
  const std::vector<MatmulAlgorithm> ways = blas_.ways(shape, 1);
  return ways.empty() ? GemmChoice{} : GemmChoice{ways.front()};
}

void Gemm::run_way(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands, cudaStream_t stream) {
  if (way) {
    blas_.run(shape, *way, {operands.w, operands.x, operands.bias, operands.y}, stream);
    const auto& [to, kind, gated] = operands.then;
    if (to != nullptr) activation(shape.y, kind, gated, operands.y, to, shape.m, gated ? shape.n / 2 : shape.n, stream);
  } else {
    gemv(shape.x, shape.y,
         {.weight = operands.w,
          .x = operands.x,
          .bias = operands.bias_f32,
          .y = operands.y,
          .m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .accumulate = shape.accumulate,
          .then = operands.then},
         stream);
  }
}

// Our own kernel competes if it reads the weights only once. It is also the fallback if cuBLASLt has no algorithm.
GemmChoice Gemm::choose(const MatmulShape& shape, const GemmOperands& operands, cudaStream_t stream) {
  std::vector<GemmChoice> candidates;
  for (const MatmulAlgorithm& way : blas_.ways(shape, kWays)) candidates.emplace_back(way);
  // An empty choice is our own kernel.
  if (shape.m <= kGemvRows || candidates.empty()) candidates.emplace_back();
  if (candidates.size() == 1) return candidates.front();

  // The product that follows overwrites y, unless y is an operand of `y +=`.
  GemmOperands harmless = operands;
  if (shape.accumulate) {
    check(cudaMemsetAsync(scratch_.get(), 0, scratch_.bytes(), stream), "measuring products");
    harmless.y = scratch_.get();
  }
  GemmChoice best = candidates.front();
  double least = std::numeric_limits<double>::infinity();
  for (const GemmChoice& way : candidates) {
    const double time = seconds(shape, way, harmless, stream);
    if (time < least) {
      least = time;
      best = way;
    }
  }
  return best;
}

// Measures with weights that are not in the cache, as in a forward. Returns infinity for an algorithm that cuBLASLt
// proposed but refuses to run.
double Gemm::seconds(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands,
                     cudaStream_t stream) {
  try {
    run_way(shape, way, operands, stream);
  } catch (const DeviceError&) {
    return std::numeric_limits<double>::infinity();
  }
  std::array<float, kTimes> milliseconds{};
  for (float& time : milliseconds) {
    check(cudaMemsetAsync(flush_.get(), 0, flush_.bytes(), stream), "measuring products");
    check(cudaEventRecord(begin_.get(), stream), "measuring products");
    run_way(shape, way, operands, stream);
    check(cudaEventRecord(end_.get(), stream), "measuring products");
    check(cudaEventSynchronize(end_.get()), "measuring products");
    check(cudaEventElapsedTime(&time, begin_.get(), end_.get()), "measuring products");
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return static_cast<double>(milliseconds[kTimes / 2]) / 1e3;
}

}  // namespace plimsoll::exec::cuda
