// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/twins.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

namespace plimsoll::exec {

Twins::Twins(const BackendConfig& config) : config_(config) {
  cpu_.backend = make_cpu_backend(config, nullptr, 1);
  cuda_.backend = make_cuda_backend(config, nullptr, 0);
}

std::size_t Twins::add_linear(std::int64_t n, std::int64_t k, double deviation, std::int64_t copies) {
  std::vector<float> values(static_cast<std::size_t>(n * k * copies));
  std::mt19937_64 generator(seed_++);
  std::normal_distribution<double> normal(0, deviation);
  for (float& value : values) value = static_cast<float>(normal(generator));
  const FillRows fill = [&](std::int64_t copy, std::int64_t row, std::int64_t rows, float* out) {
    std::copy_n(values.data() + (copy * n + row) * k, rows * k, out);
  };
  for (Twin* side : {&cpu_, &cuda_})
    side->linears.push_back((*side)->make_linear({.n = n, .k = k, .copies = copies, .full_precision = false}, fill));
  return cpu_.linears.size() - 1;
}

std::size_t Twins::add_vector(std::int64_t size, double mean, double deviation) {
  std::vector<float> values(static_cast<std::size_t>(size));
  std::mt19937_64 generator(seed_++);
  std::normal_distribution<double> normal(mean, deviation);
  for (float& value : values) value = static_cast<float>(normal(generator));
  for (Twin* side : {&cpu_, &cuda_}) side->vectors.push_back((*side)->make_vector(values));
  return cpu_.vectors.size() - 1;
}

// A product with the identity matrix copies any buffer to the logits, which return to the host. If a buffer is wider
// than the logits, the matrix selects elements from all over the row.
std::size_t Twins::reader(std::int64_t width) {
  for (const auto& [of, number] : readers_) {
    if (of == width) return number;
  }
  const std::int64_t places = config_.rank.vocab_rows;
  const FillRows unit = [width, places](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
    std::fill_n(out, rows * width, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t column = width <= places ? row + r : (row + r) * (width - 1) / (places - 1);
      if (column < width) out[r * width + column] = 1;
    }
  };
  for (Twin* side : {&cpu_, &cuda_})
    side->linears.push_back(
        (*side)->make_linear({.n = config_.rank.vocab_rows, .k = width, .copies = 1, .full_precision = false}, unit));
  readers_.emplace_back(width, cpu_.linears.size() - 1);
  return cpu_.linears.size() - 1;
}

std::pair<std::vector<float>, std::vector<std::int32_t>> Twins::run_side(Twin& side, const RowTable& table,
                                                                         const std::function<void(Twin&)>& ops) const {
  (void)side->begin(table);
  ops(side);
  side->end();
  std::vector<float> logits(table.sampled.size() * static_cast<std::size_t>(config_.rank.vocab_rows));
  std::vector<std::int32_t> tokens(table.sampled.size());
  side->wait(tokens.data(), logits.data());
  return {std::move(logits), std::move(tokens)};
}

TwinOutputs Twins::run_logits(ForwardInput input, const std::function<void(Twin&)>& ops, std::int64_t valid,
                              std::int64_t vocab_begin) {
  input.all_logits = true;
  RowTable table;
  lay_out(input, config_.block_tokens, table);
  TwinOutputs outputs;
  outputs.width = static_cast<std::size_t>(config_.rank.vocab_rows);
  const auto all = [&](Twin& side) {
    ops(side);
    side->sample(vocab_begin, valid);
    side->exchange_samples();
  };
  std::tie(outputs.cpu, outputs.cpu_tokens) = run_side(cpu_, table, all);
  std::tie(outputs.cuda, outputs.cuda_tokens) = run_side(cuda_, table, all);
  return outputs;
}

TwinOutputs Twins::run(ForwardInput input, const std::function<void(Twin&)>& ops, Buffer buffer, std::int64_t width) {
  const std::size_t number = reader(width);
  RowTable table;
  input.all_logits = true;
  lay_out(input, config_.block_tokens, table);
  const auto rows = static_cast<std::int64_t>(table.sampled.size());
  width = std::min(width, config_.rank.vocab_rows);
  TwinOutputs outputs = run_logits(std::move(input), [&](Twin& side) {
    ops(side);
    side->linear(side.linear(number), buffer, Buffer::logits, rows, {});
  });
  const auto narrow = [&](std::vector<float>& values) {
    std::vector<float> cut;
    for (std::size_t row = 0; row * outputs.width < values.size(); ++row) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(row * outputs.width);
      cut.insert(cut.end(), from, from + width);
    }
    values = std::move(cut);
  };
  narrow(outputs.cpu);
  narrow(outputs.cuda);
  outputs.width = static_cast<std::size_t>(width);
  return outputs;
}

double worst_row(const TwinOutputs& outputs) {
  double worst = 0;
  for (std::size_t row = 0; row < outputs.cpu.size(); row += outputs.width) {
    double difference = 0, norm = 1e-30;
    for (std::size_t i = row; i < row + outputs.width; ++i) {
      const double expected = static_cast<double>(outputs.cpu[i]);
      difference += std::pow(static_cast<double>(outputs.cuda[i]) - expected, 2);
      norm += expected * expected;
    }
    const double error = std::sqrt(difference / norm);
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
  return outputs.cpu.empty() ? std::numeric_limits<double>::infinity() : worst;
}

BackendConfig twin_config(model::DType weights, model::DType kv) {
  BackendConfig config;
  model::LlmShape& shape = config.architecture.shape;
  shape.id = "twins";
  shape.family = "llama";
  shape.layers = 2;
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.intermediate = 64;
  shape.vocab = 64;
  shape.max_position = 4096;
  config.architecture.rope.rotary_dim = 16;
  config.rank = {.heads = 4,
                 .kv_heads = 2,
                 .intermediate = 64,
                 .expert_intermediate = 0,
                 .shared_intermediate = 0,
                 .vocab_rows = 64};
  config.weight_dtype = weights;
  config.kv_dtype = kv;
  config.kv_blocks = 128;
  config.sequences = 8;
  config.step_rows = 8;
  config.graphs = false;
  config.poison = true;
  return config;
}

}  // namespace plimsoll::exec
