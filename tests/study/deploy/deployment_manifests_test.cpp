// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/deployment_manifests.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "study/deploy/products.h"
#include "study/deploy/yaml_text.h"
#include "study/run/point_result.h"
#include "study/run/simulate_point.h"
#include "tests/study/study_file.h"

namespace plimsoll::study::deploy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLoad =
    "workload:\n"
    "  load: {poisson: {rate: 3 /s}}\n"
    "  lengths: {input: {lognormal: {mean: 400, cv: 1, max: 3000}}, output: {geometric: {mean: 60, max: 400}}}\n"
    "  requests: 60\n"
    "  prefix: {groups: 4, tokens: 64}\n";

class ManifestsTest : public StudyFolder {
 protected:
  std::map<std::string, ManifestFile> files_of(const std::string& yaml, const std::string& schemas = {}) {
    const Study study = read(yaml);
    std::map<std::string, ManifestFile> files;
    const auto root = configs::Document::from_text(study.point_file(0).yaml, study.file()).root();
    for (ManifestFile& made : manifest_files(study.point(0), root, "a deployment", schemas))
      files.emplace(made.product, std::move(made));
    return files;
  }
  // Writes one product's manifest and returns its path.
  std::string written(const std::string& yaml, const std::string& product) {
    const ManifestFile made = files_of(yaml).at(product);
    EXPECT_EQ(made.refused, "") << product << " of\n" << yaml;
    return write(made.name, made.text);
  }
  // Reads a manifest back and puts it under the load.
  Study back(const std::string& file, const std::string& load = kLoad) {
    configs::Document document = read_deployment(file, shipped_catalogue());
    const auto loaded = configs::Document::from_text(load, "load").root();
    for (const configs::Item& item : loaded.items()) document.set(item.key, item.value);
    return {document, file, {}, shipped_catalogue()};
  }
  static std::string figures_of(const Study& study) {
    const FinishedPoint point = simulate_point(resolve_point(study, 0));
    EXPECT_EQ(point.result.infeasible, "");
    EXPECT_TRUE(point.result.metrics.has_value());
    return points_csv({}, {point.result});
  }
  void expect_round_trip(const std::string& study, const std::string& product) {
    SCOPED_TRACE(product + " of\n" + study);
    const std::string file = written(study + kLoad, product);
    EXPECT_EQ(figures_of(back(file)), figures_of(read(study + kLoad)));
  }
};

constexpr const char* kVllm = "model: llama-3.1-8b\nhardware: p5.48xlarge\nengine: vllm-0.12\n";
constexpr const char* kSglang = "model: qwen3-32b\nhardware: 8xh200\nengine: sglang-0.5\n";
constexpr const char* kTwoPools =
    "model: llama-3.1-8b\nhardware: p5.48xlarge\nengine: vllm-0.12\n"
    "deployment:\n"
    "  pools:\n"
    "    prefill: {replicas: 2, tp: 1, router: scored, scheduler: {step_token_budget: 16384}}\n"
    "    decode: {replicas: 3, tp: 2, router: {policy: scored, prefix: 0, kv: 3}}\n"
    "  transfer: {bandwidth: 45 GB/s, launch: 0.7 ms, hold: 300 s}\n"
    "  local_prefill: {uncached: 256}\n";

// A point that is read back from a manifest simulates to the same bytes: every setting is a field of the product, or is
// carried beside it.
TEST_F(ManifestsTest, OnePoolOfVllmComesBackFromEveryProduct) {
  const std::map<std::string, std::vector<std::string>> routers = {
      {"Docker Compose",
       {"least_outstanding", "round_robin", "random", "power_of_two", "{policy: vllm_dp, clients: 2}"}},
      {"llm-d",
       {"least_outstanding", "random", "scored", "{policy: scored, prefix: 0, queue: 0, kv: 0, active: 1}",
        "{policy: scored, prefix: 3, queue: 2.5, no_hit_lru: 1, stale: 20 ms, match_blocks: 64, known_blocks: 1000}"}},
      {"Dynamo", {"round_robin", "random", "dynamo", "{policy: dynamo, overlap: 0.5, temperature: 0.3}"}},
      {"production stack", {"round_robin", "session", "prefix_trie"}}};
  for (const auto& [product, rules] : routers)
    for (const std::string& router : rules)
      expect_round_trip(kVllm + fmt::format("deployment: {{tp: 2, replicas: 3, router: {}}}\n", router), product);
}

TEST_F(ManifestsTest, SchedulerSettingsComeBack) {
  constexpr const char* kProducts[] = {"Docker Compose", "llm-d", "Dynamo", "production stack"};
  const std::vector<std::string> settings = {"scheduler: {max_running: 7, step_token_budget: 512, block_size: 32}",
                                             "scheduler: {prefix_caching: false, long_prefill_threshold: 256}",
                                             "scheduler: {chunked: false, mem_fraction: 0.85}",
                                             "scheduler: {kv_blocks: 900, max_total: 4000}",
                                             "scheduler: {async_scheduling: true, scheduling: priority}",
                                             "dtype: fp8\nkv_dtype: fp8",
                                             "dtype: fp16\nengine_graphs: vllm",
                                             "engine_graphs: [1, 2, 4, 8, 64]"};
  std::size_t i = 0;
  for (const std::string& setting : settings)
    for (const char* const product : kProducts) {
      const std::string engine = i++ % 2 == 0 ? "vllm-0.16" : "vllm-0.19";
      expect_round_trip("model: llama-3.1-8b\nhardware: g6e.12xlarge\nengine: " + engine +
                            "\ndeployment: {tp: 2, replicas: 2, router: round_robin}\n" + setting + "\n",
                        std::string_view(product) == "llm-d" ? "Dynamo" : product);
    }
}

TEST_F(ManifestsTest, OnePoolOfSglangComesBack) {
  for (const char* const scheduler :
       {"{}", "{max_running: 12, conservativeness: 0.7}", "{chunked: false}",
        "{step_token_budget: 2048, block_size: 16}", "{prefix_caching: false, queue_limit: 50}",
        "{prefill_token_budget: 4096}", "{kv_token_budget: 40000}", "{scheduler_recv_interval: 30}"})
    for (const char* const router : {"least_outstanding", "round_robin"})
      expect_round_trip(std::string(kSglang) + "deployment: {tp: 4, replicas: 2, router: " + router +
                            "}\nscheduler: " + scheduler + "\n",
                        "Docker Compose");
}

TEST_F(ManifestsTest, TwoPoolsComeBack) {
  expect_round_trip(kTwoPools, "llm-d");
  const std::string pools =
      "deployment:\n  pools:\n    prefill: {replicas: 2, tp: 2, router: ROUTER, hardware: 8xh200}\n"
      "    decode: {replicas: 3, tp: 4, router: ROUTER, instances: 2}\n  transfer: {hop: 2 ms, bandwidth: 30 GB/s}\n";
  const auto with = [&](const std::string& engine, const std::string& router) {
    std::string text = "model: qwen3-32b\nhardware: p5.48xlarge\nengine: " + engine + "\n" + pools;
    for (std::size_t at = text.find("ROUTER"); at != std::string::npos; at = text.find("ROUTER"))
      text.replace(at, 6, router);
    return text;
  };
  for (const char* const engine : {"vllm-0.12", "vllm-0.16", "vllm-0.19"}) {
    expect_round_trip(with(engine, "round_robin"), "Dynamo");
    expect_round_trip(with(engine, "round_robin"), "production stack");
    expect_round_trip(with(engine, "least_outstanding"), "llm-d");
    expect_round_trip(with(engine, "dynamo"), "Dynamo");
  }
}

// "local_prefill: {uncached: N}" prefills N tokens locally; the product's decider prefills fewer than its threshold
// locally. A threshold of 0 would turn the prefill servers off.
TEST_F(ManifestsTest, TheDeciderStatesItsThresholdAndTheProducerItsBlocks) {
  const std::string text = files_of(std::string(kTwoPools) + kLoad).at("llm-d").text;
  for (const char* const line :
       {"nonCachedTokens: 257", "autoTune: false", "blockSizeTokens: 16", "type: prefix-based-pd-decider",
        "prefill: prefix-based-pd-decider", "type: prefill-filter", "type: decode-filter"})
    EXPECT_THAT(text, HasSubstr(line));
  const std::string never =
      files_of(std::string(kTwoPools).substr(0, std::string(kTwoPools).find("  local_prefill")) + kLoad)
          .at("llm-d")
          .text;
  EXPECT_THAT(never, HasSubstr("type: always-disagg-pd-decider"));
}

// The names and types that each product's own documentation gives, as far as manifests need them.
struct FieldCase {
  const char* product;
  const char* kind;  // of the object; empty: the only one
  const char* path;
  const char* type;
};
constexpr FieldCase kFields[] = {
    {"llm-d", "InferencePool", "spec/targetPorts/0/number", "integer"},
    {"llm-d", "InferencePool", "spec/selector/matchLabels/app", "string"},
    {"llm-d", "InferencePool", "spec/endpointPickerRef/port/number", "integer"},
    {"llm-d", "InferencePool", "spec/endpointPickerRef/name", "string"},
    {"llm-d", "Deployment", "spec/replicas", "integer"},
    {"llm-d", "Deployment", "spec/selector/matchLabels", "object"},
    {"llm-d", "Deployment", "spec/template/spec/containers/0/args", "array"},
    {"llm-d", "Deployment", "spec/template/spec/containers/0/image", "string"},
    {"llm-d", "Deployment", "spec/template/spec/containers/0/resources/limits/rdma~1ib", "string"},
    {"llm-d", "Deployment", "spec/template/spec/volumes/0/emptyDir/medium", "string"},
    {"llm-d", "Deployment", "spec/template/spec/containers/0/startupProbe/httpGet/port", "integer"},
    {"llm-d", "ConfigMap", "data/epp-config.yaml", "string"},
    {"llm-d", "Service", "spec/ports/0/port", "integer"},
    {"llm-d", "Role", "rules/1/apiGroups/0", "string"},
    {"llm-d", "RoleBinding", "roleRef/name", "string"},
    {"llm-d", "HTTPRoute", "spec/rules/0/backendRefs/0/kind", "string"},
    {"Dynamo", "", "spec/services/Frontend/componentType", "string"},
    {"Dynamo", "", "spec/services/Frontend/envs/0/value", "string"},
    {"Dynamo", "", "spec/services/PrefillWorker/subComponentType", "string"},
    {"Dynamo", "", "spec/services/DecodeWorker/replicas", "integer"},
    {"Dynamo", "", "spec/services/DecodeWorker/resources/limits/gpu", "string"},
    {"Dynamo", "", "spec/services/DecodeWorker/sharedMemory/size", "string"},
    {"Dynamo", "", "spec/services/DecodeWorker/extraPodSpec/mainContainer/image", "string"},
    {"Dynamo", "", "spec/services/DecodeWorker/extraPodSpec/mainContainer/command", "array"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/name", "string"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/repository", "string"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/tag", "string"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/modelURL", "string"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/replicaCount", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/requestGPU", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/requestCPU", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/requestMemory", "string"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/vllmConfig/tensorParallelSize", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/vllmConfig/maxModelLen", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/vllmConfig/maxNumSeqs", "integer"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/vllmConfig/enablePrefixCaching", "boolean"},
    {"production stack", "", "servingEngineSpec/modelSpec/0/vllmConfig/extraArgs/0", "string"},
    {"production stack", "", "routerSpec/routingLogic", "string"},
    {"production stack", "", "routerSpec/extraArgs/0", "string"},
};

Tree type_schema(const std::string& type) { return {{"type", type}}; }

TEST_F(ManifestsTest, EachProductGetsTheFieldsThatItNeeds) {
  const std::string pools =
      "deployment:\n  pools:\n    prefill: {replicas: 2, tp: 1, router: ROUTER}\n"
      "    decode: {replicas: 3, tp: 2, router: ROUTER}\n";
  for (const FieldCase& field : kFields) {
    std::string text = std::string(kVllm) + pools + kLoad;
    for (std::size_t at = text.find("ROUTER"); at != std::string::npos; at = text.find("ROUTER"))
      text.replace(at, 6, std::string_view(field.product) == "llm-d" ? "scored" : "round_robin");
    const Study study = read(text);
    const PointSpec spec = study.point(0);
    const Served served = served_of(spec, configs::Document::from_text(text, "study").root(), "");
    const Written made = product_named(field.product).write(served);
    ASSERT_EQ(made.refused, "");
    bool found = false;
    for (const Tree& object : made.objects) {
      if (*field.kind != 0 && object.value("kind", "") != field.kind) continue;
      const Tree::json_pointer pointer(std::string("/") + field.path);
      if (!object.contains(pointer)) continue;
      found = true;
      EXPECT_EQ(schema_violation(object.at(pointer), type_schema(field.type)), "")
          << field.product << ' ' << field.path;
    }
    EXPECT_TRUE(found) << field.product << ' ' << field.kind << ' ' << field.path;
  }
}

TEST_F(ManifestsTest, ComposeStatesGpusAndHealth) {
  const std::string text =
      files_of(std::string(kVllm) + "deployment: {tp: 2, replicas: 2}\n" + kLoad).at("Docker Compose").text;
  for (const char* const line : {"image: vllm/vllm-openai:v0.12.0", "driver: nvidia", "healthcheck:", "least_conn;",
                                 "condition: service_healthy", "- \"3\"", "shm_size: \"16gb\""})
    EXPECT_THAT(text, HasSubstr(line));
}

// A deployment that a product cannot run is refused with the product's name and the reason; the other products' files
// are written.
TEST_F(ManifestsTest, WhatAProductCannotDoIsRefusedByName) {
  struct Case {
    std::string study, product, reason, other;  // other: a product that still gets its file; empty: none
  };
  const std::string vllm = kVllm, two = "deployment: {tp: 2, replicas: 2, router: ";
  const Case cases[] = {
      {vllm + two + "round_robin}\n", "llm-d", "has no router round_robin", "production stack"},
      {vllm + two + "least_outstanding}\n", "Dynamo", "Dynamo 0.8.1 has no router least_outstanding", "llm-d"},
      {vllm + two + "least_outstanding}\n", "production stack", "has no router least_outstanding", "Docker Compose"},
      {vllm + two + "kv_aware}\n", "production stack", "LMCache", ""},
      {vllm + "deployment: {tp: 8, replicas: 2}\n", "Docker Compose", "the deployment needs 2 instances", "llm-d"},
      {vllm + "deployment: {tp: 2, pp: 2, router: round_robin}\nscheduler: {async_scheduling: true}\n",
       "production stack", "vLLM 0.12.0 refuses async_scheduling with pipeline stages", ""},
      {vllm + "scheduler: {watermark: 0.01}\n", "llm-d", "vLLM has no option for scheduler.watermark", ""},
      {vllm + "scheduler: {version: \"0.19\"}\n", "llm-d", "the engine's image has version 0.12.0", ""},
      {vllm + "scheduler: {block_size: 48}\n", "llm-d", "no blocks of 48 tokens", ""},
      {vllm + "dtype: int4\n", "llm-d", "need a checkpoint of that type", ""},
      {"model: llama-3.1-8b\nhardware: h100\nengine: vllm-0.24\n", "Dynamo", "no release is known", "llm-d"},
      {"model: llama-3.1-8b\nhardware: h100\nengine: ideal\n", "llm-d", "engine ideal is not a product", ""},
      {"model: llama-3.1-8b\nhardware: h100\nengine: tgi-3\n", "Docker Compose", "vLLM from 0.10 on and SGLang", ""},
      {kSglang, "production stack", "its chart starts vLLM", "Docker Compose"},
      {kTwoPools, "Docker Compose", "the pools run on separate instances", "llm-d"},
      {kTwoPools, "Dynamo", "has no router scored", "llm-d"},
      {std::string(kVllm) + "deployment: {pools: {prefill: {}, decode: {}}, transfer: {mode: push}}\n", "llm-d",
       "NixlConnector always pulls", ""},
      {std::string(kVllm) + "deployment: {pools: {prefill: {router: round_robin}, decode: {router: round_robin}}, "
                            "local_prefill: {policy: "
                            "isl}}\n",
       "Dynamo", "no option for local prefills", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.study);
    const auto files = files_of(c.study + kLoad);
    EXPECT_THAT(files.at(c.product).refused, HasSubstr(c.reason));
    EXPECT_THAT(files.at(c.product).name, HasSubstr(".refused.txt"));
    if (!c.other.empty()) {
      EXPECT_EQ(files.at(c.other).refused, "");
    }
  }
}

// A user's change in a product's field is read back.
TEST_F(ManifestsTest, AnEditedFieldIsASetting) {
  const std::string file = written(std::string(kVllm) + "deployment: {tp: 2, replicas: 2}\n" + kLoad, "llm-d");
  std::string text = read_text(file);
  const std::size_t at = text.find("--max-num-seqs\n");
  text.replace(text.find("\"1024\"", at), 6, "\"96\"");
  EXPECT_EQ(back(write("edited.yaml", text)).point(0).policy.max_running, 96);
  const std::size_t replicas = text.find("replicas: 2");
  text.replace(replicas, 11, "replicas: 5");
  EXPECT_EQ(back(write("edited.yaml", text)).point(0).deployment.replicas, 5);
}

TEST_F(ManifestsTest, WhatCannotBeReadIsRefusedWithItsLine) {
  const std::string good =
      read_text(written(std::string(kVllm) + "deployment: {tp: 2, replicas: 2}\n" + kLoad, "llm-d"));
  struct Case {
    std::string from, to, reason;
  };
  const Case cases[] = {
      {"            - --block-size\n", "            - --enable-lora\n            - --block-size\n",
       "option '--enable-lora' has no equivalent in a study"},
      {"vllm-openai:v0.12.0", "vllm-openai:v0.16.0", "found image"},
      {"nvidia.com/gpu: \"2\"", "nvidia.com/gpu: \"4\"", ""},
      {"- float16", "- bfloat16", "found --dtype bfloat16"},
      {"type: max-score-picker", "type: weighted-random-picker", ""},
      {"instance-type: p5.48xlarge", "instance-type: p4d.24xlarge", "instance type"},
      {"p5.48xlarge, engine", "p9.48xlarge, engine", "p9.48xlarge"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.to);
    std::string text = good;
    const std::size_t at = text.rfind(c.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, c.from.size(), c.to);
    if (c.from.starts_with("nvidia")) {
      const std::size_t first = text.find(c.from);
      text.replace(first, c.from.size(), c.to);
    }
    const std::string file = write("bad.yaml", text);
    try {
      static_cast<void>(read_deployment(file, shipped_catalogue()));
      ADD_FAILURE() << "was read";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.reason));
      EXPECT_EQ(error.where().file, file);
      EXPECT_GT(error.where().line, 1U);
    }
  }
}

// A manifest that another tool wrote has none of our annotations.
TEST_F(ManifestsTest, AManifestWithoutAnnotationsIsRead) {
  const std::string file = write("values.yaml",
                                 "servingEngineSpec:\n"
                                 "  modelSpec:\n"
                                 "  - name: llama\n"
                                 "    repository: vllm/vllm-openai\n"
                                 "    tag: v0.12.0\n"
                                 "    modelURL: meta-llama/Llama-3.1-8B\n"
                                 "    replicaCount: 2\n"
                                 "    requestGPU: 1\n"
                                 "    vllmConfig: {maxModelLen: 8192, maxNumSeqs: 64, enablePrefixCaching: false,"
                                 " extraArgs: [--max-num-batched-tokens=4096]}\n"
                                 "routerSpec: {routingLogic: roundrobin}\n");
  EXPECT_THROW(static_cast<void>(read_deployment(file, shipped_catalogue())), InputError) << "no hardware";
  const configs::Document document = read_deployment(file, shipped_catalogue(), "8xh100");
  EXPECT_EQ(document.root().at("engine").as_string(), "vllm-0.12");
  EXPECT_EQ(document.root().at("scheduler").at("max_running").as_integer(), 64);
  EXPECT_EQ(document.root().at("scheduler").at("step_token_budget").as_integer(), 4096);
  EXPECT_EQ(document.root().at("deployment").at("router").as_string(), "round_robin");
}

TEST_F(ManifestsTest, ObjectsAreCheckedWithTheUsersSchemas) {
  std::filesystem::create_directories(file("schemas"));
  const std::string study = std::string(kVllm) + kLoad;
  EXPECT_THROW(static_cast<void>(files_of(study, file("missing"))), InputError);
  EXPECT_THROW(static_cast<void>(files_of(study, file("schemas"))), InputError) << "no schema for any object";
  write("schemas/deployment-apps-v1.json",
        R"({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
      "properties": {"replicas": {"$ref": "#/definitions/count"}}}}, "definitions": {"count": {"type": "integer"}}})");
  EXPECT_EQ(files_of(study, file("schemas")).at("llm-d").refused, "");
  write("schemas/deployment-apps-v1.json",
        R"({"type": "object", "properties": {"spec": {"properties": {"replicas": {"type": "string"}}}}})");
  try {
    static_cast<void>(files_of(study, file("schemas")));
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("deploy/llm-d.yaml, Deployment violates deployment-apps-v1.json: spec.replicas: "
                          "found 1, expected string"));
  }
}

TEST_F(ManifestsTest, AFolderHasOneFileForEachProduct) {
  const std::string folder = file("out");
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/deploy"))
      all.push_back(entry.path().filename().string());
    return all;
  };
  const auto make = [&](const std::string& study) {
    const Study made = read(study);
    write_manifests(manifest_files(made.point(0), configs::Document::from_text(study, "study").root(), "t"), folder);
  };
  make(std::string(kVllm) + "deployment: {replicas: 2}\n" + kLoad);
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre("compose.yaml", "llm-d.yaml", "dynamo.refused.txt",
                                                       "production-stack.refused.txt"));
  make(std::string(kVllm) + "deployment: {replicas: 2, router: round_robin}\n" + kLoad);
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre("compose.yaml", "llm-d.refused.txt", "dynamo.yaml",
                                                       "production-stack.yaml"));
}

// Text that YAML could read as another type is quoted.
TEST(YamlTextTest, OnlySafeTextIsPlain) {
  EXPECT_EQ(yaml_text({{"a", "1"}, {"b", "p5.48xlarge"}, {"c", "no"}, {"d", "8000:8000"}, {"e", "--port"}, {"f", ""}}),
            "a: \"1\"\nb: p5.48xlarge\nc: \"no\"\nd: \"8000:8000\"\ne: --port\nf: \"\"\n");
  EXPECT_EQ(yaml_text({{"list", {{{"a", 1}, {"b", {2, 3}}}}}, {"text", "x: 1\n- y\n"}}),
            "list:\n  - a: 1\n    b:\n      - 2\n      - 3\ntext: |\n  x: 1\n  - y\n");
}

}  // namespace
}  // namespace plimsoll::study::deploy
