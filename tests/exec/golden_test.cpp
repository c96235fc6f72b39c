// SPDX-License-Identifier: Apache-2.0
// Compares the executor with results of transformers (tests/golden/make_golden.py), for every family and every way
// through the engine. Tolerances: f32 sums of 64 to 176 products vary with their order by about 1e-6 of the largest
// logit. bf16 keeps 8 bits, and the rounding of weights and of cached K and V adds up to less than 1 %.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "exec/live/prompt_runner.h"
#include "exec/weights/open_model.h"
#include "exec/weights/safetensors_file.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {
namespace {

namespace fs = std::filesystem;

const std::string kModels = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/models";

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kModels))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Expected {
  std::vector<float> logits;         // [length, vocabulary]
  std::vector<std::int32_t> tokens;  // greedy continuation
  std::vector<double> margins;       // best minus second-best logit of each token
};

struct Route {
  std::int32_t tp = 1;
  std::int64_t chunk = 0;
  std::int32_t block_tokens = 16;
};

class GoldenModel : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenModel()
      : folder_(kModels + "/" + GetParam()),
        catalogue_(std::string(PLIMSOLL_SOURCE_DIR) + "/configs"),
        model_(open_model(folder_, 1, catalogue_)) {
    prompts_ = read_prompts(folder_ + "/prompts.jsonl",
                            {.vocabulary = model_.architecture.shape.vocab, .positions = 0, .generated = 0});
    const SafetensorsFile file(folder_ + "/expected.safetensors");
    std::ifstream lines(folder_ + "/expected.jsonl");
    for (const Prompt& prompt : prompts_) {
      const FileTensor& tensor = file.tensors().at(prompt.id);
      std::string line;
      std::getline(lines, line);
      const nlohmann::json greedy = nlohmann::json::parse(line);
      Expected expected;
      expected.tokens = greedy["tokens"].get<std::vector<std::int32_t>>();
      expected.margins = greedy["margins"].get<std::vector<double>>();
      expected.logits.resize(prompt.tokens.size() * static_cast<std::size_t>(model_.architecture.shape.vocab));
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(prompt.tokens.size()),
                                                         model_.architecture.shape.vocab}));
      read_elements(tensor, 0, static_cast<std::int64_t>(expected.logits.size()), expected.logits.data());
      expected_.push_back(std::move(expected));
    }
  }

  [[nodiscard]] EngineConfig config(model::DType dtype, std::int32_t tp) const {
    EngineConfig c;
    c.architecture = model_.architecture;
    c.weight_dtype = c.kv_dtype = dtype;
    c.tp = tp;
    c.poison = true;
    return c;
  }

  [[nodiscard]] bool divides() const { return !model::has_wide_qk_norm(model_.architecture.shape); }
  struct Computed {
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<std::int32_t>> tokens;
    std::map<std::tuple<std::size_t, std::int64_t, std::int32_t>, RowExperts> experts;  // by prompt, row and layer
  };
  [[nodiscard]] Computed compute(const Route& route, model::DType dtype) const {
    Computed computed;
    PromptRun run;
    run.generate = static_cast<std::int64_t>(expected_.front().tokens.size());
    run.chunk = route.chunk;
    run.block_tokens = route.block_tokens;
    for (const Expected& expected : expected_) computed.logits.emplace_back(expected.logits.size(), NAN);
    run.on_logits = [&](std::size_t prompt, std::int64_t row, std::span<const float> values) {
      std::copy(values.begin(), values.end(), computed.logits[prompt].begin() + row * model_.architecture.shape.vocab);
    };
    run.on_experts = [&](std::size_t prompt, const RowExperts& chosen) {
      computed.experts[{prompt, chosen.row, chosen.layer}] = chosen;
    };
    EngineConfig c = config(dtype, route.tp);
    make_room(prompts_, run, c);
    Engine engine(c, *model_.weights);
    computed.tokens = run_prompts(engine, prompts_, run);
    return computed;
  }

  static double largest(const std::vector<float>& values) {
    double most = 0;
    for (const float v : values) most = std::max(most, std::abs(static_cast<double>(v)));
    return most;
  }
  /// Returns NaN if any number is NaN, so that no comparison succeeds.
  static double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = std::abs(static_cast<double>(a[i]) - b[i]);
      if (std::isnan(d)) return d;
      most = std::max(most, d);
    }
    return most;
  }
  static double relative_l2(const std::vector<float>& found, const std::vector<float>& expected) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double d = static_cast<double>(found[i]) - expected[i];
      difference += d * d;
      size += static_cast<double>(expected[i]) * expected[i];
    }
    return std::sqrt(difference / size);
  }

  // Compares up to the first token that such a small error may change: later tokens have another context.
  void expect_tokens(std::size_t prompt, const std::vector<std::int32_t>& found, double error) const {
    const Expected& expected = expected_[prompt];
    for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
      if (found[i] != expected.tokens[i] && expected.margins[i] <= 4 * error) return;
      ASSERT_EQ(found[i], expected.tokens[i])
          << "token " << i << " of " << prompts_[prompt].id << ", margin " << expected.margins[i];
    }
  }

  void expect_close_f32(std::size_t prompt, const std::vector<float>& logits) const {
    const std::vector<float>& expected = expected_[prompt].logits;
    EXPECT_LE(largest_difference(logits, expected), 1e-4 * largest(expected)) << prompts_[prompt].id;
  }

  std::string folder_;
  configs::Catalogue catalogue_;
  OpenModel model_;
  std::vector<Prompt> prompts_;
  std::vector<Expected> expected_;
};

TEST_P(GoldenModel, InF32EveryRouteComputesWhatTransformersDoes) {
  for (const Route& route : {Route{1, 0, 16}, Route{1, 1, 1}, Route{1, 5, 4096}, Route{2, 5, 16}, Route{4, 0, 1}}) {
    SCOPED_TRACE("tp " + std::to_string(route.tp) + ", chunk " + std::to_string(route.chunk) + ", block " +
                 std::to_string(route.block_tokens));
    if (route.tp > 1 && !divides()) continue;
    const Computed computed = compute(route, model::DType::fp32);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      expect_close_f32(i, computed.logits[i]);
      expect_tokens(i, computed.tokens[i], largest_difference(computed.logits[i], expected_[i].logits));
    }
  }
}

TEST_P(GoldenModel, InBf16LogitsAreWithinAPercent) {
  for (const std::int32_t tp : {1, 2}) {
    SCOPED_TRACE("tp " + std::to_string(tp));
    if (tp > 1 && !divides()) continue;
    const Computed computed = compute({tp, 0, 16}, model::DType::bf16);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      EXPECT_LE(relative_l2(computed.logits[i], expected_[i].logits), 1e-2) << prompts_[i].id;
      expect_tokens(i, computed.tokens[i], largest_difference(computed.logits[i], expected_[i].logits));
    }
  }
}

// A router chooses for every token and layer with experts, whatever the way through the engine. Where bf16 chooses
// other experts than f32, the scores were nearly tied: its errors are about a per cent of their range.
TEST_P(GoldenModel, RoutersChooseOtherExpertsOnlyWhereTheyAreNearlyTied) {
  const Computed exact = compute({1, 0, 16}, model::DType::fp32);
  std::size_t expected = 0;
  for (std::int32_t layer = 0; layer < model_.architecture.shape.layers; ++layer)
    if (model::layer_kind(model_.architecture.shape, layer).moe)
      for (const Prompt& prompt : prompts_) expected += prompt.tokens.size();
  EXPECT_EQ(exact.experts.size(), expected);
  const Computed chunked = compute({1, 5, 1}, model::DType::fp32), rounded = compute({1, 0, 16}, model::DType::bf16);
  std::pair<std::size_t, std::int64_t> flipped{prompts_.size(), 0};  // later layers of this row see another input
  for (const auto& [place, chosen] : exact.experts) {
    EXPECT_EQ(chunked.experts.at(place).experts, chosen.experts);
    const std::pair row{std::get<0>(place), chosen.row};
    if (row == flipped || rounded.experts.at(place).experts == chosen.experts) continue;
    EXPECT_LT(chosen.margin, 0.05F) << "layer " << chosen.layer << ", row " << chosen.row;
    flipped = row;
  }
}

// Sends the prompts token by token through the decode kernels, all in one batch with contexts of different lengths.
TEST_P(GoldenModel, DecodingThePromptGivesTheSameLogits) {
  PromptRun run;
  EngineConfig c = config(model::DType::fp32, 1);
  make_room(prompts_, run, c);
  Engine engine(c, *model_.weights);
  const auto vocabulary = static_cast<std::size_t>(model_.architecture.shape.vocab);
  std::vector<std::vector<std::int32_t>> blocks(prompts_.size());
  std::int32_t next = static_cast<std::int32_t>(c.kv_blocks);  // counts down from the last block
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    for (std::size_t covered = 0; covered < prompts_[i].tokens.size(); covered += 16) blocks[i].push_back(--next);
  std::vector<std::vector<float>> logits(prompts_.size());
  ForwardOutput output;
  for (std::size_t step = 0; true; ++step) {
    ForwardInput input;
    input.all_logits = true;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (step >= prompts_[i].tokens.size()) continue;
      DecodeRow row;
      row.token = prompts_[i].tokens[step];
      row.context = static_cast<std::int64_t>(step);
      row.blocks = blocks[i];
      row.slot = static_cast<std::int32_t>(i);
      input.decode.push_back(row);
      who.push_back(i);
    }
    if (who.empty()) break;
    engine.run(input, output);
    for (std::size_t r = 0; r < who.size(); ++r) {
      const auto begin = output.logits.begin() + static_cast<std::ptrdiff_t>(r * vocabulary);
      logits[who[r]].insert(logits[who[r]].end(), begin, begin + static_cast<std::ptrdiff_t>(vocabulary));
    }
  }
  for (std::size_t i = 0; i < prompts_.size(); ++i) expect_close_f32(i, logits[i]);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, ::testing::ValuesIn(fixtures()),
                         [](const auto& family) { return family.param; });

// Without this test, a missing fixture would merely be skipped.
TEST(GoldenModels, AreThere) { EXPECT_GE(fixtures().size(), 16U); }

}  // namespace
}  // namespace plimsoll::exec
