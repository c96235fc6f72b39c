// SPDX-License-Identifier: Apache-2.0
// What an inference engine adds to the device's time, and how it uses memory. Fitted to serving measurements or
// estimated; `calibrated_on` says which.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/llm_shape.h"
#include "model/units.h"

namespace plimsoll::model {

/// Host time h of a step against device time d: exposed host time is what the step takes beyond d.
///   none:   h               (launches wait for the device)
///   p_norm: (h^q + d^q)^(1/q) - d   (launches run ahead of the device; q = overlap_exponent)
///   full:   max(h - d, 0)
enum class HostOverlap : std::uint8_t { none, p_norm, full };

/// Constant cost instead of a device model, for queueing checks.
///   prefill/decode: a step with a prefill takes prefill + decode, a pure decode step takes decode;
///   batch: the first step of a batch takes `batch`, the others nothing (policies none, static, dynamic).
struct ConstantCost {
  Seconds prefill{0}, decode{0};
  std::optional<Seconds> batch;
};

/// Measured over predicted time, the 5 and 95 % quantiles over configurations that the fit did not see: of steps
/// without and with prefill.
struct TimeUncertainty {
  double decode_low = 1, decode_high = 1, prefill_low = 1, prefill_high = 1;
};

/// A server of another project that takes requests first and hands them to the engine.
enum class FrontEnd : std::uint8_t { none, dynamo };
/// Their names in studies and profiles, in this order.
inline constexpr std::array<std::string_view, 2> kFrontEndNames = {"none", "dynamo"};

/// What a request takes before the scheduler sees it, and what serving it takes from the engine's steps.
struct FrontEndTime {
  Seconds delay{0};              // of every request, without occupying anything
  Seconds intake{0};             // one process of a replica does this for one request after the other: requests queue
  Seconds step{0}, sequence{0};  // host time that it adds to every step, and for every sequence of a step
};

/// Both ends belong to it. 0 and 0: nothing is stated, and everything is inside.
struct Interval {
  double low = 0, high = 0;
  [[nodiscard]] bool is_stated() const { return high > 0; }
  [[nodiscard]] bool holds(double value) const { return !is_stated() || (low <= value && value <= high); }
};

enum class ModelFamily : std::uint8_t { dense, moe };

/// One group of the runs that the profile was fitted on: models of one family in one pair of types.
struct CalibratedRange {
  ModelFamily family = ModelFamily::dense;
  DType weights = DType::fp16, cache = DType::fp16;
  std::vector<std::string> models, accelerators;  // empty: not stated
  Interval parameters;                            // all weights of the model
  Interval tp, batch;                             // batch: users of a replica
  Interval input, output;                         // tokens of a request
  double context = 0;                             // input and output together, the longest; 0: not stated
};

/// In which way a point lies beyond the runs that were fitted. Fits that leave out a whole group of that kind tell how
/// far predictions then are off.
enum class Beyond : std::uint8_t { model, accelerator, tp, length, batch, type, version, pipeline };
/// Their names in profiles, in this order.
inline constexpr std::array<std::string_view, 8> kBeyondNames = {"model", "accelerator", "tp",      "length",
                                                                 "batch", "type",        "version", "pipeline"};

/// Factors on an accelerator's efficiencies.
struct KernelScale {
  double compute = 1, memory = 1;
};

struct EngineProfile {
  std::string id;    // "tgi-1.1"
  std::string like;  // the profile of a neighbour version whose times it takes over; empty: they are its own
  /// Where the host times come from: "fitted", "from vllm-0.12" or "estimated".
  [[nodiscard]] std::string times_from() const {
    return !like.empty() ? "from " + like : calibrated ? "fitted" : "estimated";
  }
  // Host time of one forward, in two parts:
  //   launch = ops * op + layers * (layer + layer_tp [TP > 1] + layer_rank * (TP - 1))
  //   output = step + sequences * sequence + tokens * token + prefill sequences * prefill
  // both times 1 + rank_growth * (TP - 1), plus prompt tokens * (TP - 1) * prompt_rank in `output`. Ops are those of
  // the op list that ran, all-reduces included (model/op_list.h).
  Seconds host_step{0}, host_layer{0}, host_layer_tp{0}, host_layer_rank{0}, host_op{0};
  Seconds host_sequence{0}, host_token{0}, host_prefill{0}, host_prompt_rank{0};
  double host_rank_growth = 0;
  // What the thread that turns tokens into answers (detokenizer, streaming) takes for each token of a step. It works
  // beside the scheduler and the device, so it counts only where its rate is the smallest.
  Seconds host_stream{0};
  bool serial_output = false;  // the device waits during `output`; else it overlaps as launches do
  HostOverlap overlap = HostOverlap::p_norm;
  double overlap_exponent = 3;
  bool cuda_graphs = false;  // decode steps launch as one graph: terms of ops and layers apply to prefill only
  // What a request takes before the scheduler sees it (HTTP, tokenizing, queues between processes). It delays the
  // request and occupies nothing.
  Seconds front_end{0};
  // The part of it that one process of a replica does for one request after the other: requests that come together
  // queue.
  Seconds intake{0};
  std::map<FrontEnd, FrontEndTime> front_ends;  // what a front end adds to both
  [[nodiscard]] FrontEndTime arrival_time(FrontEnd front) const {
    const auto found = front_ends.find(front);
    const FrontEndTime added = found == front_ends.end() ? FrontEndTime{} : found->second;
    return {front_end + added.delay, intake + added.intake, added.step, added.sequence};
  }
  // Multiply the accelerator's efficiencies: how well this engine's kernels do against the reference.
  double compute_scale = 1, memory_scale = 1;
  // The same for products of weights in one type alone, whose kernels are others than those that were measured.
  std::map<DType, KernelScale> product_scales;
  // By how much a product in fp8 is shorter than the measured one, which contains a kernel that quantises its
  // input: in this engine, the kernel before does that as well.
  Seconds fused_quantisation{0};
  // KV bytes a second that one query head of one sequence is read with in decode attention, for kernels that leave a
  // sequence's whole context to one thread block: few heads and sequences then cannot use the memory's bandwidth.
  // 0: kernels split the context.
  BytesPerSecond attention_stream{0};
  bool measured_kernels = true;   // they are those that the accelerator's side file holds; false: rooflines alone
  std::string own_kernels;        // products come from this one of the accelerator's own_kernels, where it has the type
  std::string all_reduce_kernel;  // curves of the interconnect that this engine's all-reduces follow; empty: NCCL
  std::map<std::string, std::string, std::less<>> all_reduce_by_link;  // the same for single interconnects, by id
  [[nodiscard]] const std::string& all_reduce_on(std::string_view link) const {
    const auto found = all_reduce_by_link.find(link);
    return found == all_reduce_by_link.end() ? all_reduce_kernel : found->second;
  }
  // Memory.
  double memory_fraction = 0.9;  // of the visible memory
  Bytes overhead{0};             // context, library workspaces, fragmentation: a GPU
  Bytes graph_pool{0};           // a GPU
  bool fp8_cache = false;        // with fp8 weights the cache is fp8 too, unless a study says otherwise
  double activation_factor = 1;  // times our estimate of the activation peak
  std::string scheduler_policy;  // default policy; other scheduler defaults are in the YAML
  std::optional<ConstantCost> constant;
  std::string calibrated_on;  // "JumpStart tables …" or "estimated: …"
  bool calibrated = false;
  std::vector<CalibratedRange> ranges;                   // of a calibrated profile; none: nothing is stated
  std::vector<std::string> versions;                     // of the product, in the runs that were fitted
  std::optional<TimeUncertainty> uncertainty;            // inside the ranges
  std::map<Beyond, TimeUncertainty> uncertainty_beyond;  // outside, by fits that left out a whole group of a kind
  // Requests of real servers drift apart, even where all are equal: the coefficient of variation that the fit gave to
  // the output lengths of closed loops whose requests are equal. 0: none.
  double closed_loop_drift = 0;
  // All times of steps without and with prefill are multiplied by these: how bands are propagated.
  double decode_time_scale = 1, prefill_time_scale = 1;
};

}  // namespace plimsoll::model
