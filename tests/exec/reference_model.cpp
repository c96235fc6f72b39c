// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/reference_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "model/tp_layout.h"

namespace plimsoll::exec {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

class Reference {
 public:
  Reference(const model::Architecture& architecture, const WeightSource& weights, std::span<const std::int32_t> tokens)
      : a_(architecture),
        s_(architecture.shape),
        weights_(weights),
        tokens_(tokens),
        n_(static_cast<Index>(tokens.size())) {}

  MatrixXd logits() {
    MatrixXd x = embed();
    for (layer_ = 0; layer_ < s_.layers; ++layer_) x = layer(x);
    layer_ = -1;
    const MatrixXd normed = norm(x, TensorKind::final_norm, TensorKind::final_norm_bias);
    MatrixXd out = normed * matrix(s_.tie_embeddings ? TensorKind::token_embedding : TensorKind::lm_head).transpose();
    if (a_.lm_head_bias) out.rowwise() += vector(TensorKind::lm_head_bias);
    return (out * a_.logit_scale).unaryExpr([this](double logit) { return capped(logit, a_.logit_cap); });
  }

 private:
  [[nodiscard]] MatrixXd matrix(TensorKind kind, std::int32_t expert = -1) const {
    const TensorRef tensor{kind, layer_, expert};
    const TensorShape shape = shape_of(a_, tensor);
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> values(shape.rows, shape.columns);
    weights_.read(tensor, {0, shape.rows, 0, shape.columns}, values.data());
    return values.cast<double>();
  }
  [[nodiscard]] RowVectorXd vector(TensorKind kind, std::int32_t expert = -1) const {
    RowVectorXd values = matrix(kind, expert).col(0).transpose();
    if (a_.norm_from_one && is_norm(kind)) values.array() += 1;
    return values;
  }
  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  [[nodiscard]] MatrixXd embed() const {
    const MatrixXd table = matrix(TensorKind::token_embedding);
    MatrixXd x(n_, s_.hidden);
    for (Index i = 0; i < n_; ++i) x.row(i) = table.row(tokens_[static_cast<std::size_t>(i)]) * a_.embedding_scale;
    if (s_.learned_positions) x += matrix(TensorKind::position_embedding).topRows(n_);
    return x;
  }

  [[nodiscard]] MatrixXd norm(const MatrixXd& x, TensorKind weight, TensorKind bias) const {
    MatrixXd y = x;
    if (s_.norm == model::Norm::layernorm) y.colwise() -= x.rowwise().mean();
    for (Index i = 0; i < y.rows(); ++i)
      y.row(i) /= std::sqrt(y.row(i).squaredNorm() / static_cast<double>(y.cols()) + a_.norm_epsilon);
    y = (y.array().rowwise() * vector(weight).array()).matrix();
    if (a_.norm_bias) y.rowwise() += vector(bias);
    return y;
  }
  // What a sublayer adds to the residual.
  [[nodiscard]] MatrixXd addend(const MatrixXd& x, TensorKind norm_after) const {
    if (model::norms_per_layer(s_) == 4 || a_.norms_only_after) return norm(x, norm_after, norm_after);
    return x * a_.residual_scale;
  }

  [[nodiscard]] MatrixXd layer(const MatrixXd& x) const {
    const auto before = [&](const MatrixXd& input, TensorKind weight, TensorKind bias) {
      return a_.norms_only_after ? input : norm(input, weight, bias);
    };
    const MatrixXd first = before(x, TensorKind::input_norm, TensorKind::input_norm_bias);
    const MatrixXd attended = addend(attention(first), TensorKind::post_attention_norm);
    const bool own_norm = model::norms_per_layer(s_) >= 2;
    if (s_.parallel_attention) {
      const MatrixXd second = own_norm ? norm(x, TensorKind::mlp_norm, TensorKind::mlp_norm_bias) : first;
      return x + attended + mlp(second);
    }
    const MatrixXd middle = x + attended;
    return middle +
           addend(mlp(before(middle, TensorKind::mlp_norm, TensorKind::mlp_norm_bias)), TensorKind::post_mlp_norm);
  }

  // Returns the frequency of a rotated pair. llama3: long wavelengths are slowed by `factor`, short ones kept, and
  // those in between blended linearly in original_max_position / wavelength.
  [[nodiscard]] double frequency(const model::Rope& r, Index pair) const {
    double f = std::pow(r.base, -2.0 * static_cast<double>(pair) / r.rotary_dim);
    if (r.scaling == model::RopeScaling::linear) f /= r.factor;
    if (r.scaling == model::RopeScaling::yarn) {
      // Pairs are kept up to the one that turns beta_fast times in the trained length, and stretched from the one that
      // turns beta_slow times.
      const auto pair_of = [&](double turns) {
        return r.rotary_dim / 2.0 * std::log(r.original_max_position / (2 * std::numbers::pi * turns)) /
               std::log(r.base);
      };
      const double keep = std::max(0.0, std::floor(pair_of(r.beta_fast)));
      const double stretch = std::min(r.rotary_dim - 1.0, std::ceil(pair_of(r.beta_slow)));
      const double part = std::clamp((static_cast<double>(pair) - keep) / (stretch - keep), 0.0, 1.0);
      return f * (part / r.factor + 1 - part);
    }
    if (r.scaling != model::RopeScaling::llama3) return f;
    const double ratio = r.original_max_position * f / (2 * std::numbers::pi);
    const double blend = std::clamp((ratio - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor), 0.0, 1.0);
    return (1 - blend) * f / r.factor + blend * f;
  }

  void rotate(Eigen::Ref<RowVectorXd> head, Index position) const {
    model::Rope rope = a_.rope;
    if (a_.window_rope && model::layer_kind(s_, layer_).windowed) rope = *a_.window_rope;
    if (!a_.layers_unrotated.empty() && a_.layers_unrotated[static_cast<std::size_t>(layer_)] != 0) return;
    const Index half = rope.rotary_dim / 2;
    for (Index pair = 0; pair < half; ++pair) {
      const Index i = rope.interleaved ? 2 * pair : pair, j = rope.interleaved ? i + 1 : pair + half;
      const double angle = static_cast<double>(position) * frequency(rope, pair);
      const double u = rope.magnitude * head(i), v = rope.magnitude * head(j);
      head(i) = u * std::cos(angle) - v * std::sin(angle);
      head(j) = v * std::cos(angle) + u * std::sin(angle);
    }
  }

  // Returns the heads of q or k: bias, RMS norm per head, rotation.
  [[nodiscard]] MatrixXd heads(const MatrixXd& x, TensorKind weight, TensorKind bias, TensorKind head_norm) const {
    MatrixXd y = project(x, weight, bias);
    const Index d = s_.head_dim;
    const bool wide = model::has_wide_qk_norm(s_);
    if (wide) y = norm(y, head_norm, head_norm);
    for (Index i = 0; i < n_; ++i) {
      for (Index h = 0; h < y.cols() / d; ++h) {
        RowVectorXd head = y.row(i).segment(h * d, d);
        if (s_.qk_norm && !wide) {
          head /= std::sqrt(head.squaredNorm() / static_cast<double>(d) + a_.norm_epsilon);
          head = (head.array() * vector(head_norm).array()).matrix();
        }
        rotate(head, i);
        y.row(i).segment(h * d, d) = head;
      }
    }
    return y;
  }

  [[nodiscard]] MatrixXd project(const MatrixXd& x, TensorKind weight, TensorKind bias) const {
    MatrixXd y = x * matrix(weight).transpose();
    if (s_.qkv_bias) y.rowwise() += vector(bias);
    return y;
  }

  // The weights of the scores; a sink takes its share and has no value.
  [[nodiscard]] VectorXd softmax(VectorXd p, Index head) const {
    p = p.unaryExpr([this](double score) { return capped(score, a_.attention_cap); });
    const double sink = a_.sinks ? vector(TensorKind::sinks)(head) : -std::numeric_limits<double>::infinity();
    const double highest = std::max(p.maxCoeff(), sink);
    p = (p.array() - highest).exp().matrix();
    return p / (p.sum() + std::exp(sink - highest));
  }

  // As published: every head's keys and values are computed from the latents.
  [[nodiscard]] MatrixXd latent_attention(const MatrixXd& x) const {
    const model::MlaShape& m = *s_.mla;
    const Index nope = m.qk_nope_head_dim, rope = m.qk_rope_head_dim, v = m.v_head_dim;
    const auto rms = [this](MatrixXd y, TensorKind weight) {
      for (Index i = 0; i < y.rows(); ++i)
        y.row(i) /= std::sqrt(y.row(i).squaredNorm() / static_cast<double>(y.cols()) + a_.latent_epsilon);
      return MatrixXd((y.array().rowwise() * vector(weight).array()).matrix());
    };
    MatrixXd q;
    if (m.q_lora_rank > 0)
      q = rms(x * matrix(TensorKind::q_down).transpose(), TensorKind::q_latent_norm) *
          matrix(TensorKind::q_up).transpose();
    else
      q = x * matrix(TensorKind::q).transpose();
    const MatrixXd latent = x * matrix(TensorKind::kv_down).transpose();
    const MatrixXd up =
        rms(latent.leftCols(m.kv_lora_rank), TensorKind::kv_latent_norm) * matrix(TensorKind::kv_up).transpose();
    MatrixXd key = latent.rightCols(rope), out(n_, s_.heads * v);
    const auto turn = [&](MatrixXd& y, Index column) {
      for (Index i = 0; i < n_; ++i) {
        RowVectorXd part = y.row(i).segment(column, rope);
        rotate(part, i);
        y.row(i).segment(column, rope) = part;
      }
    };
    turn(key, 0);
    for (Index h = 0; h < s_.heads; ++h) {
      turn(q, h * (nope + rope) + nope);
      for (Index i = 0; i < n_; ++i) {
        const auto query = q.row(i).segment(h * (nope + rope), nope + rope);
        const VectorXd scores = up.block(0, h * (nope + v), i + 1, nope) * query.head(nope).transpose() +
                                key.topRows(i + 1) * query.tail(rope).transpose();
        out.row(i).segment(h * v, v) =
            softmax(scores * a_.attention_scale, h).transpose() * up.block(0, h * (nope + v) + nope, i + 1, v);
      }
    }
    return out * matrix(TensorKind::attention_out).transpose();
  }

  [[nodiscard]] MatrixXd attention(const MatrixXd& x) const {
    if (s_.mla) return latent_attention(x);
    const Index d = s_.head_dim, group = s_.heads / s_.kv_heads;
    const MatrixXd q = heads(x, TensorKind::q, TensorKind::q_bias, TensorKind::q_norm);
    const MatrixXd k = heads(x, TensorKind::k, TensorKind::k_bias, TensorKind::k_norm);
    const MatrixXd v = project(x, TensorKind::v, TensorKind::v_bias);
    const double scale = a_.attention_scale > 0 ? a_.attention_scale : 1 / std::sqrt(static_cast<double>(d));
    const Index window = model::layer_kind(s_, layer_).windowed ? s_.sliding_window : n_;
    MatrixXd out(n_, s_.heads * d);
    for (Index h = 0; h < s_.heads; ++h) {
      const MatrixXd keys = k.middleCols(h / group * d, d), values = v.middleCols(h / group * d, d);
      for (Index i = 0; i < n_; ++i) {
        const Index first = std::max<Index>(0, i + 1 - window), count = i + 1 - first;
        const VectorXd p = softmax(keys.middleRows(first, count) * q.row(i).segment(h * d, d).transpose() * scale, h);
        out.row(i).segment(h * d, d) = p.transpose() * values.middleRows(first, count);
      }
    }
    MatrixXd y = out * matrix(TensorKind::attention_out).transpose();
    if (a_.attention_out_bias) y.rowwise() += vector(TensorKind::attention_out_bias);
    return y;
  }

  [[nodiscard]] double act(double x) const {
    switch (a_.activation) {
      case model::Activation::silu: return x / (1 + std::exp(-x));
      case model::Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
      case model::Activation::gelu_tanh:
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      case model::Activation::relu: return std::max(x, 0.0);
      case model::Activation::relu2: return std::max(x, 0.0) * std::max(x, 0.0);
      case model::Activation::clamped_swiglu: break;  // of two numbers: gated()
    }
    return x;
  }

  [[nodiscard]] double gated(double gate, double up) const {
    if (a_.activation != model::Activation::clamped_swiglu) return act(gate) * up;
    const double limit = a_.clamped_swiglu.limit, g = std::min(gate, limit);
    return (std::clamp(up, -limit, limit) + 1) * g / (1 + std::exp(-a_.clamped_swiglu.alpha * g));
  }

  struct Mlp {
    MatrixXd gate, up, down;  // gate: empty without one
    bool bias = false;
    std::int32_t expert = -1;  // whose biases they are
  };
  [[nodiscard]] MatrixXd dense(const MatrixXd& x, const Mlp& mlp) const {
    const auto& [gate, up, down, bias, expert] = mlp;
    const bool one = expert >= 0;
    MatrixXd y = x * up.transpose();
    if (bias) y.rowwise() += vector(one ? TensorKind::expert_up_bias : TensorKind::up_bias, expert);
    if (gate.size() > 0) {
      MatrixXd g = x * gate.transpose();
      if (bias) g.rowwise() += vector(one ? TensorKind::expert_gate_bias : TensorKind::gate_bias, expert);
      y = g.binaryExpr(y, [this](double a, double b) { return gated(a, b); });
    } else {
      y = y.unaryExpr([this](double value) { return act(value); });
    }
    y *= down.transpose();
    if (bias) y.rowwise() += vector(one ? TensorKind::expert_down_bias : TensorKind::down_bias, expert);
    return y;
  }

  [[nodiscard]] MatrixXd mlp(const MatrixXd& x) const {
    if (model::layer_kind(s_, layer_).moe) return experts(x);
    const MatrixXd gate = s_.gated_mlp ? matrix(TensorKind::gate) : MatrixXd();
    return dense(x, {gate, matrix(TensorKind::up), matrix(TensorKind::down), a_.mlp_bias});
  }

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  // The scores of one token's experts, and what orders them.
  struct Scores {
    VectorXd weight, order;
  };
  [[nodiscard]] Scores scores_of(VectorXd logits) const {
    const model::Routing& r = a_.routing;
    if (r.logit_bias) logits += vector(TensorKind::router_bias).transpose();
    Scores s;
    s.weight = r.sigmoid ? VectorXd(logits.unaryExpr([](double x) { return sigmoid(x); }))
                         : VectorXd((logits.array() - logits.maxCoeff()).exp().matrix());
    if (!r.sigmoid) s.weight /= s.weight.sum();
    s.order = s.weight;
    if (r.choice_bias) s.order += vector(TensorKind::router_choice_bias).transpose();
    const Index size = s.order.size() / r.groups;
    std::vector<std::pair<double, Index>> groups;
    for (Index g = 0; g < r.groups; ++g) {
      VectorXd of_group = s.order.segment(g * size, size);
      std::sort(of_group.begin(), of_group.end(), std::greater<>());
      groups.emplace_back(-of_group.head(r.group_best).sum(), g);
    }
    std::sort(groups.begin(), groups.end());
    for (std::size_t g = static_cast<std::size_t>(r.open_groups); g < groups.size(); ++g)
      s.order.segment(groups[g].second * size, size).setConstant(-1e9);
    return s;
  }

  // The k best experts of each token, weighted as the architecture states, and the shared ones.
  [[nodiscard]] MatrixXd experts(const MatrixXd& x) const {
    const MatrixXd logits = x * matrix(TensorKind::router).transpose();
    MatrixXd y = MatrixXd::Zero(x.rows(), x.cols());
    for (Index i = 0; i < x.rows(); ++i) {
      const Scores s = scores_of(logits.row(i).transpose());
      std::vector<Index> order(static_cast<std::size_t>(logits.cols()));
      std::iota(order.begin(), order.end(), Index{0});
      std::stable_sort(order.begin(), order.end(), [&](Index p, Index q) { return s.order(p) > s.order(q); });
      order.resize(static_cast<std::size_t>(s_.moe->experts_per_token));
      double sum = 0;
      for (const Index e : order) sum += s.weight(e);
      const double scale = a_.routing.scale / (a_.routing.normalised ? sum : 1);
      for (const Index e : order) {
        const auto one = static_cast<std::int32_t>(e);
        y.row(i) += scale * s.weight(e) *
                    dense(x.row(i), {matrix(TensorKind::expert_gate, one), matrix(TensorKind::expert_up, one),
                                     matrix(TensorKind::expert_down, one), a_.expert_bias, one});
      }
    }
    if (model::rank_shape(s_, 1).shared_intermediate == 0) return y;
    MatrixXd shared =
        dense(x, {matrix(TensorKind::shared_gate), matrix(TensorKind::shared_up), matrix(TensorKind::shared_down)});
    if (s_.moe->shared_gate) {
      const VectorXd gate = x * matrix(TensorKind::shared_expert_gate).transpose();
      for (Index i = 0; i < x.rows(); ++i) shared.row(i) *= sigmoid(gate(i));
    }
    return y + shared;
  }

  const model::Architecture& a_;
  const model::LlmShape& s_;
  const WeightSource& weights_;
  std::span<const std::int32_t> tokens_;
  Index n_;
  std::int32_t layer_ = -1;
};

}  // namespace

MatrixXd reference_logits(const model::Architecture& architecture, const WeightSource& weights,
                          std::span<const std::int32_t> tokens) {
  return Reference(architecture, weights, tokens).logits();
}

void expect_greedy(const model::Architecture& architecture, const WeightSource& weights,
                   const std::vector<std::vector<std::int32_t>>& prompts,
                   const std::vector<std::vector<std::int32_t>>& decoded) {
  ASSERT_EQ(decoded.size(), prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_FALSE(decoded[i].empty());
    ASSERT_EQ(decoded[i].size(), decoded[0].size());
    std::vector<std::int32_t> all = prompts[i];
    all.insert(all.end(), decoded[i].begin(), decoded[i].end() - 1);
    const MatrixXd expected = reference_logits(architecture, weights, all);
    for (std::size_t step = 0; step < decoded[i].size(); ++step) {
      Index best = 0;
      expected.row(static_cast<Index>(prompts[i].size() + step) - 1).maxCoeff(&best);
      EXPECT_EQ(decoded[i][step], best) << "prompt " << i << ", step " << step;
    }
  }
}

}  // namespace plimsoll::exec
