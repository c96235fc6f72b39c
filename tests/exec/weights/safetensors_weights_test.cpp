// SPDX-License-Identifier: Apache-2.0
// Checkpoints for a model: valid ones are read, others are refused before anything is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/weights/weights.h"
#include "model/error.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/safetensors_bytes.h"
#include "tests/scratch.h"

namespace plimsoll::exec {
namespace {

using ::testing::HasSubstr;

// Returns every tensor under its first name. Element i of tensor t is t + i / 2^20, which is unique and exact in f32.
PlainTensors checkpoint(const model::Architecture& a, const std::string& beginning) {
  PlainTensors tensors;
  for (const TensorRef& tensor : tensors_of(a)) {
    const TensorPlace place = tensor_places(a, beginning, tensor).front();
    if (tensors.contains(place.name)) continue;  // part of a fused tensor that exists already
    std::size_t count = 1;
    for (const std::int64_t size : place.shape) count *= static_cast<std::size_t>(size);
    PlainTensor& plain = tensors[place.name];
    plain.shape = place.shape;
    const auto number = static_cast<float>(tensors.size());
    for (std::size_t i = 0; i < count; ++i) plain.values.push_back(number + static_cast<float>(i) * 0x1p-20F);
  }
  return tensors;
}

class SafetensorsWeightsTest : public ::testing::Test {
 protected:
  std::string write(const PlainTensors& tensors, const std::string& name = "model.safetensors") const {
    return scratch_.write(name, safetensors_of(tensors));
  }
  std::string problem(const PlainTensors& tensors) const {
    const std::string path = write(tensors);
    return problem_of([&] { safetensors_weights(llama_, path)->check(llama_); });
  }
  std::string problem_at(const std::string& path) const {
    return problem_of([&] { safetensors_weights(llama_, path)->check(llama_); });
  }
  /// Writes all tensors to two shards with an index, and returns its weight_map.
  std::map<std::string, std::string> write_shards() const {
    PlainTensors parts[2];
    std::map<std::string, std::string> map;
    for (const auto& [name, tensor] : tensors_) {
      const std::size_t part = map.size() % 2;
      parts[part].emplace(name, tensor);
      map.emplace(name, part == 0 ? "a.safetensors" : "b.safetensors");
    }
    write(parts[0], "a.safetensors");
    write(parts[1], "b.safetensors");
    write_index(map);
    return map;
  }
  void write_index(const std::map<std::string, std::string>& map) const {
    std::string text;
    for (const auto& [name, file] : map) text += (text.empty() ? "\"" : ",\"") + name + "\":\"" + file + '"';
    scratch_.write("model.safetensors.index.json",
                   R"({"metadata":{"total_size":1,"more":[{"a":null}]},"weight_map":{)" + text + "}}");
  }

  const Scratch scratch_;
  const model::Architecture llama_ = tiny_model("llama3");  // 4 heads, 2 KV heads of 16, hidden 64
  const PlainTensors tensors_ = checkpoint(llama_, "model.");
};

TEST_F(SafetensorsWeightsTest, ReadsRowsAndColumns) {
  const auto weights = safetensors_weights(llama_, write(tensors_));
  weights->check(llama_);
  const PlainTensor& k = tensors_.at("model.layers.1.self_attn.k_proj.weight");
  std::vector<float> part(2 * 3);
  weights->read({TensorKind::k, 1, -1}, {30, 2, 61, 3}, part.data());
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(part[r * 3 + c], k.values[(30 + r) * 64 + 61 + c]);
}

TEST_F(SafetensorsWeightsTest, ReadsRowsThatAFusedTensorSpreads) {
  const model::Architecture falcon = tiny_model("falcon_groups");  // 4 heads, 2 KV heads: [q q k v] twice
  const PlainTensors tensors = checkpoint(falcon, "transformer.");
  const auto weights = safetensors_weights(falcon, write(tensors));
  weights->check(falcon);
  const PlainTensor& fused = tensors.at("transformer.h.0.self_attention.query_key_value.weight");
  const std::int64_t d = falcon.shape.head_dim, hidden = falcon.shape.hidden;
  std::vector<float> all(static_cast<std::size_t>(2 * d * hidden));
  weights->read({TensorKind::v, 0, -1}, {0, 2 * d, 0, hidden}, all.data());
  for (std::int64_t r = 0; r < 2 * d; ++r) {
    const std::int64_t row = r < d ? 3 * d + r : 7 * d + (r - d);
    EXPECT_EQ(all[static_cast<std::size_t>(r * hidden + 5)], fused.values[static_cast<std::size_t>(row * hidden + 5)])
        << r;
  }
}

TEST_F(SafetensorsWeightsTest, ReadsFilesIndicesAndFolders) {
  write_shards();
  std::vector<float> row(64);
  for (const char* const name : {"", "model.safetensors.index.json"}) {
    const auto weights = safetensors_weights(llama_, scratch_.path(name));
    weights->check(llama_);
    weights->read({TensorKind::final_norm, -1, -1}, {0, 64, 0, 1}, row.data());
    EXPECT_EQ(row, tensors_.at("model.norm.weight").values);
  }
  EXPECT_THAT(problem_at(scratch_.path("a.safetensors")), HasSubstr("is missing"));
  write(tensors_);
  EXPECT_EQ(problem_at(scratch_.path()), "no error");
}

// A model saved without its head has names without "model."; if it is tied, it is complete.
TEST_F(SafetensorsWeightsTest, NamesMayBeginLater) {
  const model::Architecture tied = tiny_model("qwen2");
  const auto weights = safetensors_weights(tied, write(checkpoint(tied, "")));
  weights->check(tied);
}

TEST_F(SafetensorsWeightsTest, ATiedModelMayKeepOnlyItsHead) {
  const model::Architecture tied = tiny_model("qwen2");
  PlainTensors tensors = checkpoint(tied, "model.");
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  tensors.erase("model.embed_tokens.weight");
  safetensors_weights(tied, write(tensors))->check(tied);
}

TEST_F(SafetensorsWeightsTest, ATiedModelsHeadIsItsEmbedding) {
  const model::Architecture tied = tiny_model("qwen2");
  PlainTensors tensors = checkpoint(tied, "model.");
  PlainTensor& head = tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  safetensors_weights(tied, write(tensors))->check(tied);
  head.values[3] += 1;
  const auto other = safetensors_weights(tied, write(tensors));
  EXPECT_THAT(problem_of([&] { other->check(tied); }),
              HasSubstr("tensor 'lm_head.weight' differs from the token embedding"));
}

TEST_F(SafetensorsWeightsTest, ExpertsMayBeStacked) {
  const model::Architecture mixtral = tiny_model("mixtral");  // 4 experts of 88
  PlainTensors tensors = checkpoint(mixtral, "model.");
  PlainTensor& stacked = tensors["model.layers.0.mlp.experts.gate_up_proj"];
  stacked.shape = {4, 2 * 88, 64};
  for (int e = 0; e < 4; ++e) {
    for (const char* const part : {"w1", "w3"}) {
      const std::string name = "model.layers.0.block_sparse_moe.experts." + std::to_string(e) + "." + part + ".weight";
      const std::vector<float>& values = tensors.at(name).values;
      stacked.values.insert(stacked.values.end(), values.begin(), values.end());
      if (e != 2 || std::string(part) != "w3") tensors.erase(name);
    }
  }
  const std::vector<float> expected = tensors.at("model.layers.0.block_sparse_moe.experts.2.w3.weight").values;
  tensors.erase("model.layers.0.block_sparse_moe.experts.2.w3.weight");
  const auto weights = safetensors_weights(mixtral, write(tensors));
  weights->check(mixtral);
  std::vector<float> up(88 * 64);
  weights->read({TensorKind::expert_up, 0, 2}, {0, 88, 0, 64}, up.data());
  EXPECT_EQ(up, expected);
}

TEST_F(SafetensorsWeightsTest, RefusesAMissingTensorByName) {
  PlainTensors tensors = tensors_;
  tensors.erase("model.layers.1.mlp.down_proj.weight");
  EXPECT_THAT(problem(tensors),
              HasSubstr("model.safetensors: tensor 'model.layers.1.mlp.down_proj.weight' is missing (layer 1 down)"));
}

TEST_F(SafetensorsWeightsTest, RefusesAnotherShapeByName) {
  PlainTensors tensors = tensors_;
  tensors.at("model.layers.0.self_attn.q_proj.weight").shape = {4, 16, 64};  // another shape with as many numbers
  EXPECT_THAT(problem(tensors),
              HasSubstr("tensor 'model.layers.0.self_attn.q_proj.weight' has shape [4, 16, 64], expected [64, 64]"));
  tensors = tensors_;
  tensors.at("model.embed_tokens.weight").shape = {64, llama_.shape.vocab};
  EXPECT_THAT(problem(tensors), HasSubstr("tensor 'model.embed_tokens.weight' has shape"));
}

TEST_F(SafetensorsWeightsTest, RefusesAnotherTypeByName) {
  std::string bytes = safetensors_of(tensors_);
  const std::size_t norm = bytes.find("model.norm.weight"), dtype = bytes.find("F32", norm);
  bytes.replace(dtype, 3, "I32");
  EXPECT_THAT(problem_at(scratch_.write("model.safetensors", bytes)),
              HasSubstr("tensor 'model.norm.weight' has dtype I32, expected F64, F32, F16 or BF16"));
}

// A file with biases and a config.json without them belong to different models; ignoring the biases would silently give
// wrong results.
TEST_F(SafetensorsWeightsTest, RefusesTensorsThatTheModelLacks) {
  PlainTensors tensors = tensors_;
  tensors["model.layers.0.self_attn.q_proj.bias"] = {{64}, std::vector<float>(64)};
  EXPECT_THAT(problem(tensors),
              HasSubstr("tensor 'model.layers.0.self_attn.q_proj.bias': the model has no layer 0 q_bias"));
  tensors = tensors_;
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{8}, std::vector<float>(8)};  // old files have it
  EXPECT_EQ(problem(tensors), "no error");
}

TEST_F(SafetensorsWeightsTest, RefusesIndicesThatLie) {
  std::map<std::string, std::string> map = write_shards();
  map["model.norm.weight"] = map["model.norm.weight"] == "a.safetensors" ? "b.safetensors" : "a.safetensors";
  write_index(map);
  EXPECT_THAT(problem_at(scratch_.path()), HasSubstr("tensor 'model.norm.weight' is not in"));
  map["model.norm.weight"] = "c.safetensors";
  write_index(map);
  EXPECT_THAT(problem_at(scratch_.path()),
              HasSubstr("tensor 'model.norm.weight': its file 'c.safetensors' is missing"));
}

TEST_F(SafetensorsWeightsTest, AnIndexDoesNotLeadOutOfItsFolder) {
  std::map<std::string, std::string> map = write_shards();
  const std::string outside = scratch_.write("outside.safetensors", safetensors_of(tensors_));
  for (const std::string& shard :
       {std::string("../") + std::filesystem::path(outside).parent_path().filename().string() + "/outside.safetensors",
        outside, std::string("."), std::string(".."), std::string("/etc/passwd"), std::string()}) {
    map["model.norm.weight"] = shard;
    write_index(map);
    EXPECT_THAT(problem_at(scratch_.path("model.safetensors.index.json")),
                HasSubstr("tensor 'model.norm.weight': found '" + shard +
                          "', expected the name of a .safetensors file in the same folder"));
  }
}

TEST_F(SafetensorsWeightsTest, RefusesIndicesThatAreNone) {
  const auto index = [&](const std::string& text) {
    return problem_at(scratch_.write("x.safetensors.index.json", text));
  };
  EXPECT_THAT(index(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(index("[1]"), HasSubstr("expected an index"));
  EXPECT_THAT(index("{}"), HasSubstr("has no weight_map"));
  EXPECT_THAT(index(R"({"weight_map": null})"), HasSubstr("'weight_map': found null"));
  EXPECT_THAT(index(R"({"weight_map": {"a": 1}})"),
              HasSubstr("tensor 'a': found a number, expected the name of a file"));
  EXPECT_THAT(index(R"({"weight_map": {"a": {"b": "c"}}})"), HasSubstr("tensor 'a': found an object"));
  EXPECT_THAT(index(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})"),
              HasSubstr("tensor 'a' occurs twice"));
  EXPECT_THAT(index(R"({"weight_map": {}, "weight_map": {}})"), HasSubstr("weight_map occurs twice"));
  EXPECT_THAT(index("{\"metadata\": " + std::string(100'000, '[')), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(index(R"({"weight_map": {}})"), HasSubstr("tensor 'model.embed_tokens.weight' is missing"));
}

TEST_F(SafetensorsWeightsTest, SaysWhatAFolderLacks) {
  scratch_.write("pytorch_model.bin", "");
  EXPECT_THAT(problem_at(scratch_.path()), HasSubstr("holds no weights, expected model.safetensors"));
  write(tensors_, "x.safetensors");
  EXPECT_EQ(problem_at(scratch_.path()), "no error");
  write(tensors_, "y.safetensors");
  EXPECT_THAT(problem_at(scratch_.path()), HasSubstr("0 indices and 2 .safetensors files"));
}

}  // namespace
}  // namespace plimsoll::exec
