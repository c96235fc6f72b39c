// SPDX-License-Identifier: Apache-2.0
// plimsoll serve --backend cpu: a real model behind the server, asked over loopback.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/command_fixture.h"
#include "tests/net/test_client.h"

namespace plimsoll::study {
namespace {

using net::testing::body_of;
using net::testing::get;
using net::testing::post;
using net::testing::talk;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ServeBackendTest : public CommandTest {
 protected:
  // Two small layers with random weights. Nine blocks of 16 tokens hold few requests, so some are preempted.
  [[nodiscard]] std::string study(const std::string& more = "") const {
    write("config.json", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 97, "max_position_embeddings": 128})");
    return write("study.yaml",
                 "model: ./config.json\ndtype: fp32\nhardware: this-machine\nengine: plimsoll-cpu\n"
                 "scheduler: {policy: vllm_v1, kv_blocks: 9, max_running: 8}\n"
                 "workload: {load: {closed_loop: {concurrency: 2}}, lengths: {input: 20, output: 8}, requests: 6}\n" +
                     more);
  }
  // Starts the server; TearDown() ends it.
  void serve(const std::string& arguments) {
    const std::string out = file("url");
    const Outcome started = shell(kProgram + " serve " + arguments + " --backend cpu --threads 1 --port 0 >" + out +
                                  " 2>" + file("errors") + " & echo $! >" + file("pid") + "; while ! [ -s " + out +
                                  " ] && kill -0 $! 2>/dev/null; do sleep 0.02; done");
    const std::string url = read_text(out);
    ASSERT_FALSE(url.empty()) << read_text(file("errors"));
    port_ = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  void TearDown() override {
    if (port_ != 0)
      (void)shell("p=$(cat " + file("pid") + "); kill -TERM $p; while kill -0 $p 2>/dev/null; do sleep 0.02; done");
    CommandTest::TearDown();
  }
  [[nodiscard]] json ask(const std::string& path, const json& body) const {
    return json::parse(body_of(talk(port_, post(path, body.dump()))));
  }
  // Returns the ids of an answer of TGI's path, which states them.
  [[nodiscard]] std::vector<int> ids(const std::string& prompt, const json& parameters) const {
    json all = parameters;
    all["details"] = true;
    const json answer = ask("/generate", {{"inputs", prompt}, {"parameters", all}});
    std::vector<int> out;
    for (const json& token : answer.at("details").at("tokens")) out.push_back(token.at("id"));
    return out;
  }

  std::uint16_t port_ = 0;
};

TEST_F(ServeBackendTest, AnswersWithTheModelsOwnTokens) {
  serve(study());
  const json answer = ask("/v1/completions", {{"prompt", {5, 6, 7}}, {"max_tokens", 4}, {"temperature", 0}});
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  const json chat =
      ask("/v1/chat/completions",
          {{"messages", {{{"role", "user"}, {"content", "hello"}}}}, {"max_completion_tokens", 5}, {"seed", 1}});
  EXPECT_EQ(chat["usage"]["completion_tokens"], 5);
  EXPECT_EQ(ids("a text", {{"max_new_tokens", 7}}).size(), 7U);
  EXPECT_EQ(json::parse(body_of(talk(port_, get("/version"))))["backend"], "cpu");
  EXPECT_EQ(json::parse(body_of(talk(port_, get("/info"))))["simulated"], false);
  EXPECT_THAT(body_of(talk(port_, get("/metrics"))), HasSubstr("backend=\"cpu\"} 1"));
}

// A token of the answer without stops becomes a stop: the answer then ends there, and its reason is named.
TEST_F(ServeBackendTest, StopsWhereTheRequestSaysSo) {
  serve(study());
  const json sampled = {{"max_new_tokens", 30}, {"temperature", 1.0}, {"seed", 3}};
  const std::vector<int> whole = ids("begin", sampled);
  ASSERT_EQ(whole.size(), 30U);
  const int stop = whole[10];
  const auto end = std::find(whole.begin(), whole.end(), stop) - whole.begin();
  // Without a tokenizer the prompt's text has the same ids on every path.
  const json request = {
      {"prompt", "begin"}, {"max_tokens", 30}, {"temperature", 1.0}, {"seed", 3}, {"stop_token_ids", {stop}}};
  const json answer = ask("/v1/completions", request);
  EXPECT_EQ(answer["usage"]["completion_tokens"], end + 1);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][0]["stop_reason"], stop);
}

// A request gets the same tokens alone and among requests that take its memory away, whether they are greedy or drawn.
TEST_F(ServeBackendTest, TheSameSeedGivesTheSameTokensInEveryBatch) {
  serve(study());
  const json drawn = {{"max_new_tokens", 60}, {"temperature", 0.9}, {"top_k", 40}, {"top_p", 0.95}, {"seed", 7}};
  const json greedy = {{"max_new_tokens", 60}};
  const std::vector<int> drawn_alone = ids("one prompt", drawn), greedy_alone = ids("one prompt", greedy);
  std::vector<std::thread> others;
  for (int i = 0; i < 6; ++i)
    others.emplace_back([this, i] {
      for (int k = 0; k < 3; ++k)
        (void)ids("another prompt " + std::to_string(i), {{"max_new_tokens", 40}, {"temperature", 1.0}});
    });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ids("one prompt", drawn), drawn_alone);
    EXPECT_EQ(ids("one prompt", greedy), greedy_alone);
  }
  for (std::thread& other : others) other.join();
}

TEST_F(ServeBackendTest, RefusesByNameWhatItDoesNotDo) {
  serve(study());
  const std::pair<json, const char*> cases[] = {{{{"logprobs", 1}}, "logprobs"},
                                                {{{"presence_penalty", 0.5}}, "presence_penalty"},
                                                {{{"logit_bias", {{"5", 1}}}}, "logit_bias"},
                                                {{{"top_p", 1.5}}, "top_p"},
                                                {{{"top_k", -2}}, "top_k"},
                                                {{{"min_p", "x"}}, "min_p"},
                                                {{{"stop", {""}}}, "stop"},
                                                {{{"stop_token_ids", {97}}}, "stop_token_ids"},
                                                {{{"prompt", {97}}}, "prompt"},
                                                {{{"max_tokens", 126}}, "max_tokens"},
                                                {{{"n", 2}}, "n"}};
  for (const auto& [fields, name] : cases) {
    json request = {{"prompt", {1, 2, 3}}, {"max_tokens", 4}};
    request.update(fields);
    EXPECT_EQ(ask("/v1/completions", request)["error"]["param"], name);
  }
  EXPECT_THAT(ask("/generate", {{"inputs", "a"}, {"parameters", {{"typical_p", 0.5}}}})["error"].get<std::string>(),
              HasSubstr("parameters.typical_p"));
}

TEST_F(ServeBackendTest, RefusesAtTheStartWhatItCannotServe) {
  const std::string stated = study();
  const std::pair<std::string, const char*> cases[] = {
      {" --backend gpu", "--backend: found 'gpu', allowed: cpu, cuda"},
      {" --backend cpu --speed 2", "--speed is for a simulated deployment"},
      {" --backend cpu --out " + file("out"), "--out is for a simulated deployment"},
      {" --threads 1", "belong to --backend"},
      {" --backend cpu --set scheduler.policy=orca --set scheduler.reserve=oracle", "scheduler.reserve"},
      {" --backend cpu --hardware ml.p4d.24xlarge", "--as-is"}};
  for (const auto& [arguments, phrase] : cases) {
    const Outcome outcome = run("serve " + stated + arguments);
    EXPECT_EQ(outcome.exit, 2) << arguments << '\n' << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(phrase));
  }
}

// The advice names the option of this command.
TEST_F(ServeBackendTest, WithoutAGpuItNamesTheBackendThatNeedsNone) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  const Outcome outcome = run("serve " + study() + " --backend cuda --port 0");
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.output, HasSubstr("--backend cpu"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("--device")));
}

}  // namespace
}  // namespace plimsoll::study
