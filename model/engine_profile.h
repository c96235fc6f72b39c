// SPDX-License-Identifier: Apache-2.0
// What an inference engine adds to the device's time, and how it uses memory. A profile is either fitted to serving
// measurements or estimated; `calibrated_on` states which.
#pragma once

#include <algorithm>
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

/// How the host time h of a step overlaps with its device time d. Exposed host time is the part of the step beyond d.
///   none:   h                              (launches wait for the device)
///   p_norm: (h^q + d^q)^(1/q) - d          (launches run ahead of the device; q = overlap_exponent)
///   full:   max(h - d, 0)
enum class HostOverlap : std::uint8_t { none, p_norm, full };

/// The product whose rule decides which batches have captured CUDA graphs (graph_sizes.h).
enum class GraphRule : std::uint8_t { off, vllm, sglang, trtllm, tgi };
inline constexpr std::array<std::string_view, 5> kGraphRuleNames = {"off", "vllm", "sglang", "trtllm", "tgi"};

/// A constant cost instead of a device model, for queueing checks.
///   prefill/decode: a step with a prefill takes prefill + decode, a pure decode step takes decode;
///   batch: the first step of a batch takes `batch`, the others take no time (policies none, static, dynamic);
///   rates: a step takes a time for each of its prompt tokens and for each of its decodes.
struct ConstantCost {
  Seconds prefill{0}, decode{0};
  std::optional<Seconds> batch;
  struct Rates {
    Seconds prompt_token{0}, decode{0};
  };
  std::optional<Rates> rates = {};
};

/// Measured over predicted time: the 5 and 95 % quantiles over configurations that the fit did not see, for steps
/// without and with prefill.
struct TimeUncertainty {
  double decode_low = 1, decode_high = 1, prefill_low = 1, prefill_high = 1;
};

/// A server of another project that receives requests first and forwards them to the engine.
enum class FrontEnd : std::uint8_t { none, dynamo };
/// The names in studies and profiles, in the order of FrontEnd.
inline constexpr std::array<std::string_view, 2> kFrontEndNames = {"none", "dynamo"};

/// The time of a request before the scheduler sees it, and the host time that serving it adds to the engine's steps.
struct FrontEndTime {
  Seconds delay{0};              // delay of every request; nothing is occupied meanwhile
  Seconds intake{0};             // one process per replica does this for one request at a time, so requests queue
  Seconds step{0}, sequence{0};  // host time added to every step, and for every sequence in a step
  Seconds stream{0};             // that process sends out a token in this time; requests wait until it has done so
};

/// How equal requests of a closed loop drift apart in an engine's fitted runs: their output lengths vary by a fraction
/// or by a number of tokens. If both are 0, they do not drift.
struct ClosedLoopDrift {
  double output_cv = 0;               // coefficient of variation
  double output_tokens = 0;           // largest difference from the stated length
  std::optional<FrontEnd> front_end;  // only runs with this front end drift; absent: all
  /// Returns the coefficient of variation of outputs of that mean length behind that front end.
  [[nodiscard]] double cv(double mean_tokens, FrontEnd front) const {
    constexpr double kMost = 0.5, kWidth = 1.7320508075688772;  // half the width of a uniform law in deviations
    if (front_end && *front_end != front) return 0;
    return output_tokens > 0 ? std::min(kMost, output_tokens / kWidth / mean_tokens) : output_cv;
  }
};

/// A closed interval. 0 and 0: not stated, so that every value is inside.
struct Interval {
  double low = 0, high = 0;
  [[nodiscard]] bool is_stated() const { return high > 0; }
  /// Returns whether the value lies in the interval; true for any value if it is not stated.
  [[nodiscard]] bool holds(double value) const { return !is_stated() || (low <= value && value <= high); }
};

enum class ModelFamily : std::uint8_t { dense, moe };

/// One group of runs to which the profile was fitted: models of one family, with one pair of weight and KV types.
struct CalibratedRange {
  ModelFamily family = ModelFamily::dense;
  DType weights = DType::fp16, cache = DType::fp16;
  std::vector<std::string> models, accelerators;  // empty: not stated
  Interval parameters;                            // number of all weights of the model
  Interval tp, batch;                             // batch: users per replica
  Interval input, output;                         // tokens per request
  double context = 0;                             // longest input and output together; 0: not stated
};

/// The ways in which a point may lie beyond the fitted runs. Fits that leave out whole groups of a kind show how large
/// the errors of such predictions are.
enum class Beyond : std::uint8_t { model, accelerator, tp, length, batch, type, version, pipeline };
/// The names in profiles, in the order of Beyond.
inline constexpr std::array<std::string_view, 8> kBeyondNames = {"model", "accelerator", "tp",      "length",
                                                                 "batch", "type",        "version", "pipeline"};

/// Factors on an accelerator's efficiencies.
struct KernelScale {
  double compute = 1, memory = 1;
  // Steps with at least this many rows first write the weights to memory in 16 bits and then multiply those; 0: none
  // do.
  std::int64_t unpacked_from = 0;
};

/// Everything about an engine that affects times and memory.
struct EngineProfile {
  std::string id;    // "tgi-1.1"
  std::string like;  // the profile of another version, whose times it uses; empty: it has its own
  /// Returns the origin of the host times: "fitted", "from vllm-0.12" or "estimated".
  [[nodiscard]] std::string times_from() const {
    return !like.empty() ? "from " + like : calibrated ? "fitted" : "estimated";
  }
  // The host time of one forward has two parts:
  //   launch = ops * op + layers * (layer + layer_tp [TP > 1] + layer_rank * (TP - 1))
  //   output = step + sequences * sequence + tokens * token + prefill sequences * prefill
  // Both are multiplied by 1 + rank_growth * (TP - 1); `output` also gets prompt tokens * (TP - 1) * prompt_rank. `ops`
  // is the number of ops in the executed op list, including all-reduces (model/op_list.h).
  Seconds host_step{0}, host_layer{0}, host_layer_tp{0}, host_layer_rank{0}, host_op{0};
  Seconds host_sequence{0}, host_token{0}, host_prefill{0}, host_prompt_rank{0};
  double host_rank_growth = 0;
  // The same on machines with one kind of accelerator, by its id: their hosts have other processors.
  std::map<std::string, double, std::less<>> rank_growth_by_accelerator;
  [[nodiscard]] double rank_growth_on(std::string_view accelerator) const {
    const auto found = rank_growth_by_accelerator.find(accelerator);
    return found == rank_growth_by_accelerator.end() ? host_rank_growth : found->second;
  }
  // Time per token of the process that takes requests in and sends answers out (FrontEndTime::stream).
  Seconds host_stream{0};
  bool serial_output = false;  // the device waits during `output`; false: it overlaps as launches do
  HostOverlap overlap = HostOverlap::p_norm;
  double overlap_exponent = 3;
  bool cuda_graphs = false;  // decode steps launch as one graph: the terms of ops and layers apply only to prefill
  // The token counts of the captured graphs, increasing. The linear layers of a step are padded to the next one; steps
  // beyond the last one are not padded and launch their kernels one by one. Empty: nothing is padded.
  std::vector<std::int64_t> graph_sizes;
  GraphRule graph_rule = GraphRule::off;  // the sizes follow from the server's limits
  bool graphs_hold_prompts = true;        // steps with prompts are padded too, as in vLLM; false: only pure decodes
  // Delay of a request before the scheduler sees it (HTTP, tokenizing, queues between processes). It occupies nothing.
  Seconds front_end{0};
  // The part of this time that one process per replica spends on one request at a time: requests that arrive together
  // queue.
  Seconds intake{0};
  std::map<FrontEnd, FrontEndTime> front_ends;  // what each front end adds to both times
  /// Returns the times of a request with this front end, the engine's own included.
  [[nodiscard]] FrontEndTime arrival_time(FrontEnd front) const {
    const auto found = front_ends.find(front);
    const FrontEndTime added = found == front_ends.end() ? FrontEndTime{} : found->second;
    return {front_end + added.delay, intake + added.intake, added.step, added.sequence, host_stream + added.stream};
  }
  // Factors on the accelerator's efficiencies: this engine's kernels relative to the reference.
  double compute_scale = 1, memory_scale = 1;
  // Factors for matrix products with one weight type, if their kernels are not the measured ones.
  std::map<DType, KernelScale> product_scales;
  // The time by which each fp8 product is faster than the measured one. That includes a kernel that quantises the
  // input; in this engine the preceding kernel does the quantisation.
  Seconds fused_quantisation{0};
  // Bytes per second at which decode attention reads the KV of one query head of one sequence, if one thread block
  // processes the whole context. With few heads and sequences such kernels cannot use the memory's full bandwidth. 0:
  // kernels split the context.
  BytesPerSecond attention_stream{0};
  // Attention over an 8-bit cache takes as long as over a 16-bit one: the cache saves memory only.
  bool cache_read_as_16_bits = false;
  bool measured_kernels = true;   // its kernels are those in the accelerator's side file; false: rooflines only
  std::string own_kernels;        // name of the accelerator's own_kernels used for products, if it has the type
  std::string all_reduce_kernel;  // name of the interconnect's curves for this engine's all-reduces; empty: NCCL
  std::map<std::string, std::string, std::less<>> all_reduce_by_link;  // the same for single interconnects, by id
  /// Returns the name of the all-reduce curves on this interconnect.
  [[nodiscard]] const std::string& all_reduce_on(std::string_view link) const {
    const auto found = all_reduce_by_link.find(link);
    return found == all_reduce_by_link.end() ? all_reduce_kernel : found->second;
  }
  // Memory.
  double memory_fraction = 0.9;  // share of the visible memory
  Bytes overhead{0};             // per GPU: context, library workspaces, fragmentation
  Bytes graph_pool{0};           // per GPU
  bool fp8_cache = false;        // with fp8 weights the cache is also fp8, unless a study states otherwise
  double activation_factor = 1;  // factor on our estimate of the activation peak
  std::string scheduler_policy;  // default policy; the YAML file has the other scheduler defaults
  std::optional<ConstantCost> constant;
  std::string calibrated_on;  // "JumpStart tables …" or "estimated: …"
  bool calibrated = false;
  std::vector<CalibratedRange> ranges;                   // ranges of a calibrated profile; empty: not stated
  std::vector<std::string> versions;                     // versions of the product in the fitted runs
  std::optional<TimeUncertainty> uncertainty;            // within the ranges
  std::map<Beyond, TimeUncertainty> uncertainty_beyond;  // outside, from fits that left out a whole group of a kind
  ClosedLoopDrift closed_loop_drift;
  // Factors on all times of steps without and with prefill; used to propagate bands.
  double decode_time_scale = 1, prefill_time_scale = 1;
};

}  // namespace plimsoll::model
