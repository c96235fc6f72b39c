// SPDX-License-Identifier: Apache-2.0
// Linear layers depend only on the number of tokens, and the LM head only on the number of sampled rows. So each of
// them is priced once per number, and attention once per call. Pure decode steps use the curves, so that stepping and
// leaping give the same bits.
#include "model/forward_cost.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "model/decode_attention.h"
#include "model/error.h"
#include "model/graph_sizes.h"
#include "model/host_time.h"
#include "model/memory_plan.h"
#include "model/op_cost.h"

namespace plimsoll::model {
namespace {

constexpr double kReadingTolerance = 1e-9;

// The price of a part of the op list, and the weight bytes that it reads on one rank.
struct PartCost {
  TimeParts parts;
  double weight_bytes = 0;
};

// Engines of constant cost are for tests and textbook queues: a step takes the stated time, whatever it contains.
double constant_time(const ConstantCost& constant, std::int64_t prompt_tokens, std::int64_t decodes) {
  const bool prefill = prompt_tokens > 0;
  if (constant.rates)
    return static_cast<double>(prompt_tokens) * constant.rates->prompt_token.count() +
           static_cast<double>(decodes) * constant.rates->decode.count();
  if (constant.batch) return prefill ? constant.batch->count() : 0;
  return prefill ? (constant.prefill + constant.decode).count() : constant.decode.count();
}

void check_inputs(const CostInputs& in) {
  const std::string problem = tp_problem(*in.shape, in.tp);
  if (!problem.empty()) throw InputError(problem);
  if (in.pp < 1 || in.pp > in.shape->layers) {
    throw InputError("pp " + std::to_string(in.pp) + " does not fit " + std::to_string(in.shape->layers) + " layers");
  }
  if (in.tp == 1 && in.pp == 1) return;
  PLIMSOLL_CHECK(in.interconnect != nullptr, "several GPUs need an interconnect");
  if (in.interconnect->unidirectional.value <= 0 && (in.pp > 1 || in.interconnect->all_reduce.empty())) {
    throw InputError("interconnect " + in.interconnect->id + " has no link rate");
  }
}

// Returns the inputs with the `kv_dtype` at which attention is priced.
CostInputs priced(CostInputs in) {
  if (in.engine->cache_read_as_16_bits && bytes_per_element(in.kv_dtype) < 2) in.kv_dtype = DType::bf16;
  return in;
}

}  // namespace

struct ForwardCost::State {
  // A constant-cost engine needs no device, so no other input is read.
  explicit State(const EngineProfile& engine) : in{.engine = &engine} {}
  explicit State(const CostInputs& inputs)
      : in(priced(inputs)),
        pricer(in),
        ops{.shape = in.shape,
            .weight_dtype = in.weight_dtype,
            .kv_dtype = in.kv_dtype,
            .tp = in.tp,
            .pp = in.pp,
            .capabilities = {}},
        groups(layer_groups(*in.shape)) {
    // Attention is priced once for layers with a sliding window and once for the others: only their contexts differ.
    for (const LayerGroup& group : groups) (group.kind.windowed ? windowed_layers : global_layers) += group.layers;
    const OpClass decode = OpClass::decode_attention;
    const Op token = decode_attention_op(ops, 1, 1);
    const ClassPrices& prices = pricer.prices(decode);
    // Decode attention is linear in the context, so one token of context in one layer gives the slope for every batch.
    decode_norm = p_norm(token.flops * prices.flop_time, token.kv_bytes * prices.byte_time, prices.p);
    decode_kv_bytes = token.kv_bytes;
    decode_row_time = token.other_bytes * prices.byte_time;
    cache_bytes = in.pp * in.accelerator->last_level_cache.value;
    op_count = in.shape->layers + static_cast<double>(head_ops(ops, 1).size());  // one attention op per layer
    for_each_op(linear_ops(ops, 1), [&](const Op& op) { op_count += op.count; });
    // A kernel that gives each sequence to one thread block reads the context at the rate of that block, even if other
    // blocks are idle. This limits long contexts in small batches.
    if (in.engine->attention_stream.value > 0) {
      const double head_bytes = token.kv_bytes / static_cast<double>(rank_shape(*in.shape, in.tp).kv_heads);
      decode_stream = head_bytes / in.engine->attention_stream.value;
    }
  }

  [[nodiscard]] PartCost price_linear(std::int64_t tokens, LaunchMode mode) const;
  [[nodiscard]] PartCost price_head(std::int64_t sampled, LaunchMode mode) const;
  const PartCost& linear(std::int64_t tokens, LaunchMode mode);
  const PartCost& head(std::int64_t sampled, LaunchMode mode);
  TimeParts price_prefill(std::span<const PrefillSpan> spans, double& kv_bytes) const;
  DecodeCurve::Attention make_attention(double rows, bool windowed, std::int32_t layers) const;
  DecodeCurve make_curve(std::int64_t rows);
  const DecodeCurve& curve(std::int64_t rows);
  TimeParts mixed(const ForwardWork& work);
  TimeParts constant(const ForwardWork& work) const;
  // `graph`: the forward may run as a captured graph, which requires that it has no prefills.
  [[nodiscard]] HostTime host(std::int64_t sequences, std::int64_t tokens, std::int64_t prefills,
                              bool graph = true) const {
    return host_time(*in.engine, {in.shape->layers, in.tp, sequences, tokens, prefills, op_count, in.front_end, graph,
                                  in.accelerator->id});
  }
  // Returns the rows of the linear layers in a step of this many tokens, including the padding of its graph.
  [[nodiscard]] std::int64_t padded(std::int64_t tokens) const {
    return std::max(tokens, graph_rows(in.engine->graph_sizes, tokens));
  }

  CostInputs in;
  OpPricer pricer;
  OpListInputs ops;
  std::vector<LayerGroup> groups;
  std::int32_t global_layers = 0, windowed_layers = 0;
  PNorm decode_norm;  // for one token of context in one layer
  double decode_kv_bytes = 0, decode_row_time = 0, cache_bytes = 0;
  double decode_stream = 0;  // seconds per token of a sequence's context if one thread block reads it; 0: no limit
  double op_count = 0;       // executions in a decode step
  std::array<std::unordered_map<std::int64_t, PartCost>, kLaunchModes> linear_memo, head_memo;
  std::unordered_map<std::int64_t, DecodeCurve> curves;
};

// Every op of the list is priced for one rank; ranks work at the same time, so nothing is added up over them.
PartCost ForwardCost::State::price_linear(std::int64_t tokens, LaunchMode mode) const {
  PartCost cost;
  for_each_op(linear_ops(ops, tokens), [&](const Op& op) {
    cost.parts += pricer.price(op, mode) * op.count;
    cost.weight_bytes += op.weight_bytes * op.count;
  });
  return cost;
}

PartCost ForwardCost::State::price_head(std::int64_t sampled, LaunchMode mode) const {
  PartCost cost;
  for (const Op& op : head_ops(ops, sampled)) {
    cost.parts += pricer.price(op, mode);
    cost.weight_bytes += op.weight_bytes;
  }
  return cost;
}

// Chunked prefills have many different numbers of tokens; decode steps repeat the same few numbers of rows.
const PartCost& ForwardCost::State::linear(std::int64_t tokens, LaunchMode mode) {
  const auto [it, is_new] = linear_memo[static_cast<std::size_t>(mode)].try_emplace(tokens);
  if (is_new) it->second = price_linear(tokens, mode);
  return it->second;
}

const PartCost& ForwardCost::State::head(std::int64_t sampled, LaunchMode mode) {
  const auto [it, is_new] = head_memo[static_cast<std::size_t>(mode)].try_emplace(sampled);
  if (is_new) it->second = price_head(sampled, mode);
  return it->second;
}

// All spans of a layer share one kernel, and thus its fixed cost and gap.
TimeParts ForwardCost::State::price_prefill(std::span<const PrefillSpan> spans, double& kv_bytes) const {
  const auto launches =
      std::count_if(spans.begin(), spans.end(), [](const PrefillSpan& s) { return s.new_tokens > 0; });
  TimeParts total;
  for (const PrefillSpan& span : spans) {
    if (span.new_tokens == 0) continue;
    for (const bool windowed : {false, true}) {
      const std::int32_t layers = windowed ? windowed_layers : global_layers;
      if (layers == 0) continue;
      Op op = prefill_attention_op(ops, span, windowed);
      op.launches = 1 / static_cast<double>(launches);
      total += pricer.price(op) * layers;
      kv_bytes += op.kv_bytes * layers;
    }
  }
  return total;
}

// The time of one layer is piecewise linear in the context: measured ratios apply at the knots of the table, and the
// ratio of the last knot applies beyond it.
DecodeCurve::Attention ForwardCost::State::make_attention(double rows, bool windowed, std::int32_t layers) const {
  const ClassPrices& prices = pricer.prices(OpClass::decode_attention);
  DecodeCurve::Attention attention;
  attention.layers = layers;
  attention.windowed = windowed;
  attention.row_time = rows * decode_row_time;
  attention.t0 = prices.t0;
  attention.slope = decode_norm.value;
  attention.stream = decode_stream / rows;  // sequences are read in parallel, so the mean context counts
  attention.kv_share = 1 - decode_norm.share_a;
  if (prices.residual == nullptr) return attention;
  const AffineTime base{attention.t0 + attention.row_time, attention.slope, decode_kv_bytes * prices.bound_byte_time};
  const std::vector<ResidualKnot> knots = decode_residual_slice(*prices.residual, rows, base);
  const auto add_scaled = [&](double context, const ResidualKnot& knot) {  // this knot's ratio applies from `context`
                                                                           // on
    const double ratio = knot.time / (base.constant + base.slope * knot.context);
    attention.segments.push_back({context, ratio * base.constant, ratio * base.slope});
  };
  // The ratio is constant before the first and after the last knot. Between knots the time is linear.
  add_scaled(0, knots.front());
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
    const double slope = (knots[i + 1].time - knots[i].time) / (knots[i + 1].context - knots[i].context);
    attention.segments.push_back({knots[i].context, knots[i].time - slope * knots[i].context, slope});
  }
  add_scaled(knots.back().context, knots.back());
  return attention;
}

// All times that do not depend on the context are added up once per number of rows. A step then costs one look-up and a
// few multiplications.
DecodeCurve ForwardCost::State::make_curve(std::int64_t rows) {
  DecodeCurve curve;
  if (in.engine->constant) {
    curve.constant_ = constant_time(*in.engine->constant, 0, rows);
    return curve;
  }
  const auto real_rows = static_cast<double>(rows);
  const std::vector<std::int64_t>& sizes = in.engine->graph_sizes;
  const bool graph = sizes.empty() || graph_rows(sizes, rows) > 0;
  const LaunchMode mode = in.engine->cuda_graphs && graph ? LaunchMode::graph : LaunchMode::eager;
  const PartCost &body = linear(padded(rows), mode), &top = head(rows, mode);
  curve.fixed_ = body.parts;
  curve.fixed_ += top.parts;
  curve.fixed_.other += in.shape->layers * pricer.kernel_gap(mode);  // gaps before the attention kernels
  if (global_layers > 0) curve.attention_.push_back(make_attention(real_rows, false, global_layers));
  if (windowed_layers > 0) curve.attention_.push_back(make_attention(real_rows, true, windowed_layers));
  const HostTime host_seconds = host(rows, rows, 0, graph);
  curve.host_ = host_seconds.overlapping;
  curve.serial_ = host_seconds.serial;
  curve.scale_ = in.engine->decode_time_scale;
  curve.overlap_ = in.engine->overlap;
  curve.overlap_exponent_ = in.engine->overlap_exponent;
  // Bytes beyond the caches cannot be read faster than the specified bandwidth allows.
  const double byte_time = pricer.bound_byte_time();
  // Weights that stay in the last-level cache from one step to the next need not come from memory, so the bound
  // excludes them.
  curve.bound_ = (body.weight_bytes + top.weight_bytes - cache_bytes) * byte_time;
  curve.bound_slope_ = global_layers * decode_kv_bytes * byte_time;
  curve.bound_slope_windowed_ = windowed_layers * decode_kv_bytes * byte_time;
  return curve;
}

const DecodeCurve& ForwardCost::State::curve(std::int64_t rows) {
  const auto it = curves.find(rows);
  return it != curves.end() ? it->second : curves.emplace(rows, make_curve(rows)).first->second;
}

// A step with prompts. Only decode steps run as captured graphs, so its kernels are launched one by one.
TimeParts ForwardCost::State::mixed(const ForwardWork& work) {
  const std::int64_t tokens = total_tokens(work);
  const std::int64_t rows = in.engine->graphs_hold_prompts ? padded(tokens) : tokens;
  const PartCost &body = linear(rows, LaunchMode::eager), &top = head(work.sampled, LaunchMode::eager);
  double kv_bytes = 0;
  TimeParts parts = body.parts;
  parts += top.parts;
  parts += price_prefill(work.prefill, kv_bytes);
  if (work.decode_rows > 0) {
    curve(work.decode_rows).add_attention_to(parts, work.decode_context, work.decode_context_windowed);
    parts.other += in.shape->layers * pricer.kernel_gap();
    kv_bytes +=
        decode_kv_bytes * (global_layers * work.decode_context + windowed_layers * work.decode_context_windowed);
  }
  const auto prefills = static_cast<std::int64_t>(work.prefill.size());
  const HostTime host_seconds = host(work.decode_rows + prefills, tokens, prefills);
  parts.host = host_seconds.serial + exposed_host_time(in.engine->overlap, in.engine->overlap_exponent,
                                                       host_seconds.overlapping, parts.total());
  const double bytes = body.weight_bytes + top.weight_bytes + kv_bytes - cache_bytes;
  PLIMSOLL_CHECK(parts.total() >= bytes * pricer.bound_byte_time() * (1 - kReadingTolerance),
                 "a forward is faster than reading its bytes at the specified bandwidth");
  // An engine is fitted with one scale for steps that hold prompts and one for pure decode steps.
  const double scale = prefills > 0 ? in.engine->prefill_time_scale : in.engine->decode_time_scale;
  return scale == 1 ? parts : parts * scale;
}

TimeParts ForwardCost::State::constant(const ForwardWork& work) const {
  return {.other = constant_time(*in.engine->constant, total_tokens(work) - work.decode_rows, work.decode_rows)};
}

ForwardCost::ForwardCost(const CostInputs& inputs) {
  if (inputs.engine->constant) {
    state_ = std::make_unique<State>(*inputs.engine);
    return;
  }
  check_inputs(inputs);
  state_ = std::make_unique<State>(inputs);
}
ForwardCost::~ForwardCost() = default;
ForwardCost::ForwardCost(ForwardCost&&) noexcept = default;
ForwardCost& ForwardCost::operator=(ForwardCost&&) noexcept = default;

TimeParts ForwardCost::forward(const ForwardWork& work) {
  if (total_tokens(work) == 0) return {};
  if (work.decode_rows > 0) note_decode(work.decode_rows, work.decode_context);
  // A pure decode step uses the curve, as a leap does; computed otherwise, it could differ in the last bit.
  if (work.prefill.empty() && work.sampled == work.decode_rows) {
    return decode_curve(work.decode_rows).parts(work.decode_context, work.decode_context_windowed);
  }
  return state_->in.engine->constant ? state_->constant(work) : state_->mixed(work);
}

const DecodeCurve& ForwardCost::decode_curve(std::int64_t rows) {
  PLIMSOLL_CHECK(rows > 0, "a decode curve needs rows");
  return state_->curve(rows);
}

void ForwardCost::note_decode(std::int64_t rows, double context) const {
  const auto n = static_cast<double>(rows);
  state_->pricer.note_decode(n, context / n);
}

const std::set<std::string>& ForwardCost::beyond_measured() const { return state_->pricer.beyond_measured(); }

}  // namespace plimsoll::model
