// SPDX-License-Identifier: Apache-2.0
// The shipped catalogue: figures are plausible, scheduler keys are known, names are unambiguous.
// bundled_catalogue_test.cpp tests that files load and refer to existing files.
#include "configs/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <thread>

#include "sched/policy_config.h"
#include "sched/policy_table.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kRoot = PLIMSOLL_SOURCE_DIR "/configs";
constexpr std::array<std::string_view, 5> kKinds = {"models", "accelerators", "interconnects", "instances", "engines"};

const Catalogue& catalogue() {
  static const Catalogue shipped(kRoot);
  return shipped;
}

std::vector<std::string> ids(std::string_view kind) {
  std::vector<std::string> names;
  for (const Listing& listing : catalogue().list(kind)) names.push_back(listing.name);
  return names;
}

Document file_of(std::string_view kind, const std::string& id) {
  return Document::from_file(kRoot + "/" + std::string(kind) + "/" + id + ".yaml");
}

TEST(ShippedCatalogue, EveryFileNamesItsLicenceAndItsSource) {
  for (const std::string_view kind : kKinds) {
    for (const std::string& id : ids(kind)) {
      std::ifstream stream(kRoot + "/" + std::string(kind) + "/" + id + ".yaml");
      std::string first;
      std::getline(stream, first);
      EXPECT_EQ(first, "# SPDX-License-Identifier: Apache-2.0") << id;
      const char* source = kind == "engines" ? "calibrated_on" : "source";
      EXPECT_GT(file_of(kind, id).root().at(source).as_string().size(), 5U) << id;
    }
  }
}

TEST(ShippedCatalogue, ModelsStateWhatTheirShapesAddUpTo) {
  for (const std::string& id : ids("models")) EXPECT_TRUE(file_of("models", id).root().has("weights_params")) << id;
}

TEST(ShippedCatalogue, InstancesCostWhatMachinesCost) {
  for (const std::string& id : ids("instances")) {
    for (const Price& price : catalogue().instance(id)->on_demand) {
      EXPECT_GT(price.usd_per_hour, 0.1) << id;
      EXPECT_LT(price.usd_per_hour, 500) << id;
    }
  }
}

TEST(ShippedCatalogue, AcceleratorsAreWhatADatasheetCanSay) {
  for (const std::string& id : ids("accelerators")) {
    const auto a = catalogue().accelerator(id);
    // GB and GiB differ by 7 %: a larger difference between nominal and visible memory is a mistake.
    EXPECT_NEAR(a->memory_visible.value / a->memory.value, 1, 0.1) << id;
    EXPECT_GT(std::max({a->fp16.value, a->bf16.value, a->fp32.value}), 1e11) << id;
    EXPECT_GT(a->memory_bandwidth.value, 1e10) << id;
    EXPECT_LT(a->memory_bandwidth.value, 2e13) << id;
  }
}

TEST(ShippedCatalogue, LinksGetSlowerWithMoreRanks) {
  for (const std::string& id : ids("interconnects")) {
    const auto link = catalogue().interconnect(id);
    const Bytes small(8192), large(64e6);
    EXPECT_LE(all_reduce_time(*link, small, 2).count(), all_reduce_time(*link, small, 8).count()) << id;
    EXPECT_LE(all_reduce_time(*link, small, 8).count(), all_reduce_time(*link, large, 8).count()) << id;
  }
}

// The keys of `scheduler` that the documentation lists.
void expect_scheduler_keys(const Node& scheduler, const std::string& id) {
  static constexpr std::array<std::string_view, 36> kKeys = {"policy",
                                                             "variant",
                                                             "max_running",
                                                             "step_token_budget",
                                                             "prefill_token_budget",
                                                             "forward_token_budget",
                                                             "kv_token_budget",
                                                             "kv_blocks",
                                                             "block_size",
                                                             "mem_fraction",
                                                             "watermark",
                                                             "swap_space",
                                                             "reserve",
                                                             "batch_size",
                                                             "max_batch_delay",
                                                             "delay_origin",
                                                             "delay_factor",
                                                             "served_ratio",
                                                             "force_after",
                                                             "chunked",
                                                             "long_prefill_threshold",
                                                             "reserve_full_sequence",
                                                             "async_scheduling",
                                                             "scheduling",
                                                             "version",
                                                             "preemption",
                                                             "capacity_policy",
                                                             "conservativeness",
                                                             "prefix_caching",
                                                             "slot_prompt_similarity",
                                                             "queue_limit",
                                                             "max_concurrent",
                                                             "max_input",
                                                             "max_total",
                                                             "free_memory_fraction",
                                                             "tp"};
  EXPECT_NO_THROW(scheduler.require_known_keys(kKeys)) << id;
  if (const auto policy = scheduler.find("policy")) {
    EXPECT_TRUE(sched::policy_from_name(policy->as_string())) << id;
  }
  if (const auto size = scheduler.find("block_size")) {
    EXPECT_NO_THROW((void)size->as_integer(1, 1024)) << id;
  }
  for (const char* key : {"max_running", "step_token_budget", "prefill_token_budget", "max_concurrent"})
    if (const auto value = scheduler.find(key)) {
      EXPECT_NO_THROW((void)value->as_integer(1, 1'000'000)) << id << " " << key;
    }
}

TEST(ShippedCatalogue, EnginesScheduleByKnownKeys) {
  for (const std::string& id : ids("engines")) {
    const auto engine = catalogue().engine(id);
    if (engine->scheduler) expect_scheduler_keys(*engine->scheduler, id);
    if (engine->larger) {
      expect_scheduler_keys(engine->larger->scheduler, id);
      EXPECT_GT(engine->larger->memory, 1e9) << id;
    }
  }
}

TEST(ShippedCatalogue, NoAliasMeansTwoThings) {
  for (const std::string_view kind : kKinds) {
    std::map<std::string, std::string> owners;
    for (const std::string& id : ids(kind)) owners[id] = id;
    for (const std::string& id : ids(kind)) {
      const auto aliases = file_of(kind, id).root().find("aliases");
      if (!aliases) continue;
      for (const Item& item : aliases->items()) {
        const auto [owner, is_new] = owners.emplace(canonical_name(item.value.as_string()), id);
        EXPECT_TRUE(is_new || owner->second == id) << owner->first << " is " << owner->second << " and " << id;
      }
    }
  }
}

// A name of another version changes the scheduler version of the profile, so vLLM must decide alike in both.
// docs/policies.md lists the versions at which its decisions change.
TEST(ShippedCatalogue, VersionsOfOneProfileDecideAlike) {
  const auto rules = [](int minor) {
    return std::array{minor <= 11, minor >= 14, minor >= 19, sched::reuses_partial_blocks_first(minor), minor >= 31};
  };
  const auto minor_of = [](const std::string& version) { return std::stoi(version.substr(version.find("0.") + 2)); };
  for (const std::string& id : ids("engines")) {
    const auto engine = catalogue().engine(id);
    const auto version = engine->scheduler ? engine->scheduler->find("version") : std::nullopt;
    if (!version) continue;
    std::vector<std::string> names{id};
    if (const auto aliases = file_of("engines", id).root().find("aliases"))
      for (const Item& item : aliases->items()) names.push_back(item.value.as_string());
    for (const std::string& name : names) {
      if (!name.starts_with("vllm-0.")) continue;
      EXPECT_EQ(rules(minor_of(name)), rules(minor_of(version->as_string()))) << name << " in " << id;
    }
  }
}

TEST(ShippedCatalogue, FindsNamesAsPeopleSpellThem) {
  const std::pair<const char*, const char*> models[] = {
      {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
      {"llama_3_8b", "llama-3-8b"},
      {"Llama 3.1 8B", "llama-3.1-8b"},
      {"meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b-v0.1"},
      {"tiiuae/falcon-40b-instruct", "falcon-40b"},
      {"Falcon 7B", "falcon-7b"},
      {"GPT-J 6B", "gpt-j-6b"},
      {"EleutherAI/gpt-j-6b", "gpt-j-6b"},
      {"OPT 1.3B", "opt-1.3b"},
      {"OPT 13B", "opt-13b"},
      {"facebook/opt-6.7b", "opt-6.7b"},
  };
  const std::pair<const char*, const char*> accelerators[] = {
      {"A100 SXM4 40GB", "a100-sxm-40gb"},
      {"H100 SXM5", "h100-sxm"},
      {"H200 SXM", "h200-sxm"},
      {"L40S", "l40s"},
      {"MI300X", "mi300x"},
      {"Inferentia 2", "inferentia2"},
  };
  for (const auto& [spelling, id] : models)
    EXPECT_EQ(problem_of([&] { EXPECT_EQ(catalogue().model(spelling)->id, id) << spelling; }), "no error");
  for (const auto& [spelling, id] : accelerators)
    EXPECT_EQ(problem_of([&] { EXPECT_EQ(catalogue().accelerator(spelling)->id, id) << spelling; }), "no error");
  EXPECT_EQ(catalogue().instance("Standard_ND96isr_H100_v5")->count, 8);
  EXPECT_EQ(catalogue().instance("ml.P4D.24XLARGE")->id, "p4d.24xlarge");
}

TEST(ShippedCatalogue, UnknownNamesSuggestNearOnes) {
  const Where where{"study.yaml", 3, 8};
  EXPECT_THAT(problem_of([&] { (void)catalogue().accelerator("h100-sxn", where); }),
              HasSubstr("did you mean 'h100-sxm'?"));
  EXPECT_THAT(problem_of([&] { (void)catalogue().instance("ml.p4d.24xlrge", where); }),
              HasSubstr("did you mean 'p4d.24xlarge'?"));
  EXPECT_THAT(problem_of([&] { (void)catalogue().engine("vlm-0.6", where); }), HasSubstr("did you mean 'vllm-0.6'?"));
  EXPECT_THAT(problem_of([&] { (void)catalogue().engine("vlm", where); }), HasSubstr("did you mean 'vllm'?"));
  EXPECT_THAT(problem_of([&] { (void)catalogue().interconnect("nvswich-a100", where); }),
              HasSubstr("'nvswitch-a100'?"));
  EXPECT_THAT(problem_of([&] { (void)catalogue().model("quite something else", where); }),
              StartsWith("study.yaml:3:8: unknown model 'quite something else'. `plimsoll list models`"));
  for (const char* odd : {"", "ml.", "..", "../models/llama-2-7b", ".", "-", "\xff", "a\nb"})
    EXPECT_THAT(problem_of([&] { (void)catalogue().instance(odd, where); }), HasSubstr("unknown instance")) << odd;
  EXPECT_THAT(problem_of([&] { (void)catalogue().model(std::string(100'000, 'x'), where); }),
              HasSubstr("unknown model"));
  EXPECT_FALSE(catalogue().has_instance("p9.metal"));
  EXPECT_TRUE(catalogue().has_instance("ml.p4d.24xlarge"));
}

TEST(ShippedCatalogue, ManyThreadsMayAsk) {
  const Catalogue fresh(kRoot);
  std::vector<std::shared_ptr<const model::LlmShape>> found(8);
  {
    std::vector<std::jthread> threads;
    for (auto& slot : found) threads.emplace_back([&] { slot = fresh.model("Llama 2 7B"); });
  }
  for (const auto& shape : found) EXPECT_EQ(shape, found.front());  // the same object
}

TEST(Instance, PriceIsTheLatestNotAfterTheDate) {
  Instance instance;
  instance.on_demand = {{"2025-04", 32.77}, {"2026-07", 21.96}};
  EXPECT_EQ(instance.price()->usd_per_hour, 21.96);
  EXPECT_EQ(instance.price("2025-04")->usd_per_hour, 32.77);
  EXPECT_EQ(instance.price("2026-06")->usd_per_hour, 32.77);
  EXPECT_EQ(instance.price("2026-07")->usd_per_hour, 21.96);
  EXPECT_EQ(instance.price("2024-01")->usd_per_hour, 32.77);  // all prices are newer, so the earliest is used
  EXPECT_FALSE(Instance{}.price().has_value());
}

}  // namespace
}  // namespace plimsoll::configs
