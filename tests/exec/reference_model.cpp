// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/reference_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
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
  [[nodiscard]] RowVectorXd vector(TensorKind kind) const {
    RowVectorXd values = matrix(kind).col(0).transpose();
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

  [[nodiscard]] MatrixXd attention(const MatrixXd& x) const {
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
        VectorXd p = keys.middleRows(first, count) * q.row(i).segment(h * d, d).transpose() * scale;
        p = p.unaryExpr([this](double score) { return capped(score, a_.attention_cap); });
        p = (p.array() - p.maxCoeff()).exp().matrix();
        out.row(i).segment(h * d, d) = p.transpose() * values.middleRows(first, count) / p.sum();
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
    }
    return x;
  }

  struct Mlp {
    MatrixXd gate, up, down;  // gate: empty without one
    bool bias = false;
  };
  [[nodiscard]] MatrixXd dense(const MatrixXd& x, const Mlp& mlp) const {
    const auto& [gate, up, down, bias] = mlp;
    MatrixXd y = x * up.transpose();
    if (bias) y.rowwise() += vector(TensorKind::up_bias);
    if (gate.size() > 0) {
      MatrixXd g = x * gate.transpose();
      if (bias) g.rowwise() += vector(TensorKind::gate_bias);
      y = (y.array() * g.unaryExpr([this](double value) { return act(value); }).array()).matrix();
    } else {
      y = y.unaryExpr([this](double value) { return act(value); });
    }
    y *= down.transpose();
    if (bias) y.rowwise() += vector(TensorKind::down_bias);
    return y;
  }

  [[nodiscard]] MatrixXd mlp(const MatrixXd& x) const {
    if (model::layer_kind(s_, layer_).moe) return experts(x);
    const MatrixXd gate = s_.gated_mlp ? matrix(TensorKind::gate) : MatrixXd();
    return dense(x, {gate, matrix(TensorKind::up), matrix(TensorKind::down), a_.mlp_bias});
  }

  // Applies the k best experts by router logit, weighted by the softmax over these k.
  [[nodiscard]] MatrixXd experts(const MatrixXd& x) const {
    const MatrixXd scores = x * matrix(TensorKind::router).transpose();
    MatrixXd y = MatrixXd::Zero(x.rows(), x.cols());
    for (Index i = 0; i < x.rows(); ++i) {
      std::vector<Index> order(static_cast<std::size_t>(scores.cols()));
      std::iota(order.begin(), order.end(), Index{0});
      std::stable_sort(order.begin(), order.end(), [&](Index p, Index q) { return scores(i, p) > scores(i, q); });
      order.resize(static_cast<std::size_t>(s_.moe->experts_per_token));
      double sum = 0;
      for (const Index e : order) sum += std::exp(scores(i, e) - scores(i, order[0]));
      for (const Index e : order) {
        const auto expert = static_cast<std::int32_t>(e);
        y.row(i) += std::exp(scores(i, e) - scores(i, order[0])) / sum *
                    dense(x.row(i), {matrix(TensorKind::expert_gate, expert), matrix(TensorKind::expert_up, expert),
                                     matrix(TensorKind::expert_down, expert)});
      }
    }
    return y;
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

}  // namespace plimsoll::exec
