// SPDX-License-Identifier: Apache-2.0
// The part of OpPricer that uses measured kernels: products, experts, attention, all-reduces, and what lies beyond
// them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/op_cost.h"

namespace plimsoll::model {
namespace {

// The dimensions in which a run can exceed a table, by name and unit.
constexpr std::array<std::pair<std::string_view, std::string_view>, kLimits> kLimitTexts = {
    {{"products", "rows"},
     {"experts", "tokens"},
     {"prefill", "tokens"},
     {"decode", "sequences"},
     {"decode", "tokens of context"}}};

constexpr std::int64_t kRouterWidth = 32;  // narrower products, those of routers, take little more than a launch

// A fused product keeps at least this share of its time, however small it is.
constexpr double kLeastOfProduct = 0.4;

std::uint32_t key_part(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, 1'000'000'000));
}

double largest_batch(const KernelTable& table) {
  std::uint32_t most = 1;
  for (const KernelKey& site : table.sites) most = std::max(most, site[0]);
  return most;
}

}  // namespace

std::string measured_dtype(DType dtype) {
  switch (dtype) {
    case DType::fp16:
    case DType::bf16: return "bfloat16";
    case DType::fp8: return "fp8";
    case DType::nvfp4: return "nvfp4";
    case DType::fp32:
    case DType::int8:
    case DType::int4:
    case DType::mxfp4: break;
  }
  return {};
}

std::string measured_expert_dtype(DType dtype) {
  if (dtype == DType::int4) return "int4_wo";
  if (dtype == DType::mxfp4) return "w4a16_mxfp4";
  return measured_dtype(dtype);
}

// Returns the peak with which a table's roofline was fitted (for nvfp4, that of fp8), whatever else the accelerator
// has.
double OpPricer::fitted_peak(std::string_view dtype, double wide) const {
  return is_narrow(dtype) ? kernel_peak(*inputs_.accelerator, dtype).value : wide;
}

// The engine's own kernels take precedence over those shared by all engines.
const MeasuredKernel* OpPricer::find_products(const std::string& dtype) const {
  // One table serves all products of a type, so a typical shape selects it.
  const KernelKey any{4096, 4096, 0, 0, 0, 0, 0};
  const Accelerator& accelerator = *inputs_.accelerator;
  const auto own = accelerator.own_kernels.find(inputs_.engine->own_kernels);
  const MeasuredKernel* kernel = nullptr;
  if (own != accelerator.own_kernels.end()) kernel = own->second->find(KernelOp::gemm, dtype, {}, any);
  return kernel != nullptr ? kernel : accelerator.kernels->find(KernelOp::gemm, dtype, {}, any);
}

void OpPricer::use_measured(double wide) {
  const KernelFile& file = *inputs_.accelerator->kernels;
  // With fp32 weights everything is computed in fp32. Otherwise activations, LM head and routers are in 16 bits.
  const bool is_fp32 = inputs_.weight_dtype == DType::fp32;
  wide_.dtype = is_fp32 ? std::string() : "bfloat16";
  if (has_units_of_type()) narrow_.dtype = measured_dtype(inputs_.weight_dtype);
  for (Products* products : {&wide_, &narrow_}) {
    if (!products->dtype.empty()) products->kernel = find_products(products->dtype);
    if (products->kernel == nullptr) continue;
    const KernelTable& table = products->kernel->table();
    products->prices = scaled(table.coefficients, table.cold_efficiency, {wide, fitted_peak(products->dtype, wide)},
                              products == &narrow_ ? own_products() : KernelScale{});
  }
  if (narrow_.kernel != nullptr && inputs_.weight_dtype == DType::fp8)
    fused_ = inputs_.engine->fused_quantisation.count();
  if (narrow_.kernel == nullptr) {
    beyond_.insert(fmt::format("no measured GEMMs in {} on {}", name(inputs_.weight_dtype), inputs_.accelerator->id));
    use_wide_products(wide);
  }
  if (!is_fp32) use_attention(file, wide);
  if (inputs_.shape->moe && !is_fp32) use_experts(file, wide);
}

// An accelerator may use the tables of another one, with kernels for units that it lacks. Weights of such types are
// converted to 16 bits.
bool OpPricer::has_units_of_type() const {
  return inputs_.weight_dtype != DType::fp8 || inputs_.accelerator->fp8.value > 0;
}

// Estimates products from the 16-bit kernel, which then reads fewer bytes and may compute at the peak of the type. So
// types with fewer bits are never slower than 16 bits.
void OpPricer::use_wide_products(double wide) {
  const double peak = matmul_peak(*inputs_.accelerator, inputs_.weight_dtype).value;
  if (wide_.kernel == nullptr || bytes_per_element(inputs_.weight_dtype) > 2) return;
  const KernelTable& table = wide_.kernel->table();
  narrow_ = wide_;
  narrow_.prices = scaled(table.coefficients, table.cold_efficiency, {wide, std::max(wide, peak)}, own_products());
}

void OpPricer::use_attention(const KernelFile& file, double wide) {
  const LlmShape& shape = *inputs_.shape;
  const std::string kv = measured_dtype(inputs_.kv_dtype);
  if (shape.mla || kv.empty()) {
    beyond_.insert(shape.mla ? "no measured latent attention"
                             : fmt::format("no measured attention over a cache in {}", name(inputs_.kv_dtype)));
    return;
  }
  const RankShape rank = rank_shape(shape, inputs_.tp);
  const std::uint32_t heads = key_part(rank.heads), kv_heads = key_part(rank.kv_heads), size = key_part(shape.head_dim);
  const auto use = [&](KernelOp op, OpClass op_class, std::shared_ptr<const ResidualTable>& grid) {
    const KernelKey key{1, heads, kv_heads, size, 0, 0, 0};
    const MeasuredKernel* kernel = file.find(op, "bfloat16", kv, key);
    const bool has_lengths = kernel != nullptr && kernel->table().columns.size() > 1;
    if (!has_lengths) {
      beyond_.insert(fmt::format("no measured {} over a cache in {}", name(op), name(inputs_.kv_dtype)));
      return 0.0;
    }
    // The nearest layouts still give a price, and the result reports that it lies outside.
    if (kernel->interpolation().is_outside(key)) {
      beyond_.insert(fmt::format("{} of {} heads, {} KV heads of size {} lies outside what was measured", name(op),
                                 heads, kv_heads, size));
    }
    grid = kernel->grid(heads, kv_heads, size);
    ClassPrices& prices = prices_[static_cast<std::size_t>(op_class)];
    prices = scaled(kernel->table().coefficients, kernel->table().cold_efficiency, {wide, wide});
    prices.residual = grid.get();
    if (op == KernelOp::decode_attention) most_decode_rows_ = largest_batch(kernel->table());
    return static_cast<double>(kernel->table().columns.back());
  };
  most_prefill_ = use(KernelOp::prefill_attention, OpClass::prefill_attention, prefill_);
  most_context_ = use(KernelOp::decode_attention, OpClass::decode_attention, decode_);
  const OpListInputs ops{.shape = &shape,
                         .weight_dtype = inputs_.weight_dtype,
                         .kv_dtype = inputs_.kv_dtype,
                         .tp = inputs_.tp,
                         .pp = 1,
                         .capabilities = {}};
  const Op token = prefill_attention_op(ops, {.new_tokens = 1, .context = 0}, false);
  prefill_flops_ = token.flops;
  prefill_kv_ = token.kv_bytes;
  prefill_other_ = token.other_bytes;
}

// fp8 experts use the table of block-scaled weights if that was measured, as in the published models (DeepSeek-V3,
// Qwen3). Hopper's kernel for one scale per tensor takes four times as long, and no server uses it for these models.
const MeasuredKernel* OpPricer::expert_kernel(const KernelFile& file, const KernelKey& key) const {
  const std::string dtype = measured_expert_dtype(inputs_.weight_dtype);
  if (dtype.empty() || !has_units_of_type()) return nullptr;
  const std::string first = dtype == "fp8" ? "fp8_block" : dtype;
  // An engine's own kernel counts only for experts whose shape and spread were measured with it.
  const auto own = inputs_.accelerator->own_kernels.find(inputs_.engine->own_kernels);
  if (own != inputs_.accelerator->own_kernels.end()) {
    const MeasuredKernel* kernel = own->second->find(KernelOp::moe, first, {}, key);
    const auto is_measured = [&](const std::vector<KernelKey>& sites) {
      return std::find(sites.begin(), sites.end(), key) != sites.end();
    };
    if (kernel != nullptr && is_measured(kernel->table().sites)) return kernel;
  }
  const MeasuredKernel* scaled = file.find(KernelOp::moe, first, {}, key);
  return scaled != nullptr ? scaled : file.find(KernelOp::moe, dtype, {}, key);
}

// Estimates experts from the 16-bit kernel, as use_wide_products() does.
const MeasuredKernel* OpPricer::wide_expert_kernel(const KernelFile& file, const KernelKey& key) const {
  return bytes_per_element(inputs_.weight_dtype) > 2 ? nullptr : file.find(KernelOp::moe, "bfloat16", {}, key);
}

// One measured kernel covers both products of all experts, with everything between and after them.
void OpPricer::use_experts(const KernelFile& file, double wide) {
  // Trained routers do not spread tokens evenly. The power law of 1.01 is the weaker of the two that were measured:
  // with it, few tokens reach about two thirds as many experts as in the collectors' `balanced` rows, which spread
  // tokens without repetition.
  constexpr std::uint32_t kSkew = 101;
  const LlmShape& shape = *inputs_.shape;
  const MoeShape& moe = *shape.moe;
  const KernelKey key{key_part(shape.hidden),
                      key_part(moe.intermediate),
                      key_part(moe.experts_per_token),
                      key_part(moe.experts),
                      kSkew,
                      key_part(inputs_.tp / inputs_.ep),
                      key_part(inputs_.ep)};
  experts_.spread = experts_.even = key;
  experts_.even[5] = key_part(inputs_.tp);
  experts_.even[6] = 1;
  experts_.kernel = expert_kernel(file, key);
  if (experts_.kernel == nullptr) {
    beyond_.insert(fmt::format("no measured experts in {} on {}", name(inputs_.weight_dtype), inputs_.accelerator->id));
    experts_.kernel = wide_expert_kernel(file, key);
    if (experts_.kernel == nullptr) return;
  }
  experts_.row = experts_.kernel->row(key);
  if (experts_.row->outside) {
    beyond_.insert(fmt::format("experts of the shape {} x {}, {} of {}, were not measured", shape.hidden,
                               moe.intermediate, moe.experts_per_token, moe.experts));
  }
  const KernelTable& table = experts_.kernel->table();
  const double own_peak = matmul_peak(*inputs_.accelerator, inputs_.weight_dtype).value;
  const double peak = is_narrow(table.dtype) ? fitted_peak(table.dtype, wide) : std::max(wide, own_peak);
  experts_.prices = scaled(table.coefficients, table.cold_efficiency, {wide, peak});
  const double width = static_cast<double>(moe.intermediate) / inputs_.tp, parts = shape.gated_mlp ? 3 : 2;
  experts_.matrices = parts * shape.hidden * width;
  experts_.passing = 2 * shape.hidden + parts * width * inputs_.ep;
}

// Groups of ranks that hold different experts wait for the busiest group, whose kernel the tables contain.
OpPricer::ExpertLoad OpPricer::expert_load(double tokens) const {
  if (inputs_.ep == 1) return {};
  const KernelWork split = kernel_work(KernelOp::moe, experts_.even, tokens, 1);
  const KernelWork spread = kernel_work(KernelOp::moe, experts_.spread, tokens, 1);
  const double flops = spread.flops / split.flops;
  const bool all_pairs = experts_.kernel != nullptr && experts_.kernel->table().all_pairs;
  return {.flops = flops, .stored = spread.stored / split.stored, .pairs = all_pairs ? 1 : flops / inputs_.ep};
}

double OpPricer::measured_ratio(const Op& op, const Products& products) const {
  auto found = std::find_if(rows_.begin(), rows_.end(), [&](const ProductRow& r) {
    return r.n == op.n && r.k == op.k && r.kernel == products.kernel;
  });
  if (found == rows_.end()) {
    const KernelKey key{key_part(op.n), key_part(op.k), 0, 0, 0, 0, 0};
    found = rows_.insert(rows_.end(), {op.n, op.k, products.kernel, products.kernel->row(key)});
    // Products of routers are so small that their shape hardly matters.
    if (found->row->outside && op.n >= kRouterWidth) {
      beyond_.insert(fmt::format("{} GEMM {} x {} lies outside what was measured", products.dtype, op.n, op.k));
    }
  }
  const KernelTable& table = products.kernel->table();
  const auto rows = static_cast<double>(op.m);
  note(Limit::rows, rows, table.columns.back());
  const double ratio = log_ratio_at(table, *found->row, rows);
  // A benchmark's first number of rows includes the cost of a shape's first use (fp8 on a B200: three times as long as
  // two rows). A real server can pad it to the second number.
  const bool is_first = table.columns.size() > 1 && rows < table.columns[1];
  return is_first ? std::min(ratio, found->row->log_ratio[1]) : ratio;
}

// vLLM, SGLang and TensorRT-LLM project down to the latents of queries and of keys in one product.
bool OpPricer::is_second_of_fused(const Op& op) const {
  return op.id == OpId::kv_down && inputs_.shape->mla->q_lora_rank > 0 && products_of(op).kernel != nullptr;
}

// The second part of a fused product costs the difference between the whole product and the first part.
TimeParts OpPricer::price_product(const Op& op) const {
  if (!is_second_of_fused(op)) return price_single_product(op);
  const auto resized = [&](std::int64_t n) {
    Op part = op;
    const double share = static_cast<double>(n) / static_cast<double>(op.n), rows = static_cast<double>(op.m);
    part.n = n;
    part.flops *= share;
    part.weight_bytes *= share;
    part.other_bytes += rows * static_cast<double>(n - op.n) * activation_element_bytes(inputs_.weight_dtype);
    return part;
  };
  const std::int64_t queries = inputs_.shape->mla->q_lora_rank;
  const TimeParts whole = price_single_product(resized(op.n + queries));
  const double first = price_single_product(resized(queries)).total(), time = whole.total();
  const double least = op.weight_bytes * products_of(op).prices.bound_byte_time;
  return whole * (std::max(least, time - first) / time);
}

// An op that runs beside longer kernels adds no launch time, but its bytes share the memory bandwidth with theirs.
TimeParts OpPricer::price_beside(const Op& op) const {
  ClassPrices prices = op.kind == OpKind::gemm ? products_of(op).prices : pointwise_[static_cast<std::size_t>(op.kind)];
  prices.t0 = 0;
  return price_roofline(op, prices, 0);
}

// One kernel writes the weights to memory in 16 bits, and the product of 16-bit weights reads them from there.
TimeParts OpPricer::price_unpacked(const Op& op) const {
  Op wide = op;
  wide.quantised = false;
  wide.weight_bytes = 2 * static_cast<double>(op.n) * static_cast<double>(op.k);
  TimeParts parts = price_single_product(wide);
  const ClassPrices& copy = prices(OpClass::pointwise);
  parts.weights += copy.t0 + (op.weight_bytes + wide.weight_bytes) * copy.byte_time;
  return parts;
}

TimeParts OpPricer::price_single_product(const Op& op) const {
  if (op.quantised && unpacked_from_ > 0 && op.m >= unpacked_from_) return price_unpacked(op);
  const Products& products = products_of(op);
  if (products.kernel == nullptr) return price_class(op, products.prices);
  TimeParts parts = price_roofline(op, products.prices, measured_ratio(op, products));
  if (!op.quantised || fused_ == 0) return parts;
  const double time = parts.total();
  // The input's quantisation is saved, but the weights still have to be read.
  const double least = std::max(op.weight_bytes * products.prices.bound_byte_time, kLeastOfProduct * time);
  return parts * (std::max(least, time - fused_) / time);
}

bool OpPricer::is_inside_experts(const Op& op) const {
  return experts_.kernel != nullptr && (op.kind == OpKind::combine || op.id == OpId::expert_activation);
}

// Returns the op's share of the measured total, by its elements.
TimeParts OpPricer::price_experts(const Op& op) const {
  const auto tokens = static_cast<double>(op.m);
  const ExpertLoad load = expert_load(tokens);
  if (experts_.kernel == nullptr) {
    Op busiest = op;
    busiest.flops *= load.flops;
    busiest.weight_bytes *= load.stored;
    busiest.other_bytes *= load.pairs;
    return price_class(busiest, prices(OpClass::moe_gemm));
  }
  const ClassPrices& c = experts_.prices;
  const KernelTable& table = experts_.kernel->table();
  const double share = static_cast<double>(op.n) * static_cast<double>(op.k) / experts_.matrices;
  const double pairs = load.pairs * tokens * inputs_.shape->moe->experts_per_token;
  const double bytes =
      load.stored * op.weight_bytes / share + pairs * experts_.passing * activation_element_bytes(inputs_.weight_dtype);
  const PNorm norm = p_norm(load.flops * op.flops / share * c.narrow_flop_time, bytes * c.byte_time, c.p);
  note(Limit::expert_tokens, tokens, table.columns.back());
  const double time = share * (c.t0 + norm.value) * std::exp(log_ratio_at(table, *experts_.row, tokens));
  return split(op, std::max(time, op.weight_bytes * c.bound_byte_time), norm.share_a);
}

// Returns the seconds of a span's share of a whole prefill of `tokens` without cached tokens.
double OpPricer::whole_prefill(const Op& op, double tokens, double launches) const {
  const ClassPrices& c = prices(OpClass::prefill_attention);
  const double bytes = (prefill_kv_ + prefill_other_) * tokens;
  const double flops = prefill_flops_ * tokens * (tokens + 1) / 2;
  const double roofline = c.t0 * op.launches + p_norm(flops * c.flop_time, bytes * c.byte_time, c.p).value;
  return roofline * std::exp(residual_at(*c.residual, std::log2(launches), std::log2(tokens)));
}

TimeParts OpPricer::price_prefill(const Op& op) const {
  if (!prefill_) return price_class(op, prices(OpClass::prefill_attention));
  const ClassPrices& c = prices(OpClass::prefill_attention);
  const double launches = std::round(1 / op.launches), added = static_cast<double>(op.m), past = op.context - added;
  note(Limit::prefill_tokens, op.context, most_prefill_);
  double time = whole_prefill(op, op.context, launches);
  if (past > 0) time = chunk_time(c.t0 * op.launches, time, whole_prefill(op, past, launches));
  // With a window, fewer pairs are compared.
  const double pairs = added * past + added * (added + 1) / 2;
  time *= std::min(1.0, op.flops / (prefill_flops_ * pairs));
  const double share = p_norm(op.flops * c.flop_time, (op.kv_bytes + op.other_bytes) * c.byte_time, c.p).share_a;
  return split(op, std::max(time, op.kv_bytes * c.bound_byte_time), share);
}

// Notes a text such as "prefill beyond the measured 16384 tokens". It does not depend on the value, so it is made only
// once.
void OpPricer::note(Limit limit, double value, double most) const {
  const auto i = static_cast<std::size_t>(limit);
  if (value <= most || noted_[i]) return;
  noted_[i] = true;
  beyond_.insert(fmt::format("{} beyond the measured {:.0f} {}", kLimitTexts[i].first, most, kLimitTexts[i].second));
}

void OpPricer::note_decode(double rows, double mean_context) const {
  if (!decode_) return;
  note(Limit::decode_sequences, rows, most_decode_rows_);
  note(Limit::decode_context, mean_context, most_context_);
}

double OpPricer::all_reduce(const Op& op) const {
  const Interconnect& link = *inputs_.interconnect;
  const auto reaches = [&](const AllReduceCurve& curve) { return curve.ranks >= inputs_.tp; };
  if (!link.all_reduce.empty() && std::none_of(link.all_reduce.begin(), link.all_reduce.end(), reaches)) {
    beyond_.insert(fmt::format("all-reduce over {} ranks, more than were measured on {}", inputs_.tp, link.id));
  }
  return all_reduce_time(link, Bytes(op.other_bytes), inputs_.tp, inputs_.engine->all_reduce_on(link.id)).count();
}

}  // namespace plimsoll::model
