// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "configs/catalogue.h"
#include "model/tp_layout.h"
#include "tests/configs/hf_configs.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using model::LlmShape;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string json_of(std::string_view model) {
  for (const HfConfig& config : kHfConfigs)
    if (config.model == model) return std::string(config.json);
  ADD_FAILURE() << model;
  return "{}";
}

/// Returns the config of a model with some fields replaced; "-" removes a field.
std::string changed(std::string_view model, const json& fields) {
  json config = json::parse(json_of(model));
  for (const auto& [name, value] : fields.items()) {
    if (value == "-")
      config.erase(name);
    else
      config[name] = value;
  }
  return config.dump();
}

class HfConfigFile : public ::testing::Test {
 protected:
  LlmShape read(const std::string& text) { return read_hf_config(scratch_.write("config.json", text)); }
  LlmShape read(std::string_view model, const json& fields) { return read(changed(model, fields)); }
  /// Returns the message without the folder.
  std::string problem(const std::string& text) {
    const std::string what = problem_of([&] { (void)read(text); });
    const std::string folder = scratch_.path() + "/";
    return what.starts_with(folder) ? what.substr(folder.size()) : what;
  }
  std::string problem(std::string_view model, const json& fields) { return problem(changed(model, fields)); }

  Scratch scratch_;
};

TEST_F(HfConfigFile, AddsUpToTheCataloguesParameters) {
  const Catalogue catalogue(PLIMSOLL_SOURCE_DIR "/configs");
  for (const HfConfig& config : kHfConfigs) {
    const LlmShape from_hf = read(std::string(config.json));
    const auto known = catalogue.model(std::string(config.model));
    EXPECT_EQ(weight_count(from_hf), weight_count(*known)) << config.model;
    EXPECT_EQ(active_weight_count(from_hf), active_weight_count(*known)) << config.model;
    EXPECT_EQ(kv_bytes_per_token(from_hf, model::DType::fp16).value,
              kv_bytes_per_token(*known, model::DType::fp16).value)
        << config.model;
  }
}

// Compares everything that the cost of a step depends on. Sources differ in max_position, in Phi's window and in
// rotations, which do not affect it.
TEST_F(HfConfigFile, HasTheCataloguesShape) {
  const Catalogue catalogue(PLIMSOLL_SOURCE_DIR "/configs");
  for (const HfConfig& config : kHfConfigs) {
    LlmShape from_hf = read(std::string(config.json));
    const auto known = catalogue.model(std::string(config.model));
    from_hf.id = known->id;
    from_hf.source = known->source;
    from_hf.hf_id = known->hf_id;  // a configuration has no name
    from_hf.max_position = known->max_position;
    from_hf.checkpoint = known->checkpoint;  // tested in hf_checkpoint_test.cpp
    from_hf.notes = known->notes;
    if (known->rope_base == 0) from_hf.rope_base = 0;
    if (known->family == "phi3") from_hf.sliding_window = known->sliding_window;
    EXPECT_TRUE(from_hf == *known) << config.model;
  }
}

TEST_F(HfConfigFile, IsAModelOfAStudyByItsPath) {
  const Catalogue catalogue(PLIMSOLL_SOURCE_DIR "/configs");
  const std::string path = scratch_.write("My-Llama-hf/config.json", json_of("llama-2-7b"));
  EXPECT_EQ(catalogue.model(path)->id, "my-llama");
  EXPECT_EQ(catalogue.model(scratch_.path("My-Llama-hf"))->layers, 32);  // its folder
  EXPECT_EQ(catalogue.model(scratch_.write("tiny.json", json_of("llama-2-7b")))->id, "tiny");
  EXPECT_THAT(problem_of([&] {
                (void)catalogue.model(scratch_.path("none.json"), Where{"s.yaml", 2, 8});
              }),
              AllOf(StartsWith("s.yaml:2:8: model '"), EndsWith("': no such file")));
}

TEST_F(HfConfigFile, NullsHaveTheirMeaning) {
  EXPECT_EQ(read("llama-3-8b", {{"num_key_value_heads", nullptr}}).kv_heads, 32);
  EXPECT_EQ(read("llama-3-8b", {{"num_key_value_heads", "-"}}).kv_heads, 32);
  EXPECT_EQ(read("qwen3-8b", {{"head_dim", nullptr}}).head_dim, 128);
  EXPECT_EQ(read("qwen3-0.6b", {{"head_dim", nullptr}}).head_dim, 64);  // 1024 / 16 heads
  EXPECT_EQ(read("qwen3-0.6b", {{"head_dim", "-"}}).head_dim, 128);     // default of the class
  EXPECT_EQ(read("mistral-7b-v0.1", {{"sliding_window", nullptr}}).sliding_window, 0);
  EXPECT_EQ(read("gpt-j-6b", {{"n_inner", 8192}}).intermediate, 8192);
  EXPECT_EQ(read("llama-2-7b", {{"rope_theta", nullptr}}).rope_base, 10000);
  EXPECT_EQ(read("llama-2-7b", {{"rope_parameters", {{"rope_theta", 500000.0}}}}).rope_base, 500000);
  EXPECT_FALSE(read("deepseek-v3", {{"n_routed_experts", nullptr}}).moe.has_value());
}

TEST_F(HfConfigFile, WindowsBelongToTheLayersThatHaveThem) {
  EXPECT_EQ(read("qwen2.5-7b", {{"use_sliding_window", true}}).sliding_window, 0);  // begins after the last layer
  EXPECT_EQ(read("qwen2.5-7b", {{"use_sliding_window", true}, {"max_window_layers", 0}}).sliding_window, 131072);
  // The window applies from layer 14 on: to 14 of 28 layers.
  const LlmShape half = read("qwen2.5-7b", {{"use_sliding_window", true}, {"max_window_layers", 14}});
  EXPECT_FALSE(model::layer_kind(half, 13).windowed);
  EXPECT_TRUE(model::layer_kind(half, 14).windowed);
  const char* full = "full_attention";
  const char* windowed = "sliding_attention";
  // layer_types takes precedence over max_window_layers.
  EXPECT_EQ(read("qwen2.5-7b", {{"use_sliding_window", true}, {"layer_types", {windowed, windowed}}}).sliding_window,
            131072);
  EXPECT_EQ(read("qwen2.5-7b", {{"use_sliding_window", true}, {"layer_types", {full, full}}}).sliding_window, 0);
  EXPECT_EQ(read("qwen2.5-7b", {{"use_sliding_window", false}, {"layer_types", {windowed}}}).sliding_window, 0);
  EXPECT_THAT(problem("qwen2.5-7b", {{"use_sliding_window", true}, {"layer_types", {full, windowed}}}),
              HasSubstr("layer_types: expected"));
  // Some classes read only sliding_window; Qwen3's experts only if use_sliding_window is set.
  EXPECT_EQ(read("qwen3-30b-a3b", {{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 28}})
                .sliding_window,
            6);
  EXPECT_EQ(read("mistral-7b-v0.1", {{"layer_types", {full, full}}}).sliding_window, 4096);
  EXPECT_EQ(read("mistral-7b-v0.1", {{"use_sliding_window", false}}).sliding_window, 4096);
  EXPECT_EQ(read("gemma-2-9b", {{"layer_types", {windowed, full, windowed}}}).window_period, 2);
  EXPECT_THAT(problem("gemma-2-9b", {{"layer_types", {full, windowed, full}}}), HasSubstr("layer_types: expected"));
}

TEST_F(HfConfigFile, FalconsVariantsHaveTheirOwnHeads) {
  EXPECT_EQ(read("falcon-7b", {{"multi_query", "-"}, {"num_kv_heads", "-"}}).kv_heads, 1);
  EXPECT_EQ(read("falcon-7b", {{"multi_query", false}}).kv_heads, 71);
  EXPECT_EQ(read("falcon-40b", {{"num_kv_heads", nullptr}}).kv_heads, 128);
  EXPECT_EQ(read("falcon-7b", {}).intermediate, 4 * 4544);
  EXPECT_FALSE(read("falcon-7b", {{"parallel_attn", false}}).parallel_attention);
}

TEST_F(HfConfigFile, SaysWhatIsNotCounted) {
  EXPECT_THAT(read("llama-2-7b", {{"attention_bias", true}}).source,
              HasSubstr("the bias of the attention's output is not counted"));
  EXPECT_THAT(read("falcon-7b", {{"bias", true}}).source, HasSubstr("not counted"));
}

TEST_F(HfConfigFile, NamesTheFieldItsPlaceAndWhatIsAllowed) {
  struct Case {
    std::string_view model;
    json fields;
    const char* message;
  };
  const Case table[] = {
      {"llama-2-7b",
       {{"hidden_size", "-"}},
       "config.json: hidden_size: is missing, expected a whole number from 1 to 1000000"},
      {"llama-2-7b", {{"hidden_size", nullptr}}, "hidden_size: found null, expected a whole number from 1 to 1000000"},
      {"llama-2-7b", {{"hidden_size", -4096}}, "hidden_size: found -4096, expected a whole number from 1"},
      {"llama-2-7b", {{"hidden_size", 0}}, "hidden_size: found 0, expected a whole number from 1"},
      {"llama-2-7b", {{"hidden_size", 4096.5}}, "hidden_size: found 4096.5, expected a whole number from 1"},
      {"llama-2-7b", {{"hidden_size", "4096"}}, "hidden_size: found '4096', expected a whole number from 1"},
      {"llama-2-7b", {{"hidden_size", true}}, "hidden_size: found true, expected a whole number from 1"},
      {"llama-2-7b", {{"hidden_size", {4096}}}, "hidden_size: found a list of 1, expected a whole number from 1"},
      {"llama-2-7b",
       {{"num_hidden_layers", 18446744073709551615U}},
       "found 18446744073709551615, expected a whole number from 1 to 10000"},
      {"llama-2-7b", {{"vocab_size", 1e300}}, "vocab_size: found 1e+300, expected a whole number"},
      {"llama-2-7b",
       {{"num_key_value_heads", 5}},
       "num_key_value_heads: found 5, expected a divisor of the 32 attention heads"},
      {"llama-2-7b",
       {{"num_attention_heads", 48}, {"num_key_value_heads", nullptr}},
       "hidden_size: 4096 is not a multiple of the 48 heads"},
      {"llama-2-7b",
       {{"num_attention_heads", 8192}},
       "num_attention_heads: found 8192, expected at most the 4096 of hidden_size"},
      {"llama-2-7b", {{"tie_word_embeddings", "no"}}, "tie_word_embeddings: found 'no', expected true or false"},
      {"llama-2-7b", {{"rope_theta", -1}}, "rope_theta: found -1, expected a number from 1e-06 to 1e+12"},
      {"llama-2-7b", {{"model_type", "-"}}, "config.json: model_type: is missing"},
      {"llama-2-7b", {{"model_type", 7}}, "model_type: found 7, expected text"},
      {"llama-2-7b",
       {{"model_type", "lama"}},
       "model_type: found 'lama' (did you mean 'llama'?), expected one of llama, mistral, qwen2,"},
      {"llama-2-7b",
       {{"model_type", "bert-with-wings"}},
       "model_type: found 'bert-with-wings', expected one of llama, mistral, qwen2, qwen3,"},
      {"mixtral-8x7b-v0.1",
       {{"num_experts_per_tok", 9}},
       "num_experts_per_tok: found 9, expected a whole number from 1 to 8"},
      {"qwen3-30b-a3b", {{"decoder_sparse_step", 0}}, "decoder_sparse_step: found 0, expected a whole number from 1"},
      {"deepseek-v3", {{"moe_layer_freq", 2}}, "moe_layer_freq: expected 1"},
      {"qwen3-30b-a3b", {{"mlp_only_layers", {3}}}, "mlp_only_layers: expected a list of the first layers"},
      {"deepseek-v3",
       {{"first_k_dense_replace", 62}},
       "first_k_dense_replace: found 62, expected a whole number from 0 to 61"},
      {"deepseek-v3", {{"kv_lora_rank", "-"}}, "kv_lora_rank: is missing"},
      {"opt-6.7b",
       {{"word_embed_proj_dim", 512}},
       "word_embed_proj_dim: embeddings narrower than the layers are not modelled"},
      {"opt-6.7b", {{"max_position_embeddings", "-"}}, "max_position_embeddings: is missing"},
      {"gpt-j-6b", {{"rotary_dim", 512}}, "rotary_dim: found 512, expected a whole number from 1 to 256"},
      {"falcon-7b", {{"num_hidden_layers", "-"}}, "num_hidden_layers: is missing"},
  };
  for (const Case& c : table) EXPECT_THAT(problem(c.model, c.fields), HasSubstr(c.message)) << c.message;
}

TEST_F(HfConfigFile, NamesTheLineAndTheColumn) {
  EXPECT_THAT(problem("{\n  \"model_type\": \"llama\",\n  \"num_hidden_layers\": -1\n}"),
              StartsWith("config.json:3:3: num_hidden_layers: found -1"));
}

TEST_F(HfConfigFile, OneClearMessageForWhatIsNoConfig) {
  EXPECT_THAT(problem(""), StartsWith("config.json:1:1: not valid JSON: "));
  EXPECT_THAT(problem("model_type: llama\n"), StartsWith("config.json:1:1: not valid JSON: "));
  EXPECT_THAT(problem("{\"hidden_size\": NaN}"), StartsWith("config.json:1:17: not valid JSON: "));
  EXPECT_THAT(problem("{\n \"hidden_size\": 1e999}"), StartsWith("config.json:2:22: not valid JSON: number overflow"));
  EXPECT_THAT(problem("{\n \"a\": 1,\n}"), StartsWith("config.json:3:1: not valid JSON: "));
  EXPECT_THAT(
      problem("{\"a\": \"\xff\"}"),
      StartsWith(
          "config.json:1:8: not valid JSON: syntax error while parsing value - invalid string: ill-formed UTF-8 byte"));
  EXPECT_THAT(problem(std::string("{\0}", 3)), StartsWith("config.json:1:2: not valid JSON: "));
  EXPECT_THAT(problem("{\"a\": 1} {}"), StartsWith("config.json:1:10: not valid JSON: "));
  EXPECT_EQ(problem("[1, 2]"), "config.json:1:1: found a list of 2, expected an object {…}");
  EXPECT_EQ(problem("{\"a\": 1,\n\"b\": {\"c\": 1, \"c\": 2}}"), "config.json:2:15: 'c' occurs twice in one object");
  EXPECT_EQ(problem("{\"a\": 1, \"a\": 1}"), "config.json:1:10: 'a' occurs twice in one object");
  EXPECT_EQ(problem("{\"a\": [{\"b\": 1}, {\"b\": 1}], \"model_type\": 1}"),
            "config.json:1:29: model_type: found 1, expected text");
  EXPECT_EQ(problem(std::string(1'000'000, '[')), "config.json:1:65: nested deeper than 64 levels");
  EXPECT_THAT(problem("\"" + std::string(5U << 20U, 'x') + "\""),
              EndsWith("larger than 4 MiB, expected a Hugging Face config.json"));
  EXPECT_THAT(problem_of([&] { (void)read_hf_config(scratch_.path()); }),
              EndsWith("is a directory, expected a Hugging Face config.json"));
}

// However a valid file is cut or a byte is changed, the result is a valid shape or an InputError.
RC_GTEST_PROP(HfConfigDamage, IsReadOrRefused, ()) {
  static const Scratch scratch;
  const auto which = *rc::gen::inRange<std::size_t>(0, std::size(kHfConfigs));
  std::string text(kHfConfigs[which].json);
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  if (*rc::gen::arbitrary<bool>())
    text.erase(at, *rc::gen::inRange<std::size_t>(1, 40));
  else
    text[at] = *rc::gen::arbitrary<char>();
  const std::string path = scratch.write("config.json", text);
  try {
    RC_ASSERT(weight_count(read_hf_config(path)) > 0);
  } catch (const InputError& error) {
    RC_ASSERT(error.where().file == path);
    RC_ASSERT(!error.text().empty());
  }
}

}  // namespace
}  // namespace plimsoll::configs
