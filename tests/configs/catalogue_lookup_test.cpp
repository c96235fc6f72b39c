// SPDX-License-Identifier: Apache-2.0
// Custom catalogues: which files a lookup reads, and how files state their names.
#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <cmath>

#include "configs/catalogue.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel =
    "family: llama\nlayers: 2\nhidden: 64\nheads: 4\nkv_heads: 2\nintermediate: 128\nvocab: 1000\ngated_mlp: true\n"
    "norm: rmsnorm\nactivation: silu\nsource: made up\n";
const std::string kAccelerator =
    "fp16: 100 TFLOP/s\nmemory: 24 GB\nmemory_bandwidth: 600 GB/s\nefficiency:\n"
    "  gemm: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n"
    "  moe_gemm: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n"
    "  prefill_attention: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n"
    "  decode_attention: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n"
    "  pointwise: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n"
    "  kernel_gap: 1 us\n  source: made up\nsource: made up\n";
const std::string kInterconnect =
    "kind: pcie\nunidirectional: 32 GB/s\nall_reduce:\n- ranks: 2\n  segments: [{latency: 10 us, bandwidth: 8 GB/s}]\n"
    "source: made up\n";
const std::string kInstance =
    "cloud: Home\naccelerator: my-gpu\ncount: 2\ninterconnect: my-link\nusd_per_hour: {\"2026-07\": 1.5 USD}\nsource: "
    "bill\n";
const std::string kEngine =
    "host: {step: 1 ms, overlap: none}\nmemory: {fraction: 0.9}\nscheduler: {policy: vllm_v1}\ncalibrated: false\n"
    "calibrated_on: nothing\n";

class OwnCatalogue : public ::testing::Test {
 protected:
  OwnCatalogue() {
    scratch_.write("models/my-model.yaml", kModel);
    scratch_.write("accelerators/my-gpu.yaml", kAccelerator);
    scratch_.write("interconnects/my-link.yaml", kInterconnect);
    scratch_.write("instances/my-box.yaml", kInstance);
    scratch_.write("engines/my-engine.yaml", kEngine);
  }

  Scratch scratch_;
};

TEST_F(OwnCatalogue, ReadsWhatItHolds) {
  const Catalogue catalogue(scratch_.path());
  EXPECT_EQ(catalogue.model("My Model")->head_dim, 16);  // 64 / 4
  EXPECT_EQ(catalogue.accelerator("my-gpu")->memory_visible.value, 24e9);
  EXPECT_EQ(catalogue.interconnect("my-link")->all_reduce.at(0).segments.at(0).bandwidth.value, 8e9);
  EXPECT_EQ(catalogue.instance("ml.my-box")->price()->usd_per_hour, 1.5);
  EXPECT_EQ(catalogue.engine("my-engine")->profile->scheduler_policy, "vllm_v1");
  EXPECT_EQ(catalogue.list("models").size(), 1U);
}

TEST_F(OwnCatalogue, NamesEntriesThatCannotBeRead) {
  scratch_.write("models/broken.yaml", "layers: [");
  const Catalogue catalogue(scratch_.path());
  EXPECT_EQ(catalogue.names("models"), (std::vector<std::string>{"broken", "my-model"}));
  EXPECT_THROW(static_cast<void>(catalogue.list("models")), InputError) << "it reads them all";
}

TEST_F(OwnCatalogue, ReadsWhatCalibrationLeftBesideTheRoofline) {
  std::string text = kAccelerator;
  const std::string plain = "  gemm: {compute: 0.8, memory: 0.8, p: 2, t0: 5 us";
  text.insert(text.find(plain) + plain.size(), ", residual: {x: [0, 4], y: [20], log_ratio: [0.1, -0.05]}");
  scratch_.write("accelerators/my-gpu.yaml", text);
  const auto accelerator = Catalogue(scratch_.path()).accelerator("my-gpu");
  const auto& gemm = accelerator->coefficients[static_cast<std::size_t>(model::OpClass::gemm)];
  ASSERT_NE(gemm.residual, nullptr);
  EXPECT_EQ(gemm.residual->log_ratio, (std::vector<double>{0.1, -0.05}));
}

// 1 ms per step is inherited; policy and reservation are its own. Keys are replaced as a whole, maps are merged.
TEST_F(OwnCatalogue, AnEngineMayBeLikeAnother) {
  scratch_.write(
      "engines/my-engine-2.yaml",
      "like: my-engine\nscheduler: {reserve_full_sequence: true}\nhost: {sequence: 2 us}\ncalibrated_on: v1\n");
  const auto engine = Catalogue(scratch_.path()).engine("my-engine-2");
  EXPECT_EQ(engine->profile->id, "my-engine-2");
  EXPECT_EQ(engine->profile->times_from(), "from my-engine");
  EXPECT_EQ(engine->profile->host_step.count(), 1e-3);
  EXPECT_EQ(engine->profile->host_sequence.count(), 2e-6);
  EXPECT_EQ(engine->profile->calibrated_on, "v1");
  EXPECT_EQ(engine->scheduler->at("policy").as_string(), "vllm_v1");
  EXPECT_TRUE(engine->scheduler->at("reserve_full_sequence").as_bool());
}

// The third version inherits from the second what that states, and the rest from the first, whose times both use.
TEST_F(OwnCatalogue, AnEngineMayBeLikeOneThatIsLikeAnother) {
  scratch_.write("engines/my-engine-2.yaml", "like: my-engine\nhost: {sequence: 2 us, op: 3 us}\ncalibrated_on: v1\n");
  scratch_.write("engines/my-engine-3.yaml", "like: my-engine-2\nhost: {sequence: 4 us}\ncalibrated_on: v1\n");
  const auto engine = Catalogue(scratch_.path()).engine("my-engine-3");
  EXPECT_EQ(engine->profile->times_from(), "from my-engine");
  EXPECT_EQ(engine->profile->host_step.count(), 1e-3);
  EXPECT_EQ(engine->profile->host_op.count(), 3e-6);
  EXPECT_EQ(engine->profile->host_sequence.count(), 4e-6);
}

TEST_F(OwnCatalogue, WhatAnEngineIsLikeMustBeWhole) {
  const auto problem = [&](const std::string& like) {
    scratch_.write("engines/my-engine-3.yaml", "like: " + like + "\ncalibrated_on: v1\n");
    try {
      (void)Catalogue(scratch_.path()).engine("my-engine-3");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(problem("no-engine"), HasSubstr("my-engine-3.yaml:1:7: expected the identifier of another engine"));
  EXPECT_THAT(problem("My Engine"), HasSubstr("expected the identifier"));
  EXPECT_THAT(problem("my-engine-3"), HasSubstr("my-engine-3 is like itself"));
  // Its own values keep their places beside those of the other file.
  EXPECT_THAT(problem("my-engine\nhost: {sequence: x}"), HasSubstr("my-engine-3.yaml:2:18: "));
  EXPECT_THAT(problem("my-engine\nhots: {}"), HasSubstr("my-engine-3.yaml:2:"));
}

// A request that passes a front end does not pass the engine's own server: `front_end` replaces that time, whether it
// is longer or shorter. Values that the entry does not state are those of the engine that this one is like.
TEST_F(OwnCatalogue, AFrontEndTakesThePlaceOfTheEnginesOwnServer) {
  scratch_.write("engines/my-engine-4.yaml",
                 "like: my-engine\ncalibrated_on: v1\nhost: {front_end: 5 ms}\n"
                 "front_ends: {dynamo: {front_end: 8 ms, step: 2 ms, source: s}}\n");
  const auto times = [&](const std::string& stated) {
    scratch_.write("engines/my-engine-5.yaml",
                   "like: my-engine-4\ncalibrated_on: v1\ncalibrated_for: {groups: []}\n"
                   "front_ends: {dynamo: {" +
                       stated + "}}\n");
    const auto profile = Catalogue(scratch_.path()).engine("my-engine-5")->profile;
    EXPECT_DOUBLE_EQ(profile->arrival_time(model::FrontEnd::none).delay.count(), 5e-3);
    const model::FrontEndTime time = profile->arrival_time(model::FrontEnd::dynamo);
    return std::pair(std::round(1e6 * time.delay.count()), std::round(1e6 * time.step.count()));
  };
  EXPECT_EQ(times("front_end: 3 ms"), std::pair(3e3, 2e3));
  EXPECT_EQ(times("front_end: 9 ms, step: 0 ms"), std::pair(9e3, 0.0));
  EXPECT_EQ(times("intake: 1 ms"), std::pair(8e3, 2e3));
  EXPECT_THAT(problem_of([&] { (void)times("budget_beyond: many"); }), HasSubstr("my-engine-5.yaml:4:38: "));
}

TEST_F(OwnCatalogue, ADirectHitReadsNoOtherFile) {
  scratch_.write("models/broken.yaml", "aliases: [\n\xff not YAML");
  const Catalogue catalogue(scratch_.path());
  EXPECT_EQ(catalogue.model("my-model")->layers, 2);
  EXPECT_EQ(catalogue.model("somebody/My-Model-hf")->layers, 2);
  EXPECT_EQ(catalogue.model("My Model")->layers, 2);
  EXPECT_THAT(problem_of([&] { (void)catalogue.model("broken"); }),
              HasSubstr("broken.yaml:2:1: byte 0xff is not text"));
}

TEST_F(OwnCatalogue, ASecondLookupReadsNothing) {
  const Catalogue catalogue(scratch_.path());
  const auto first = catalogue.model("my-model");
  scratch_.write("models/my-model.yaml", "broken: [");
  EXPECT_EQ(catalogue.model("my-model"), first);
}

TEST_F(OwnCatalogue, AliasesStandOnOneLineOrOnSeveral) {
  scratch_.write("models/one.yaml", "aliases: [First One, \"second, one\"]\n" + kModel);
  scratch_.write("models/two.yaml", "aliases:\n  - Third One\n  - fourth\n" + kModel);
  scratch_.write("models/three.yaml", "aliases: [fifth,\n  sixth]\n" + kModel);
  const Catalogue catalogue(scratch_.path());
  EXPECT_EQ(catalogue.model("first-one")->id, "one");
  EXPECT_EQ(catalogue.model("Third One")->id, "two");
  EXPECT_EQ(catalogue.model("sixth")->id, "three");
}

TEST_F(OwnCatalogue, IsAFolderOfModels) {
  EXPECT_THAT(problem_of([&] { Catalogue catalogue(scratch_.path("models")); }), HasSubstr("is not a catalogue"));
  EXPECT_THAT(problem_of([&] { Catalogue catalogue("/none"); }), StartsWith("/none: is not a catalogue"));
}

}  // namespace
}  // namespace plimsoll::configs
