// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

namespace plimsoll::exec::cuda {

namespace {

constexpr int kWays = 12;                    // of cuBLASLt's to try
constexpr int kTimes = 5;                    // the median counts

}  // namespace

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
    // It will be measured again.
  }
}

void Gemm::run(MatmulShape shape, const GemmOperands& operands, bool may_measure, cudaStream_t stream) {
  if (shape.m == 0 || shape.n == 0) return;
  MatmulShape bucket = shape;
  bucket.m = gemm_bucket(shape.m);
  auto known = choices_.find({bucket});
  if (known == choices_.end() && may_measure) {
    known = choices_.emplace(GemmKey{bucket}, choose(shape, operands, stream)).first;
    fresh_.insert(*known);
  }
  GemmChoice way;
  if (known != choices_.end()) way = known->second;
  // What was measured with other rows of the bucket may not be possible with these.
  const bool usable = known != choices_.end() && (!way || shape.m == bucket.m || blas_.fits(shape, *way));
  if (!usable) {
    const std::vector<MatmulAlgorithm> ways = blas_.ways(shape, 1);
    way = ways.empty() ? GemmChoice{} : GemmChoice{ways.front()};
  }
  run_way(shape, way, operands, stream);
}

void Gemm::run_way(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands, cudaStream_t stream) {
  if (way) {
    blas_.run(shape, *way, {operands.w, operands.x, operands.bias, operands.y}, stream);
  } else {
    gemv(shape.x, shape.y, {.weight = operands.w, .x = operands.x, .bias = operands.bias_f32, .y = operands.y, .m = shape.m,
                            .n = shape.n, .k = shape.k, .accumulate = shape.accumulate}, stream);
  }
}

// Our own kernel competes where it reads the weights once, and stands in where cuBLASLt has nothing.
GemmChoice Gemm::choose(const MatmulShape& shape, const GemmOperands& operands, cudaStream_t stream) {
  std::vector<GemmChoice> candidates;
  for (const MatmulAlgorithm& way : blas_.ways(shape, kWays)) candidates.emplace_back(way);
  if (shape.m <= kGemvRows || candidates.empty()) candidates.emplace_back();
  if (candidates.size() == 1) return candidates.front();

  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  const DeviceBuffer scratch(static_cast<std::size_t>(shape.m * shape.n * bytes_of(shape.y)), "measuring products");
  const DeviceBuffer flush(2 * static_cast<std::size_t>(properties.l2CacheSize), "measuring products");
  check(cudaMemsetAsync(scratch.get(), 0, scratch.bytes(), stream), "measuring products");
  GemmOperands harmless = operands;
  harmless.y = scratch.get();                // y may be a sum that is added to
  GemmChoice best = candidates.front();
  double least = std::numeric_limits<double>::infinity();
  for (const GemmChoice& way : candidates) {
    const double time = seconds(shape, way, harmless, flush, stream);
    if (time < least) {
      least = time;
      best = way;
    }
  }
  check(cudaStreamSynchronize(stream), "measuring products");
  return best;
}

// With weights that are not in the cache, as in a forward.
double Gemm::seconds(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands, const DeviceBuffer& flush,
                     cudaStream_t stream) {
  run_way(shape, way, operands, stream);
  std::array<float, kTimes> milliseconds{};
  for (float& time : milliseconds) {
    check(cudaMemsetAsync(flush.get(), 0, flush.bytes(), stream), "measuring products");
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
