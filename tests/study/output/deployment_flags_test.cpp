// SPDX-License-Identifier: Apache-2.0
#include "study/output/deployment_flags.h"

#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class DeploymentFlagsTest : public StudyFolder {
 protected:
  PointSpec spec(const std::string& engine, const std::string& scheduler) {
    return read("model: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: " + engine +
                "\ndeployment: {tp: 4}\nscheduler: " + scheduler +
                "\nworkload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}, requests: 10}\n")
        .point(0);
  }
};

TEST_F(DeploymentFlagsTest, TgiIsToldByItsEnvironment) {
  const std::string text = deployment_flags(spec("tgi-1.1", "{max_running: 64, max_input: 4095, max_total: 4096}"));
  for (const char* const line :
       {"NUM_SHARD=4\n", "MAX_BATCH_SIZE=64\n", "MAX_INPUT_LENGTH=4095\n", "MAX_TOTAL_TOKENS=4096\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, WhatIsWrittenReadsBackAsTheSameScheduler) {
  const PointSpec stated = spec("tgi-1.1", "{max_running: 64, max_input: 4095, max_total: 4096}");
  std::istringstream lines(deployment_flags(stated));
  std::string map;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    if (name == "MODEL_ID" || name == "DTYPE" || name == "NUM_SHARD") continue;
    map += (map.empty() ? "" : ", ") + name + ": " + line.substr(equals + 1);
  }
  const PointSpec back = spec("tgi-1.1", "{" + map + "}");
  EXPECT_EQ(back.policy.max_running, stated.policy.max_running);
  EXPECT_EQ(back.policy.max_input, stated.policy.max_input);
  EXPECT_EQ(back.policy.max_total, stated.policy.max_total);
  EXPECT_EQ(back.policy.prefill_token_budget, stated.policy.prefill_token_budget);
}

TEST_F(DeploymentFlagsTest, VllmIsToldByACommand) {
  const std::string text = deployment_flags(spec("vllm-0.12", "{max_running: 96, step_token_budget: 2048}"));
  EXPECT_TRUE(text.starts_with("vllm serve meta-llama/Llama-2-7b-hf")) << text;
  for (const char* const flag :
       {"--tensor-parallel-size 4", "--dtype float16", "--max-num-seqs 96", "--max-num-batched-tokens 2048"}) {
    EXPECT_NE(text.find(flag), std::string::npos) << flag << " in\n" << text;
  }
}

// A share of the context for each slot, and the forward's limit under the server's own names.
TEST_F(DeploymentFlagsTest, LlamaServerIsToldItsSlots) {
  const std::string text =
      deployment_flags(spec("llama-cpp", "{max_running: 8, kv_token_budget: 16384, forward_token_budget: 256}"));
  for (const char* const flag :
       {"# MODEL.gguf: meta-llama/Llama-2-7b-hf", "llama-server --model MODEL.gguf", "--parallel 8", "--no-kv-unified",
        "--ctx-size 16384", "--batch-size 2048", "--ubatch-size 256", "--split-mode row", "--cache-ram 0"})
    EXPECT_NE(text.find(flag), std::string::npos) << flag << " in\n" << text;
  const std::string unified = deployment_flags(spec("llama-cpp", "{variant: unified, prefix_caching: false}"));
  EXPECT_NE(unified.find(" --kv-unified"), std::string::npos);
  EXPECT_NE(unified.find("--no-cache-prompt"), std::string::npos);
  const std::string similar = deployment_flags(spec("llama-cpp", "{slot_prompt_similarity: 0.5}"));
  EXPECT_NE(similar.find("--slot-prompt-similarity 0.5"), std::string::npos);
}

// trtllm-serve has no flags for these; without them, there is no file.
TEST_F(DeploymentFlagsTest, TrtllmServeReadsOptionsFromAFile) {
  const std::string text =
      deployment_flags(spec("trtllm-1.1",
                            "{batch_wait_timeout_iters: 20, batch_wait_max_tokens_ratio: 0.9, capacity_policy: "
                            "max_utilization}"));
  for (const char* const part :
       {"cat > trtllm-options.yaml << 'END'\n", "batch_wait_timeout_iters: 20\nbatch_wait_max_tokens_ratio: 0.9\nEND\n",
        "capacity_scheduler_policy: MAX_UTILIZATION", "--extra_llm_api_options trtllm-options.yaml"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(deployment_flags(spec("trtllm-1.1", "{}")).find("options"), std::string::npos);
}

// Commands and names are those of the version that the engine states: trtllm-serve was introduced after 0.14. In 2.0,
// TGI renamed the limit on prompts and introduced one on sequences.
TEST_F(DeploymentFlagsTest, CommandsAreThoseOfTheVersion) {
  const auto has = [&](const std::string& engine, const std::string& text) {
    const std::string flags = deployment_flags(spec(engine, "{max_running: 64, max_total: 4096}"));
    return flags.find(text) != std::string::npos;
  };
  EXPECT_TRUE(has("trtllm-0.14", "trtllm-build \\\n"));
  EXPECT_TRUE(has("trtllm-0.14", "converted with --tp_size 4"));
  EXPECT_TRUE(has("trtllm-0.14", "--tokens_per_block 64"));
  EXPECT_FALSE(has("trtllm-0.14", "trtllm-serve"));
  EXPECT_TRUE(has("trtllm-1.1", "trtllm-serve "));
  EXPECT_FALSE(has("sglang-0.4", "--page-size"));
  EXPECT_TRUE(has("sglang-0.5", "--page-size 1"));
  const auto tgi = [&](const std::string& engine) { return deployment_flags(spec(engine, "{max_input: 99}")); };
  EXPECT_NE(tgi("tgi-1.1").find("MAX_INPUT_LENGTH=99"), std::string::npos);
  EXPECT_NE(tgi("tgi-2").find("MAX_INPUT_TOKENS=99"), std::string::npos);
  EXPECT_NE(tgi("tgi-3").find("MAX_INPUT_TOKENS=99"), std::string::npos);
  EXPECT_TRUE(has("tgi-1.1", "# MAX_BATCH_SIZE: version 2.0 or later"));
  EXPECT_FALSE(has("tgi-2", "# MAX_BATCH_SIZE: version 2.0 or later"));
  EXPECT_TRUE(has("tgi-3", "PREFILL_CHUNKING=1"));
}

TEST_F(DeploymentFlagsTest, ARollingBatchIsAnLmiPropertyFile) {
  const std::string text = deployment_flags(spec("lmi-dist-0.24", "{max_running: 48}"));
  for (const char* const line :
       {"option.tensor_parallel_degree=4\n", "option.rolling_batch=lmi-dist\n", "option.max_rolling_batch_size=48\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(DeploymentFlagsTest, WhatNoProductRunsSaysSo) {
  const PointSpec orca = spec("ideal", "{policy: orca, max_running: 8}");
  EXPECT_TRUE(deploy_files(orca).empty());
  EXPECT_TRUE(deployment_flags(orca).starts_with("#"));
}

// Llama 3.1 8B supports sequences of 131 072 tokens. In addition to its weights, a GPU of 24 GB holds about 26 000
// tokens: with the full length vLLM would not start.
TEST_F(DeploymentFlagsTest, TheLongestSequenceFitsThePool) {
  const auto flags = [&](const std::string& hardware) {
    return deployment_flags(
        read("model: llama-3.1-8b\ndtype: bf16\nhardware: " + hardware +
             "\nengine: vllm-0.12\n"
             "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 512, output: 512}, requests: 10}\n")
            .point(0));
  };
  const std::string small = flags("g6.xlarge"), large = flags("p5.4xlarge");
  const std::size_t at = small.find("--max-model-len ");
  ASSERT_NE(at, std::string::npos) << small;
  const long length = std::strtol(small.c_str() + at + 16, nullptr, 10);
  EXPECT_GE(length, 1024);
  EXPECT_LT(length, 27'000);
  EXPECT_EQ(large.find("--max-model-len"), std::string::npos) << large;
}

TEST_F(DeploymentFlagsTest, LmiRunsVllmInPython) {
  const auto properties = [&](const std::string& engine) { return deploy_files(spec(engine, "{}")).back().text; };
  EXPECT_NE(properties("vllm-0.6").find("engine=Python\n"), std::string::npos);
  EXPECT_NE(properties("trtllm-1.0").find("engine=MPI\n"), std::string::npos);
}

// Names that a shell, a property file or an option parser could misinterpret.
const std::vector<std::string> kHostile = {"plain",
                                           "two words",
                                           "m$(touch owned)",
                                           "`touch owned`",
                                           "a;touch owned",
                                           "it's",
                                           "\"double\"",
                                           "new\nline",
                                           "$HOME",
                                           "back\\slash",
                                           "-rf",
                                           "--help",
                                           "true",
                                           "#no",
                                           "a&b|c>d",
                                           "*",
                                           "~",
                                           "ümlaut",
                                           "a=b"};

class HostileNames : public DeploymentFlagsTest {
 protected:
  PointSpec of_folder(const std::string& folder, const std::string& engine) {
    PointSpec named = spec(engine, "{}");
    named.model_stated = folder + "/config.json";
    named.model_is_file = true;
    return named;
  }

  // Returns the arguments with which a script starts a program, each preceded by a NUL byte.
  std::string arguments_of(const std::string& script, const std::string& program) {
    std::filesystem::create_directories(file("bin"));
    write("bin/" + program, "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\0' \"$a\"; done > \"$OUT\"\n");
    std::filesystem::permissions(file("bin/" + program), std::filesystem::perms::owner_all);
    write("start.sh", script);
    const std::string line = "cd '" + file(".") + "' && OUT=arguments PATH=\"$PWD/bin:$PATH\" sh ./start.sh";
    EXPECT_EQ(std::system(line.c_str()), 0) << script;
    EXPECT_FALSE(std::filesystem::exists(file("owned"))) << script;
    return read_text(file("arguments"));
  }
};

TEST_F(HostileNames, ReachTheServerAsTheyAre) {
  for (const std::string& name : kHostile) {
    const std::string path = name.starts_with('-') ? "./" + name : name, asked = path + std::string(1, '\0');
    const std::string serve = "serve" + std::string(1, '\0');
    EXPECT_TRUE(
        arguments_of(deploy_files(of_folder(name, "vllm-0.12")).front().text, "vllm").starts_with(serve + asked))
        << name;
    EXPECT_TRUE(
        arguments_of(deploy_files(of_folder(name, "trtllm-1.0")).front().text, "trtllm-serve").starts_with(asked))
        << name;
    const std::string option = "--model-path" + std::string(1, '\0') + asked;
    EXPECT_NE(arguments_of(deploy_files(of_folder(name, "sglang-0.5")).front().text, "python").find(option),
              std::string::npos)
        << name;
  }
}

// An environment file is read by a shell.
TEST_F(HostileNames, AnEnvironmentFileSetsThemAndRunsNothing) {
  for (const std::string& name : kHostile) {
    const std::string env = deploy_files(of_folder(name, "tgi-1.1")).front().text;
    const std::string path = name.starts_with('-') ? "./" + name : name;
    EXPECT_EQ(arguments_of(env + "show \"$MODEL_ID\"\n", "show"), path + std::string(1, '\0'));
  }
}

// Java's rules (java.util.Properties.load): a backslash begins an escape, the end of the line ends the value.
TEST_F(HostileNames, APropertyFileReadsThemBack) {
  for (const std::string& name : kHostile) {
    const std::string text = deploy_files(of_folder(name, "lmi-dist-0.24")).front().text;
    const std::string key = "option.model_id=";
    const std::size_t begin = text.find(key) + key.size(), end = text.find('\n', begin);
    std::string value;
    for (std::size_t i = begin; i < end; ++i) {
      const bool escape = text[i] == '\\' && ++i < end;
      value += escape && text[i] == 'n' ? '\n' : text[i];
    }
    EXPECT_EQ(value, name.starts_with('-') ? "./" + name : name);
  }
}

TEST_F(DeploymentFlagsTest, TheServerStartsTheModelThatTheStudyNames) {
  const auto started = [&](const std::string& model) {
    const std::string text = deployment_flags(
        read("model: " + model +
             "\ndtype: bf16\nhardware: p5.48xlarge\nengine: vllm-0.12\ndeployment: {tp: 8}\n"
             "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}, requests: 10}\n")
            .point(0));
    const std::string begin = "vllm serve ";
    return text.substr(begin.size(), text.find(" \\") - begin.size());
  };
  EXPECT_EQ(started("meta-llama/Llama-3.1-70B-Instruct"), "meta-llama/Llama-3.1-70B-Instruct")
      << "a hub name is as stated";
  EXPECT_EQ(started("meta-llama/Meta-Llama-3.1-70B"), "meta-llama/Meta-Llama-3.1-70B");
  EXPECT_EQ(started("llama-3.1-70b"), "meta-llama/Meta-Llama-3.1-70B") << "the catalogue knows the hub's name";
  EXPECT_EQ(started("llama-3.1-70b-instruct"), "meta-llama/Meta-Llama-3.1-70B-Instruct")
      << "a tuning is not its base model";
  EXPECT_EQ(started("llama-2-7b-chat"), "meta-llama/Llama-2-7b-chat-hf");
  EXPECT_EQ(started("mixtral-8x7b-instruct-v0.1"), "mistralai/Mixtral-8x7B-Instruct-v0.1");
}

}  // namespace
}  // namespace plimsoll::study
