// SPDX-License-Identifier: Apache-2.0
// A user's own files that add to or replace shipped ones, accelerators without efficiencies, and hints for model names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "configs/catalogue.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOwnGpu =
    "name: My GPU\nbf16: 500 TFLOP/s\nmemory: 96 GB\nmemory_bandwidth: 3 TB/s\nsource: a datasheet\n";

class Overlay : public ::testing::Test {
 protected:
  Overlay() : catalogue_(PLIMSOLL_SOURCE_DIR "/configs") {}
  std::string listed(std::string_view kind, const std::string& name) const {
    for (const Listing& listing : catalogue_.list(kind))
      if (listing.name == name) return listing.description;
    return "not listed";
  }
  const Scratch scratch_;
  Catalogue catalogue_;
};

TEST_F(Overlay, AddsFilesAndSaysSoInTheList) {
  scratch_.write("accelerators/my-gpu.yaml", kOwnGpu);
  catalogue_.add_overlay(scratch_.path());
  EXPECT_EQ(catalogue_.accelerator("My GPU")->memory_bandwidth.value, 3e12);
  EXPECT_THAT(listed("accelerators", "my-gpu"), HasSubstr("[from " + scratch_.path()));
  EXPECT_THAT(listed("accelerators", "h100-sxm"), Not(HasSubstr("[")));
}

// A file may be written as a study states an accelerator. Files mean the types that they name and no others.
TEST_F(Overlay, FilesTakeTheShortKeysOfStudies) {
  const std::string rest = "memory: 96 GB\nbandwidth: 3 TB/s\nsource: a datasheet\n";
  scratch_.write("accelerators/one.yaml", "peak: 500 TFLOP/s\n" + rest);
  scratch_.write("accelerators/some.yaml", "peak: {fp16: 100 TFLOP/s, int8: 200 TFLOP/s}\n" + rest);
  scratch_.write("accelerators/twice.yaml", "fp16: 1 TFLOP/s\npeak: {fp16: 100 TFLOP/s}\n" + rest);
  catalogue_.add_overlay(scratch_.path());
  const auto one = catalogue_.accelerator("one"), some = catalogue_.accelerator("some");
  EXPECT_EQ(one->memory_bandwidth.value, 3e12);
  EXPECT_EQ(one->fp16.value, 500e12);
  EXPECT_EQ(one->bf16.value, 500e12);
  EXPECT_EQ(some->int8.value, 200e12);
  EXPECT_EQ(some->bf16.value, 0);
  EXPECT_THROW((void)catalogue_.accelerator("twice"), InputError);
}

// A user's T4 with other figures replaces the shipped one, also under its aliases; the rest of the catalogue stays.
TEST_F(Overlay, OverridesWhatShips) {
  scratch_.write("accelerators/t4.yaml", kOwnGpu);
  catalogue_.add_overlay(scratch_.path());
  EXPECT_EQ(catalogue_.accelerator("NVIDIA T4")->bf16.value, 500e12);
  EXPECT_THAT(listed("accelerators", "t4"), HasSubstr("[overridden by " + scratch_.path()));
  EXPECT_EQ(catalogue_.accelerator("l4")->memory_bandwidth.value, 300e9);
}

TEST_F(Overlay, TheLastOneAddedIsTheStrongest) {
  const Scratch& s = scratch_;
  s.write("a/accelerators/t4.yaml", kOwnGpu);
  s.write("b/accelerators/t4.yaml", std::string(kOwnGpu) + "host_link: 9 GB/s\n");
  catalogue_.add_overlay(s.path("a"));
  catalogue_.add_overlay(s.path("b"));
  EXPECT_EQ(catalogue_.accelerator("t4")->host_link.value, 9e9);
  EXPECT_THAT(catalogue_.folders(), ElementsAre(s.path("b"), s.path("a"), PLIMSOLL_SOURCE_DIR "/configs"));
}

TEST_F(Overlay, IsAFolderOfOurKind) {
  EXPECT_THAT(problem_of([&] { catalogue_.add_overlay(scratch_.path()); }),
              AllOf(HasSubstr(scratch_.path()),
                    HasSubstr("is not a catalogue: it has none of the folders models/, accelerators/")));
}

TEST_F(Overlay, FoldersComeFromTheEnvironmentAndTheHome) {
  scratch_.write("data/plimsoll/catalogue/accelerators/my-gpu.yaml", kOwnGpu);
  for (const auto& [name, value] :
       {std::pair("XDG_DATA_HOME", scratch_.path("data")), std::pair("XDG_CONFIG_HOME", scratch_.path("none")),
        std::pair("PLIMSOLL_CATALOGUE", std::string("/x/a:/x/b"))})
    ::setenv(name, value.c_str(), 1);
  EXPECT_THAT(Catalogue::default_overlays(), ElementsAre("/x/a", "/x/b", scratch_.path("data/plimsoll/catalogue")));
  ::unsetenv("PLIMSOLL_CATALOGUE");
  EXPECT_THAT(Catalogue::default_overlays(), ElementsAre(scratch_.path("data/plimsoll/catalogue")));
}

// What `calibrate` writes is read after everything else: it adds names, and replaces none.
TEST_F(Overlay, TheUsersFolderAddsButReplacesNothing) {
  scratch_.write("plimsoll/engines/mine.yaml",
                 "like: vllm-0.16\nhost: {step: 7 ms}\ncalibrated: true\ncalibrated_on: runs\ncalibrated_for: "
                 "{versions: [], groups: []}\n");
  scratch_.write("plimsoll/engines/ideal.yaml", "name: no engine of this form\n");
  scratch_.write("plimsoll/accelerators/my-gpu.yaml", std::string(kOwnGpu) + "aliases: [box, h100-sxm]\n");
  ::setenv("XDG_DATA_HOME", scratch_.path().c_str(), 1);
  const Catalogue all;
  const auto mine = all.engine("mine");
  // The profile has its own step time. The rest comes from vllm-0.16, and through it from vllm-0.12.
  EXPECT_DOUBLE_EQ(mine->profile->host_step.count(), 0.007);
  EXPECT_EQ(mine->profile->front_end.count(), all.engine("vllm-0.12")->profile->front_end.count());
  EXPECT_EQ(mine->scheduler->at("version").as_string(), "0.16");
  EXPECT_EQ(mine->profile->times_from(), "fitted");
  EXPECT_EQ(all.engine("ideal")->profile->calibrated_on, catalogue_.engine("ideal")->profile->calibrated_on);
  EXPECT_EQ(all.accelerator("box")->id, "my-gpu");
  EXPECT_EQ(all.accelerator("h100-sxm")->id, "h100-sxm");
  EXPECT_TRUE(all.ships("engines", "vLLM"));
  EXPECT_FALSE(all.ships("engines", "mine"));
  EXPECT_THAT(all.content_folders(), ::testing::Contains(scratch_.path("plimsoll/engines")));
  EXPECT_THROW((void)catalogue_.engine("mine"), InputError);
}

TEST_F(Overlay, AnEntryWithoutAFileTakesPrecedence) {
  catalogue_.add_entry("accelerators", "h100-sxm", Document::from_text(kOwnGpu, "entry"));
  EXPECT_EQ(catalogue_.accelerator("H100-SXM")->memory_bandwidth.value, 3e12);
  EXPECT_EQ(catalogue_.identifier("accelerators", "h100 sxm"), "h100-sxm");
}

TEST_F(Overlay, EfficienciesHaveDefaultsThatSayWhatTheyAre) {
  scratch_.write("accelerators/my-gpu.yaml", std::string(kOwnGpu) + "calibrated: true\n");
  catalogue_.add_overlay(scratch_.path());
  const auto a = catalogue_.accelerator("my-gpu");
  EXPECT_THAT(a->fit_source, HasSubstr("generic estimates"));
  EXPECT_FALSE(a->calibrated);                             // nothing was fitted, even if the file claims it
  EXPECT_EQ(a->coefficients[0].compute_efficiency, 0.75);  // from estimates.yaml
}

TEST_F(Overlay, AllMissingKeysComeInOneMessage) {
  scratch_.write("accelerators/my-gpu.yaml", "name: My GPU\nmemory: 96 GB\n");
  scratch_.write("models/my-model.yaml", "family: llama\nlayers: 2\nhidden: 64\n");
  scratch_.write("instances/my-box.yaml", "cloud: own\n");
  catalogue_.add_overlay(scratch_.path());
  EXPECT_THAT(problem_of([&] { (void)catalogue_.accelerator("my-gpu"); }),
              HasSubstr("my-gpu.yaml:1:1: missing: 'memory_bandwidth', 'source', a peak, one of fp16, bf16, fp32"));
  EXPECT_THAT(problem_of([&] { (void)catalogue_.model("my-model"); }),
              HasSubstr("missing: 'heads', 'kv_heads', 'intermediate', 'vocab', 'norm', 'activation', 'source'"));
  EXPECT_THAT(problem_of([&] { (void)catalogue_.instance("my-box"); }),
              HasSubstr("missing: 'accelerator', 'count', 'source'"));
}

// The hub name of a fine-tuned model is not an entry, but its base model may be.
TEST_F(Overlay, UnknownModelsAreToldOfTheirConfigAndTheirBase) {
  const auto hint = [&](const std::string& name) { return problem_of([&] { (void)catalogue_.model(name); }); };
  EXPECT_THAT(hint("NousResearch/Hermes-3-Llama-3.1-8B"),
              AllOf(HasSubstr("A config.json is a model too"), HasSubstr("'llama-3.1-8b' has that shape."),
                    Not(HasSubstr("'dtype'"))));
  EXPECT_THAT(hint("NousResearch/Hermes-3-Llama-3.1-8B-FP8"),
              HasSubstr("'llama-3.1-8b' has that shape, and 'dtype' says"));
  EXPECT_THAT(hint("x/Hermes-3-Llama-3.1-8B-AWQ-INT4"), HasSubstr("'llama-3.1-8b' has that shape"));
  EXPECT_THAT(hint("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8-dynamic"), HasSubstr("'llama-3.1-70b' has that shape"));
  EXPECT_THAT(hint("QuantTrio/MiniMax-M2-AWQ"), HasSubstr("'minimax-m2' has that shape"));
  EXPECT_THAT(hint("Qwen/Qwen3-32B-AWQ"),
              AllOf(HasSubstr("'qwen3-32b' has that shape"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(hint("somebody/entirely-new"),
              AllOf(HasSubstr("A config.json is a model too"), Not(HasSubstr("has that shape"))));
}

// Their config.json would be refused, so a similar name would not help.
TEST_F(Overlay, ModelsThatAreNotModelledSayWhatWouldBeWrong) {
  const auto hint = [&](const std::string& name) { return problem_of([&] { (void)catalogue_.model(name); }); };
  for (const char* const name : {"qwen3-next-80b-a3b", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3.5-397B-A17B"})
    EXPECT_THAT(hint(name),
                AllOf(HasSubstr("is not modelled: most layers are linear attention"), Not(HasSubstr("did you mean"))))
        << name;
  EXPECT_THAT(hint("deepseek-ai/DeepSeek-V3.2"), HasSubstr("is not modelled: an indexer"));
  EXPECT_THAT(hint("llama-3.1-7b"), HasSubstr("did you mean"));
}

TEST_F(Overlay, DeepSeeksNamesHaveOneShape) {
  for (const char* const name :
       {"deepseek-ai/DeepSeek-R1", "DeepSeek-R1-0528", "deepseek-ai/DeepSeek-V3.1", "DeepSeek-V3-0324"}) {
    EXPECT_EQ(catalogue_.model(name)->id, "deepseek-v3") << name;
    EXPECT_EQ(catalogue_.model(name)->checkpoint->dtype, model::DType::fp8) << name;
  }
  EXPECT_EQ(catalogue_.model("deepseek-ai/DeepSeek-R1-Distill-Llama-8B")->id, "llama-3.1-8b");
}

}  // namespace
}  // namespace plimsoll::configs
