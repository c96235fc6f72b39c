// SPDX-License-Identifier: Apache-2.0
// The shipped catalogue: every file loads, refers only to existing files, and is found under each of its names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

#include "configs/catalogue.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Catalogue& bundled() {
  static const Catalogue catalogue(PLIMSOLL_SOURCE_DIR "/configs");
  return catalogue;
}

std::vector<std::string> names(std::string_view kind) {
  std::vector<std::string> all;
  for (Listing& listing : bundled().list(kind)) all.push_back(std::move(listing.name));
  return all;
}

TEST(BundledCatalogue, EveryFileLoads) {
  // list() reads each file. Models check their parameter counts, accelerators their coefficients.
  for (const char* kind : {"models", "accelerators", "interconnects", "instances", "engines"}) {
    const std::vector<Listing> listings = bundled().list(kind);
    EXPECT_GE(listings.size(), 9U) << kind;
    for (const Listing& listing : listings) {
      EXPECT_FALSE(listing.description.empty()) << listing.name;
      EXPECT_EQ(canonical_name(listing.name), listing.name) << kind << ": a file's name is in the canonical spelling";
    }
  }
}

TEST(BundledCatalogue, ReferencesLeadSomewhere) {
  for (const std::string& name : names("accelerators")) {
    const auto accelerator = bundled().accelerator(name);
    if (!accelerator->default_interconnect.empty()) {
      EXPECT_NO_THROW((void)bundled().interconnect(accelerator->default_interconnect)) << name;
    }
    EXPECT_FALSE(accelerator->source.empty()) << name;
    EXPECT_FALSE(accelerator->fit_source.empty()) << name;
  }
  for (const std::string& name : names("instances")) {
    const auto instance = bundled().instance(name);
    const auto accelerator = bundled().accelerator(instance->accelerator);
    EXPECT_EQ(accelerator->id, instance->accelerator) << name << ": by its id, not by an alias";
    EXPECT_TRUE(instance->price() || instance->sagemaker) << name;
    if (instance->count == 1) continue;
    const std::string link =
        instance->interconnect.empty() ? accelerator->default_interconnect : instance->interconnect;
    EXPECT_NO_THROW((void)bundled().interconnect(link)) << name;
  }
}

TEST(BundledCatalogue, EveryAliasFindsItsFileAndNoOther) {
  for (const char* kind : {"models", "accelerators", "instances", "engines"}) {
    for (const std::string& name : names(kind)) {
      const std::string file = bundled().root() + "/" + kind + "/" + name + ".yaml";
      const Node root = Document::from_file(file).root();
      std::vector<std::string> spellings = {name, root.at("name").as_string()};
      if (const auto id = root.find("hf_id")) spellings.push_back(id->as_string());
      if (const auto aliases = root.find("aliases"))
        for (const Item& alias : aliases->items()) spellings.push_back(alias.value.as_string());
      if (std::string_view(kind) == "engines") spellings.erase(spellings.begin() + 1);  // a title, not a name
      for (const std::string& spelling : spellings) {
        const std::map<std::string, std::function<std::string()>> find = {
            {"models", [&] { return bundled().model(spelling)->id; }},
            {"accelerators", [&] { return bundled().accelerator(spelling)->id; }},
            {"instances", [&] { return canonical_name(bundled().instance(spelling)->id); }},
            {"engines", [&] { return bundled().engine(spelling)->profile->id; }}};
        EXPECT_EQ(find.at(kind)(), name) << spelling;
      }
    }
  }
}

TEST(BundledCatalogue, NamesMayBeSpeltFreely) {
  const std::pair<const char*, const char*> models[] = {{"Llama-2-7b-hf", "llama-2-7b"},
                                                        {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
                                                        {"LLAMA_2_7B", "llama-2-7b"},
                                                        {"Llama 2 7B", "llama-2-7b"},
                                                        {"Llama 2 70B Chat", "llama-2-70b"},
                                                        {"llama-2-13b-chat-hf", "llama-2-13b"},
                                                        {"Mistral 7B", "mistral-7b-v0.1"},
                                                        {"Mistral 7B Instruct", "mistral-7b-v0.1"},
                                                        {"Mixtral 8x7B", "mixtral-8x7b-v0.1"},
                                                        {"Falcon 40B", "falcon-40b"},
                                                        {"Falcon-40B", "falcon-40b"},
                                                        {"Falcon 180B Chat", "falcon-180b"},
                                                        {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
                                                        {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
                                                        {"google/gemma-2-9b-it", "gemma-2-9b"},
                                                        {"opt13b", "opt-13b"},
                                                        {"opt1.3b", "opt-1.3b"}};
  for (const auto& [spelling, id] : models) EXPECT_EQ(bundled().model(spelling)->id, id) << spelling;
  const std::pair<const char*, const char*> accelerators[] = {{"H100 SXM", "h100-sxm"},
                                                              {"A100-40GB SXM", "a100-sxm-40gb"},
                                                              {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
                                                              {"A10G", "a10g"},
                                                              {"NVIDIA A10G", "a10g"},
                                                              {"Tesla T4", "t4"},
                                                              {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                                              {"NVIDIA H200", "h200-sxm"},
                                                              {"RTX4090", "rtx-4090"}};
  for (const auto& [spelling, id] : accelerators) EXPECT_EQ(bundled().accelerator(spelling)->id, id) << spelling;
  for (const char* spelling : {"p4d.24xlarge", "ml.p4d.24xlarge", "P4D.24XLARGE"})
    EXPECT_EQ(bundled().instance(spelling)->id, "p4d.24xlarge") << spelling;
  EXPECT_EQ(bundled().engine("TGI 1.1")->profile->id, "tgi-1.1");
  EXPECT_EQ(bundled().engine("TensorRT-LLM")->profile->id, "trtllm-1.0");
}

TEST(BundledCatalogue, AnUnknownNameSaysWhereAndWhatIsNear) {
  const Where where{"study.yaml", 2, 8};
  EXPECT_EQ(problem_of([&] { (void)bundled().model("lama-2-7b", where); }),
            "study.yaml:2:8: unknown model 'lama-2-7b', did you mean 'llama-2-7b'? `plimsoll list models` names all " +
                std::to_string(names("models").size()));
  EXPECT_THAT(problem_of([&] { (void)bundled().instance("p4d", where); }), HasSubstr("did you mean 'p4d.24xlarge'?"));
  EXPECT_THAT(problem_of([&] { (void)bundled().accelerator("abacus", where); }),
              StartsWith("study.yaml:2:8: unknown accelerator 'abacus'. "));
  EXPECT_THAT(problem_of([&] { (void)bundled().engine("", where); }), HasSubstr("unknown engine ''"));
  EXPECT_THAT(problem_of([&] { (void)bundled().engine("../engines/ideal", where); }),
              ::testing::AnyOf("no error", HasSubstr("unknown")));
  EXPECT_THAT(problem_of([&] { (void)bundled().model(std::string(10'000, 'x'), where); }), HasSubstr("xxx…'"));
  EXPECT_THAT(problem_of([&] { (void)bundled().model("nowhere/config.json", where); }), HasSubstr("no such file"));
  EXPECT_THAT(problem_of([&] { (void)bundled().instance("this-machine", where); }),
              StartsWith("study.yaml:2:8: this-machine is not"));
}

TEST(BundledCatalogue, ALinkMayBeNamedByItsKind) {
  const auto h100 = bundled().accelerator("h100-sxm"), l4 = bundled().accelerator("l4");
  EXPECT_EQ(bundled().link(*h100, "nvswitch")->id, "nvswitch-h100");
  EXPECT_EQ(bundled().link(*h100, "NVSwitch")->id, "nvswitch-h100");
  EXPECT_EQ(bundled().link(*h100, "")->id, "nvswitch-h100");
  EXPECT_EQ(bundled().link(*h100, "pcie-gen5")->id, "pcie-gen5");
  EXPECT_EQ(bundled().link(*l4, "pcie")->id, "pcie-gen4");
  EXPECT_EQ(bundled().link(*bundled().accelerator("tpu-v5e"), ""), nullptr);
  const Where where{"study.yaml", 4, 60};
  EXPECT_EQ(problem_of([&] { (void)bundled().link(*l4, "nvswitch", where); }),
            "study.yaml:4:60: l4 has no nvswitch of its own but pcie-gen4; `plimsoll list interconnects` names others");
  EXPECT_THAT(problem_of([&] { (void)bundled().link(*l4, "tin cans", where); }),
              HasSubstr("unknown interconnect 'tin cans'"));
}

TEST(BundledCatalogue, HasThePricesOfBothShops) {
  const auto instance = bundled().instance("p4d.24xlarge");
  EXPECT_EQ(instance->price()->date, "2026-07");
  EXPECT_EQ(instance->price("2025-04")->usd_per_hour, 32.7726);
  EXPECT_EQ(instance->sagemaker->usd_per_hour, 37.688);
}

TEST(BundledCatalogue, LargeGpusHaveTheirOwnDefaultsInVllm) {
  const auto engine = bundled().engine("vllm-0.12");
  EXPECT_EQ(engine->scheduler->at("max_running").as_integer(), 256);
  ASSERT_TRUE(engine->larger);
  EXPECT_LE(engine->larger->memory, bundled().accelerator("h100-sxm")->memory.value);
  EXPECT_GT(engine->larger->memory, bundled().accelerator("l40s")->memory.value);
  EXPECT_EQ(engine->larger->scheduler.at("max_running").as_integer(), 1024);
  EXPECT_THAT(engine->larger->except, ::testing::ElementsAre("a100"));
}

// Every version has its own name, and states where its host times come from.
TEST(BundledCatalogue, EnginesHaveTheirVersions) {
  const std::pair<const char*, const char*> engines[] = {
      {"vllm-0.6", "estimated"},         {"vllm-0.8", "from vllm-0.12"},  {"vllm-0.10", "fitted"},
      {"vllm-0.12", "fitted"},           {"vllm-0.16", "from vllm-0.12"}, {"vllm-0.19", "from vllm-0.12"},
      {"sglang-0.4", "from sglang-0.5"}, {"sglang-0.5", "fitted"},        {"trtllm-0.14", "from trtllm-1.0"},
      {"trtllm-1.0", "fitted"},          {"trtllm-1.1", "fitted"},        {"tgi-1.1", "fitted"},
      {"tgi-2", "from tgi-1.1"},         {"tgi-3", "from tgi-1.1"},       {"llama-cpp", "estimated"}};
  for (const auto& [id, from] : engines) {
    const auto engine = bundled().engine(id);
    EXPECT_EQ(engine->profile->id, id);
    EXPECT_EQ(engine->profile->times_from(), from) << id;
  }
  EXPECT_EQ(bundled().engine("vllm-0.16")->profile->host_step, bundled().engine("vllm-0.12")->profile->host_step);
  // The runs of vllm-0.12 do not determine what a launch costs.
  for (const char* id : {"vllm-0.16", "vllm-0.19", "vllm-0.24"})
    EXPECT_EQ(bundled().engine(id)->profile->host_op, bundled().engine("vllm-0.10")->profile->host_op) << id;
}

// scheduler_reserve_full_isl was introduced in version 0.19.
TEST(BundledCatalogue, VllmReservesWholePromptsFromVersion019) {
  for (const char* id : {"vllm-0.8", "vllm-0.10", "vllm-0.12", "vllm-0.16"})
    EXPECT_FALSE(bundled().engine(id)->scheduler->at("reserve_full_sequence").as_bool()) << id;
  EXPECT_TRUE(bundled().engine("vllm-0.19")->scheduler->at("reserve_full_sequence").as_bool());
}

// Asynchronous scheduling is the default from 0.14 on. A profile has the rules of its version.
TEST(BundledCatalogue, StatesTheRulesOfEachVllm) {
  for (const auto& [id, version, ahead] :
       {std::tuple{"vllm-0.8", "0.11", false}, std::tuple{"vllm-0.10", "0.11", false},
        std::tuple{"vllm-0.12", "0.12", false}, std::tuple{"vllm-0.16", "0.16", true},
        std::tuple{"vllm-0.19", "0.19", true}}) {
    const auto engine = bundled().engine(id);
    EXPECT_EQ(engine->scheduler->at("version").as_string(), version);
    EXPECT_EQ(engine->scheduler->at("async_scheduling").as_bool(), ahead);
    EXPECT_EQ(engine->scheduler->at("scheduling").as_string(), "fcfs");
  }
}

}  // namespace
}  // namespace plimsoll::configs
