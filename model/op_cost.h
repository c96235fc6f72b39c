// SPDX-License-Identifier: Apache-2.0
// The price of single operations: the p-norm roofline times the residual. Calibration fits these same functions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/accelerator.h"
#include "model/forward_cost.h"
#include "model/kernel_file.h"
#include "model/op_list.h"
#include "model/p_norm.h"

namespace plimsoll::model {

/// Returns why the accelerator cannot compute with weights of this type; empty if it can.
[[nodiscard]] std::string dtype_problem(const Accelerator& accelerator, DType weight_dtype);

/// Interpolates the log ratio bilinearly; constant outside the grid.
[[nodiscard]] double residual_at(const ResidualTable& table, double x, double y);

/// Returns t0 + p-norm, without the residual.
[[nodiscard]] Seconds roofline_time(const OpCoefficients& coefficients, const Roof& roof, Flops flops, Bytes bytes);

/// Divides an op's time by cause: `compute_share` of it is compute, and the rest is memory traffic in proportion to the
/// bytes.
[[nodiscard]] TimeParts split(const Op& op, double time, double compute_share);

/// The limits of measured tables that a run may exceed.
enum class Limit : std::uint8_t { rows, expert_tokens, prefill_tokens, decode_sequences, decode_context };
inline constexpr std::size_t kLimits = 5;

/// Coefficients of one op class with the engine's scales applied.
struct ClassPrices {
  double flop_time = 0, narrow_flop_time = 0;  // seconds per flop in the activations' type, and in the weights' type
  double byte_time = 0;                        // seconds per byte
  double one_row_byte_time = 0;                // the same for products of one row
  double bound_byte_time = 0;                  // seconds per stored byte, a lower bound for every kernel
  double t0 = 0, p = 3;
  const ResidualTable* residual = nullptr;
};

/// Prices the ops of one deployment: by the accelerator's measured kernels if there are any for the op and type (and
/// the engine uses these kernels), else by its coefficients. The pointees of the inputs must outlive it. For use by one
/// thread: rows of measured kernels are looked up when first needed.
class OpPricer {
 public:
  OpPricer() = default;  // prices nothing; for engines of constant cost
  explicit OpPricer(const CostInputs& inputs);

  /// Returns the price of one execution on one rank, including the kernel gap. Decode attention is priced only by
  /// DecodeCurve. Prefill attention is one span's share of a kernel that serves 1 / op.launches spans. On cached tokens
  /// it is the difference of two whole prefills, if these were measured.
  [[nodiscard]] TimeParts price(const Op& op, LaunchMode mode = LaunchMode::eager) const;
  [[nodiscard]] const ClassPrices& prices(OpClass op_class) const {
    return prices_[static_cast<std::size_t>(op_class)];
  }
  /// Returns the seconds per byte at the specified bandwidth.
  [[nodiscard]] double bound_byte_time() const { return bound_byte_time_; }
  [[nodiscard]] double kernel_gap(LaunchMode mode = LaunchMode::eager) const {
    return gaps_[static_cast<std::size_t>(mode)];
  }

  /// Records a decode step with this many sequences and this mean context for beyond_measured().
  void note_decode(double rows, double mean_context) const;
  /// Returns a reason for each way in which the work so far exceeded the measured shapes, rows, contexts and ranks. If
  /// nothing was measured, nothing exceeds it: see Accelerator::calibrated.
  [[nodiscard]] const std::set<std::string>& beyond_measured() const { return beyond_; }

 private:
  // The matrix products of one weight type.
  struct Products {
    ClassPrices prices;
    const MeasuredKernel* kernel = nullptr;  // null: use prices.residual
    std::string dtype;
  };
  struct ProductRow {
    std::int64_t n = 0, k = 0;
    const MeasuredKernel* kernel = nullptr;
    std::shared_ptr<const KernelRow> row;
  };
  struct Experts {
    ClassPrices prices;
    const MeasuredKernel* kernel = nullptr;
    std::shared_ptr<const KernelRow> row;
    double matrices = 0;               // elements of one expert on one rank
    double passing = 0;                // elements in and out of one (token, expert) pair
    KernelKey even = {}, spread = {};  // keys of the experts split over all ranks, and spread over groups of ranks
  };
  // The busiest rank's work, relative to that of a rank with an equal share of every expert.
  struct ExpertLoad {
    double flops = 1, stored = 1, pairs = 1;
  };

  // Flop/s of products in the activations' type and in the weights' type.
  struct Peaks {
    double wide = 0, narrow = 0;
  };
  [[nodiscard]] ClassPrices scaled(const OpCoefficients& c, double cold_efficiency, Peaks peaks,
                                   KernelScale own = {}) const;
  [[nodiscard]] double fitted_peak(std::string_view dtype, double wide) const;
  void use_measured(double wide);
  [[nodiscard]] bool has_units_of_type() const;
  void use_wide_products(double wide);
  [[nodiscard]] bool is_behind_all_reduce(const Op& op) const;
  /// The engine's factors on products in the weights' type.
  [[nodiscard]] KernelScale own_products() const;
  [[nodiscard]] const MeasuredKernel* find_products(const std::string& dtype) const;
  void use_attention(const KernelFile& file, double wide);
  void use_experts(const KernelFile& file, double wide);
  [[nodiscard]] const MeasuredKernel* expert_kernel(const KernelFile& file, const KernelKey& key) const;
  [[nodiscard]] const MeasuredKernel* wide_expert_kernel(const KernelFile& file, const KernelKey& key) const;
  [[nodiscard]] TimeParts price_roofline(const Op& op, const ClassPrices& c, double log_ratio) const;
  [[nodiscard]] TimeParts price_class(const Op& op, const ClassPrices& c) const;
  [[nodiscard]] TimeParts price_product(const Op& op) const;
  [[nodiscard]] const Products& products_of(const Op& op) const { return op.quantised ? narrow_ : wide_; }
  [[nodiscard]] TimeParts price_single_product(const Op& op) const;
  [[nodiscard]] TimeParts price_unpacked(const Op& op) const;
  [[nodiscard]] TimeParts price_beside(const Op& op) const;
  [[nodiscard]] bool runs_beside(const Op& op, LaunchMode mode) const;
  [[nodiscard]] bool is_second_of_fused(const Op& op) const;
  [[nodiscard]] TimeParts price_experts(const Op& op) const;
  [[nodiscard]] ExpertLoad expert_load(double tokens) const;
  [[nodiscard]] double measured_ratio(const Op& op, const Products& products) const;
  [[nodiscard]] bool is_inside_experts(const Op& op) const;
  [[nodiscard]] TimeParts price_prefill(const Op& op) const;
  [[nodiscard]] TimeParts price_pointwise(const Op& op, LaunchMode mode) const;
  [[nodiscard]] double whole_prefill(const Op& op, double tokens, double launches) const;
  [[nodiscard]] double send_time(const Op& op) const;
  [[nodiscard]] double all_reduce(const Op& op) const;
  void note(Limit limit, double value, double most) const;

  CostInputs inputs_;
  std::array<ClassPrices, kOpClasses> prices_;
  Products wide_, narrow_;
  Experts experts_;
  std::shared_ptr<const ResidualTable> prefill_, decode_;          // measured attention with this layout of heads
  double prefill_flops_ = 0, prefill_kv_ = 0, prefill_other_ = 0;  // per compared pair, attended token, new token
  double most_prefill_ = 0, most_decode_rows_ = 0, most_context_ = 0;
  std::array<ClassPrices, kOpKinds> pointwise_;  // by kind; empty for kinds that are not pointwise
  std::array<double, kLaunchModes> gaps_{};      // gaps between two kernels
  bool fuses_norm_ = false;                      // all-reduces include the norms that follow
  double bound_byte_time_ = 0;
  double fused_ = 0;                // seconds that a narrow product takes less than measured
  std::int64_t unpacked_from_ = 0;  // KernelScale::unpacked_from of the weights' type
  mutable std::vector<ProductRow> rows_;
  mutable std::array<bool, kLimits> noted_{};
  mutable std::set<std::string> beyond_;
};

/// Returns the type's name in tables of measured kernels; empty if none has it.
[[nodiscard]] std::string measured_dtype(DType dtype);
/// The same for experts, which were measured in more types.
[[nodiscard]] std::string measured_expert_dtype(DType dtype);

}  // namespace plimsoll::model
