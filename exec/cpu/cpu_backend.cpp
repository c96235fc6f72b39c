// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/bf16.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/tuner.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

const float* data(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const CpuVector*>(vector)->data();
}

NormRow norm_row(const NormSpec& spec) {
  return {.mean = spec.kind == model::Norm::layernorm,
          .epsilon = spec.epsilon,
          .weight = data(spec.weight),
          .bias = data(spec.bias)};
}

Pointwise pointwise(model::Activation kind) {
  switch (kind) {
    case model::Activation::silu: return Pointwise::silu;
    case model::Activation::gelu: return Pointwise::gelu;
    case model::Activation::gelu_tanh: return Pointwise::gelu_tanh;
    case model::Activation::relu: return Pointwise::relu;
    case model::Activation::relu2: return Pointwise::relu2;
    case model::Activation::clamped_swiglu: break;
  }
  PLIMSOLL_CHECK(false, "clamped_swiglu is no unary function");
}

// Returns the bits of an integer weight; 0 for floats.
int integer_bits(model::DType dtype) {
  if (dtype == model::DType::int8) return 8;
  return dtype == model::DType::int4 ? 4 : 0;
}

std::string readable(std::string_view isa) {
  if (isa == "avx512") return "AVX-512";
  if (isa == "avx512-vnni") return "AVX-512 VNNI";
  if (isa == "avx512-bf16") return "AVX-512 BF16";
  if (isa == "amx") return "AMX";
  return isa == "avx2" ? "AVX2" : "portable vectors";
}

}  // namespace

CpuBackend::CpuBackend(const BackendConfig& config, Communicator* communicator, int threads, const KernelSet& kernels,
                       const model::CpuTuning& tuning)
    : config_(config),
      embedding_scale_(embedding_scale(config)),
      shape_(config_.architecture.shape),
      communicator_(communicator),
      kernels_(kernels),
      bf16_products_(select_bf16_products(kernels, tuning.bf16)),
      tuning_(tuning),
      pool_(threads),
      integers_(*runnable_integers(kernels).front()),
      multiplier_(pool_, tuning.floats),
      integer_multiplier_(integers_, pool_, tuning.integers, tuning.int4),
      cache_(config),
      workspace_(config),
      head_width_(shape_.mla ? shape_.mla->kv_lora_rank + shape_.mla->qk_rope_head_dim : shape_.head_dim),
      kv_heads_(shape_.mla ? 1 : std::max<std::int64_t>(1, config.rank.kv_heads)),
      group_(config.rank.heads / kv_heads_),
      qkv_width_((config.rank.heads + (shape_.mla ? 0 : 2 * config.rank.kv_heads)) * head_width_),
      scratch_(static_cast<std::size_t>(threads)),
      zeros_(attention_padding(head_width_) / sizeof(float)),
      remembered_(static_cast<std::size_t>(config.sequences)) {
  reserve_scratch();
}

std::string CpuBackend::description() const {
  const int threads = pool_.threads();
  const bool bf16 = config_.weight_dtype == model::DType::bf16;
  const char* const name = integer_bits(config_.weight_dtype) > 0 ? integers_.name
                           : bf16                                 ? bf16_products_.name
                                                                  : kernels_.name;
  return readable(name) + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::unique_ptr<Linear> CpuBackend::make_linear(const LinearSpec& spec, const FillRows& fill) {
  const int bits = spec.quantised ? integer_bits(config_.weight_dtype) : 0;
  // Integer weights with groups that the kernels do not support are read as floats and stay floats, because rounding
  // them again would change the model.
  LinearSpec own = spec;
  if (own.integers && own.integers->format.bits != bits) own.integers.reset();
  const bool runs = !own.integers || integer_block(own.integers->format.group, spec.k) > 0;
  if (bits > 0 && runs) return std::make_unique<IntegerLinear>(integers_, own, bits, fill, pool_);
  // Routers stay in full precision: rounding may send a token to another expert.
  const bool bf16 = config_.weight_dtype != model::DType::fp32 && !spec.full_precision;
  // In a model with integer weights, whose products keep 16 bits of activations, float matrices do not round theirs to
  // bf16 either.
  const ProductKernels& products = bf16 && config_.weight_dtype == model::DType::bf16 ? bf16_products_ : kernels_;
  return std::make_unique<PackedLinear>(products, spec, bf16, fill, pool_);
}

std::unique_ptr<Vector> CpuBackend::make_vector(std::span<const float> values) {
  return std::make_unique<CpuVector>(values);
}

// Rotary angles are computed once a forward, by its first attention layer.
bool CpuBackend::begin(const RowTable& table) {
  table_ = &table;
  workspace_.reserve(table.rows);
  for (RopeTable& rope : ropes_) rope.reset();
  sampled_ = static_cast<std::int64_t>(table.sampled.size());
  return true;
}

void CpuBackend::end() { table_ = nullptr; }

// Every call above finishes its work before it returns, so nothing is left to wait for: only results are copied.
void CpuBackend::wait(std::int32_t* tokens, float* logits) {
  for (std::int64_t i = 0; i < sampled_; ++i) tokens[i] = best_[static_cast<std::size_t>(i)].token;
  if (logits == nullptr) return;
  std::memcpy(logits, workspace_[Buffer::logits],
              static_cast<std::size_t>(sampled_ * config_.rank.vocab_rows) * sizeof(float));
}

// Each rank holds a range of the vocabulary and writes 0 for tokens outside it; the all-reduce after it adds up the
// ranks' rows.
void CpuBackend::embed(const Linear& embedding, std::int64_t vocab_begin, const Linear* positions) {
  const auto& rows = static_cast<const PackedLinear&>(embedding);
  const auto* places = static_cast<const PackedLinear*>(positions);
  const std::int64_t width = shape_.hidden;
  over_rows(table_->rows, 16 * width, [&](std::int64_t begin, std::int64_t end) {  // every element takes a cache line
    std::vector<float> place(places == nullptr ? 0 : static_cast<std::size_t>(width));
    for (std::int64_t row = begin; row < end; ++row) {
      const auto i = static_cast<std::size_t>(row);
      // A negative token was sampled by the previous forward, which this backend remembers by its slot.
      const std::int32_t given = table_->token[i];
      const std::int64_t token = given >= 0 ? given : remembered_[static_cast<std::size_t>(table_->token_slot[i])];
      const std::int64_t own = token - vocab_begin;
      float* out = workspace_[Buffer::residual] + row * width;
      if (own >= 0 && own < rows.n()) {
        rows.read_row(own, out);
        if (embedding_scale_ != 1)
          for (std::int64_t j = 0; j < width; ++j) out[j] *= embedding_scale_;
      } else {
        std::fill_n(out, width, 0.0F);
      }
      if (places == nullptr) continue;
      places->read_row(table_->position[i], place.data());
      kernels_.add(place.data(), width, out);
    }
  });
}

float* CpuBackend::add_delta(const NormSpec& spec, std::int64_t row) {
  const std::int64_t width = shape_.hidden;
  float* const residual = workspace_[Buffer::residual] + row * width;
  const float* const delta = workspace_[Buffer::delta] + row * width;
  if (spec.delta_scale == 1)
    kernels_.add(delta, width, residual);
  else
    kernels_.add_scaled(delta, spec.delta_scale, width, residual);
  return residual;
}

void CpuBackend::norm(const NormSpec& spec, bool with_delta) {
  const NormRow row_spec = norm_row(spec);
  const std::int64_t width = shape_.hidden;
  over_rows(table_->rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* residual = with_delta ? add_delta(spec, row) : workspace_[Buffer::residual] + row * width;
      float* const normed = workspace_[Buffer::normed] + row * width;
      if (spec.identity)
        std::copy_n(residual, width, normed);
      else
        kernels_.norm(row_spec, residual, width, normed);
    }
  });
}

void CpuBackend::norm_delta(const NormSpec& spec) {
  const NormRow row_spec = norm_row(spec);
  const std::int64_t width = shape_.hidden;
  over_rows(table_->rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const delta = workspace_[Buffer::delta] + row * width;
      kernels_.norm(row_spec, delta, width, delta);
    }
  });
}

// Normalises the sampled rows only and packs them, because the LM head needs no other row.
void CpuBackend::final_norm(const NormSpec& spec, bool with_delta) {
  const NormRow row_spec = norm_row(spec);
  const std::int64_t width = shape_.hidden;
  over_rows(sampled_, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = table_->sampled[static_cast<std::size_t>(i)];
      const float* residual = with_delta ? add_delta(spec, row) : workspace_[Buffer::residual] + row * width;
      kernels_.norm(row_spec, residual, width, workspace_[Buffer::normed] + i * width);
    }
  });
}

void CpuBackend::linear(const Linear& weight, Buffer x, Buffer y, std::int64_t rows, const LinearOptions& options) {
  const ProductRows product{.copy = 0, .x = workspace_[x], .y = workspace_[y], .rows = rows};
  multiply(weight, {&product, 1}, data(options.bias), options.accumulate);
  if (!options.then) return;
  const auto& [kind, gated, to] = *options.then;
  activation(kind, gated, y, to, rows, gated ? weight.n() / 2 : weight.n());
}

void CpuBackend::multiply(const Linear& weights, std::span<const ProductRows> products, const float* bias,
                          bool accumulate) {
  if (const auto* const integers = dynamic_cast<const IntegerLinear*>(&weights))
    integer_multiplier_.run(*integers, products, bias, accumulate);
  else
    multiplier_.run(static_cast<const PackedLinear&>(weights), products, bias, accumulate);
}

void CpuBackend::activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                            std::int64_t width) {
  const bool clamped = kind == model::Activation::clamped_swiglu;
  const Pointwise op = clamped ? Pointwise::silu : pointwise(kind);
  const model::ClampedSwiglu& limits = config_.architecture.clamped_swiglu;
  const SwigluClamps clamps{.limit = static_cast<float>(limits.limit), .alpha = static_cast<float>(limits.alpha)};
  over_rows(rows, 4 * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* out = workspace_[y] + row * width;
      const float* in = workspace_[x] + row * width * (gated ? 2 : 1);
      if (clamped)
        kernels_.clamped_swiglu(clamps, in, in + width, width, out);
      else if (gated)
        kernels_.activate_gated(op, in, in + width, width, out);
      else
        kernels_.activate(op, in, width, out);
    }
  });
}

// Copies each token's row once per chosen expert, sorted by expert, so that an expert multiplies one block of rows.
void CpuBackend::route(std::int32_t experts, std::int32_t per_token, const Vector* choice_bias) {
  const std::int64_t width = shape_.hidden;
  routing_.choose({.routing = config_.architecture.routing,
                   .experts = experts,
                   .per_token = per_token,
                   .choice_bias = data(choice_bias)},
                  workspace_[Buffer::router], table_->rows);
  over_rows(table_->rows, per_token * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * per_token; i < end * per_token; ++i) {
      const std::int64_t to = routing_.row[static_cast<std::size_t>(i)];
      std::copy_n(workspace_[Buffer::normed] + i / per_token * width, width,
                  workspace_[Buffer::expert_in] + to * width);
    }
  });
}

// The rows that an expert computes tell which tokens chose it.
void CpuBackend::append_choices(std::int32_t layer, std::vector<RowExperts>& to) const {
  for (std::size_t i = 0; i < table_->sampled.size(); ++i) {
    const std::int64_t token = table_->sampled[i];
    RowExperts of_row{.layer = layer,
                      .row = static_cast<std::int64_t>(i),
                      .experts = {},
                      .margin = routing_.margin[static_cast<std::size_t>(token)]};
    for (std::int32_t j = 0; j < routing_.per_token; ++j) {
      const std::int64_t row = routing_.row[static_cast<std::size_t>(token * routing_.per_token + j)];
      const auto after = std::upper_bound(routing_.first_row.begin(), routing_.first_row.end(), row);
      of_row.experts.push_back(static_cast<std::int32_t>(after - routing_.first_row.begin()) - 1);
    }
    std::sort(of_row.experts.begin(), of_row.experts.end());
    to.push_back(std::move(of_row));
  }
}

// Multiplies all experts in one call, so the threads synchronise once and not once per expert. Experts without rows are
// skipped.
void CpuBackend::expert_linear(const Linear& weights, Buffer x, Buffer y, const Vector* bias) {
  std::vector<ProductRows> products;
  for (std::int64_t expert = 0; expert + 1 < std::ssize(routing_.first_row); ++expert) {
    const std::int64_t first = routing_.first_row[static_cast<std::size_t>(expert)];
    const std::int64_t rows = routing_.first_row[static_cast<std::size_t>(expert) + 1] - first;
    if (rows == 0) continue;
    products.push_back({.copy = expert,
                        .x = workspace_[x] + first * weights.k(),
                        .y = workspace_[y] + first * weights.n(),
                        .rows = rows});
  }
  multiply(weights, products, nullptr, false);
  if (bias == nullptr) return;
  for (const ProductRows& product : products) {
    over_rows(product.rows, weights.n(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        kernels_.add(data(bias) + product.copy * weights.n(), weights.n(), product.y + row * weights.n());
    });
  }
}

// Adds the experts' results in the order in which they were chosen, so the sum does not depend on the threads.
void CpuBackend::combine(std::int32_t per_token) {
  const std::int64_t width = shape_.hidden;
  const bool shared = config_.rank.shared_intermediate > 0, gated = shape_.moe->shared_gate;
  over_rows(table_->rows, per_token * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      float* out = workspace_[Buffer::delta] + token * width;
      if (!shared) std::fill_n(out, width, 0.0F);
      if (shared && gated) {
        const float gate = 1 / (1 + std::exp(-workspace_[Buffer::shared_gate][token]));
        for (std::int64_t i = 0; i < width; ++i) out[i] *= gate;
      }
      for (std::int64_t i = token * per_token; i < (token + 1) * per_token; ++i) {
        const auto at = static_cast<std::size_t>(i);
        kernels_.add_scaled(workspace_[Buffer::expert_out] + routing_.row[at] * width, routing_.weight[at], width, out);
      }
    }
  });
}

// A single rank has no communicator and already holds the whole sum.
void CpuBackend::all_reduce(Buffer buffer, std::int64_t rows) {
  if (communicator_ == nullptr) return;
  communicator_->all_reduce(workspace_[buffer], rows * shape_.hidden, model::DType::fp32, nullptr);
}

// Gemma keeps this factor in the type of the weights.
float embedding_scale(const BackendConfig& config) {
  const auto scale = static_cast<float>(config.architecture.embedding_scale);
  const bool rounded = config.architecture.norm_from_one && config.weight_dtype != model::DType::fp32;
  return rounded ? from_bf16(to_bf16(scale)) : scale;
}

std::unique_ptr<Backend> make_cpu_backend(const BackendConfig& config, Communicator* communicator, int threads) {
  return std::make_unique<CpuBackend>(config, communicator, threads, select_kernels(),
                                      config.tuning ? *config.tuning : default_tuning());
}

}  // namespace plimsoll::exec
