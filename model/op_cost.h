// SPDX-License-Identifier: Apache-2.0
// The price of single operations: the p-norm roofline times the residual. Calibration fits what is evaluated here.
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

/// Why the accelerator cannot compute with weights of this type; empty where it can.
[[nodiscard]] std::string dtype_problem(const Accelerator& accelerator, DType weight_dtype);

/// Bilinear interpolation of the log ratio, constant outside the grid.
[[nodiscard]] double residual_at(const ResidualTable& table, double x, double y);

/// t0 + p-norm, without the residual. Peak and bandwidth are the specified ones.
[[nodiscard]] Seconds roofline_time(const OpCoefficients& coefficients, FlopsPerSecond peak, BytesPerSecond bandwidth,
                                    Flops flops, Bytes bytes);

/// An op's time by what it is spent on: `compute_share` of it on computing, the rest on memory by bytes.
[[nodiscard]] TimeParts split(const Op& op, double time, double compute_share);

/// Ends of the measured tables that a run can pass.
enum class Limit : std::uint8_t { rows, expert_tokens, prefill_tokens, decode_sequences, decode_context };
inline constexpr std::size_t kLimits = 5;

/// Coefficients of one op class with the engine's scales applied.
struct ClassPrices {
  double flop_time = 0, narrow_flop_time = 0;  // seconds per flop in the activations' type, in the weights' type
  double byte_time = 0;                        // seconds per byte
  double bound_byte_time = 0;                  // seconds a stored byte that no kernel undercuts
  double t0 = 0, p = 3;
  const ResidualTable* residual = nullptr;
};

/// Prices ops of one deployment: by the accelerator's measured kernels where it has some for the op and type (unless
/// the engine's are others), else by its coefficients. The pointees of the inputs outlive it. Belongs to one thread:
/// rows of measured kernels are looked up when first asked for.
class OpPricer {
 public:
  OpPricer() = default;  // prices nothing: for engines of constant cost
  explicit OpPricer(const CostInputs& inputs);

  /// One execution on one rank, kernel gap included; decode attention is priced by DecodeCurve alone. Prefill attention
  /// is one span's part of a kernel that serves 1 / op.launches spans; on cached tokens it is the difference of two
  /// whole prefills where such were measured.
  [[nodiscard]] TimeParts price(const Op& op, LaunchMode mode = LaunchMode::eager) const;
  [[nodiscard]] const ClassPrices& prices(OpClass op_class) const {
    return prices_[static_cast<std::size_t>(op_class)];
  }
  /// Seconds a byte at the specified bandwidth.
  [[nodiscard]] double bound_byte_time() const { return bound_byte_time_; }
  [[nodiscard]] double kernel_gap(LaunchMode mode = LaunchMode::eager) const {
    return gaps_[static_cast<std::size_t>(mode)];
  }

  /// Notes a decode step of this many sequences with this mean context for beyond_measured().
  void note_decode(double rows, double mean_context) const;
  /// What was priced beyond the measured shapes, rows, contexts and ranks so far, a reason each. Where nothing at all
  /// was measured nothing is beyond it: Accelerator::calibrated tells.
  [[nodiscard]] const std::set<std::string>& beyond_measured() const { return beyond_; }

 private:
  // Products of one weight type.
  struct Products {
    ClassPrices prices;
    const MeasuredKernel* kernel = nullptr;  // null: prices.residual
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
    double matrices = 0;  // elements of one expert on one rank
    double passing = 0;   // elements in and out of one (token, expert) pair
  };

  [[nodiscard]] ClassPrices scaled(const OpCoefficients& c, double cold_efficiency, double wide, double narrow,
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
  [[nodiscard]] TimeParts price_experts(const Op& op) const;
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
  std::shared_ptr<const ResidualTable> prefill_, decode_;          // measured attention of this layout of heads
  double prefill_flops_ = 0, prefill_kv_ = 0, prefill_other_ = 0;  // of one compared pair, one attended, one new token
  double most_prefill_ = 0, most_decode_rows_ = 0, most_context_ = 0;
  std::array<ClassPrices, kOpKinds> pointwise_;  // by kind; those that are no pointwise ops stay empty
  std::array<double, kLaunchModes> gaps_{};      // between two kernels
  bool fuses_norm_ = false;                      // all-reduces contain the norms behind them
  double bound_byte_time_ = 0;
  double fused_ = 0;  // seconds that a narrow product takes less than measured
  mutable std::vector<ProductRow> rows_;
  mutable std::array<bool, kLimits> noted_{};
  mutable std::set<std::string> beyond_;
};

/// The name that tables of measured kernels give a type; empty for one that none has.
[[nodiscard]] std::string measured_dtype(DType dtype);
/// The same for experts, which were measured in more types.
[[nodiscard]] std::string measured_expert_dtype(DType dtype);

}  // namespace plimsoll::model
