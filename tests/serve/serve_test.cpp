// SPDX-License-Identifier: Apache-2.0
// A served deployment over loopback, as clients see it. Runs are much faster than their model; nothing is timed.
#include "serve/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "sim/simulate.h"
#include "tests/net/test_client.h"
#include "tests/sim/random_scenarios.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::serve {
namespace {

using namespace net::testing;
using nlohmann::json;
using sim::testing::PolicyCase;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunningServer {
 public:
  RunningServer(const load::Scenario& scenario, ServeSettings settings) {
    settings.port = 0;
    settings.watches_signals = false;
    settings.stop = stop_.get_token();
    if (settings.service.model.empty()) settings.service.model = "a-model";
    if (settings.service.longest == 1) settings.service.longest = 4096;
    std::promise<std::string> url;
    settings.on_listening = [&](const std::string& text) { url.set_value(text); };
    thread_ = std::thread([this, scenario, settings] { summary_ = serve(scenario, settings); });
    port = port_of(url.get_future().get());
  }
  ~RunningServer() {
    if (thread_.joinable()) (void)stop();
  }
  ServeSummary stop() {
    stop_.request_stop();
    thread_.join();
    return summary_;
  }
  std::uint16_t port = 0;

 private:
  std::stop_source stop_;
  std::thread thread_;
  ServeSummary summary_;
};

// A token takes a millisecond of model time, whatever the batch; answers have ten tokens unless a client asks.
load::Scenario quick() {
  load::Scenario s = sim::testing::base_scenario();
  s.engine = sim::testing::constant_engine(0, 1e-3);
  s.workload.lengths = load::IndependentLengths{load::FixedLength{20}, load::FixedLength{10}};
  return s;
}
ServeSettings fast() { return {.service = {}, .speed = 20}; }

json ask(std::uint16_t port, const std::string& path, const json& body) {
  return json::parse(body_of(talk(port, post(path, body.dump()))));
}

// Returns the data of the events in a chunked answer.
std::vector<std::string> events_of(const std::string& answer) {
  std::string text;
  std::istringstream body(body_of(answer));
  for (std::string size; std::getline(body, size);) {
    std::string part(std::stoul(size, nullptr, 16), ' ');
    body.read(part.data(), static_cast<std::streamsize>(part.size()));
    text += part;
    body.ignore(2);
  }
  std::vector<std::string> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("data:")) events.push_back(line.substr(line.find_first_not_of(' ', 5)));
  return events;
}

TEST(ServeTest, AnswersACompletionWithUsageAndFinishReason) {
  RunningServer server(quick(), fast());
  const json capped = ask(server.port, "/v1/completions", {{"prompt", {5, 6, 7}}, {"max_tokens", 4}, {"model", "any"}});
  EXPECT_EQ(capped["object"], "text_completion");
  EXPECT_EQ(capped["model"], "any");
  EXPECT_EQ(capped["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(capped["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(capped["usage"]["completion_tokens"], 4);
  EXPECT_EQ(capped["usage"]["total_tokens"], 7);
  // Ten tokens are drawn: fewer than the cap, which ignore_eos would reach. 9 characters are 3 tokens.
  const json drawn = ask(server.port, "/v1/completions", {{"prompt", "123456789"}, {"max_tokens", 40}});
  EXPECT_EQ(drawn["usage"]["completion_tokens"], 10);
  EXPECT_EQ(drawn["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(drawn["choices"][0]["finish_reason"], "stop");
  const json ignored = ask(server.port, "/v1/completions", {{"prompt", "x"}, {"max_tokens", 12}, {"ignore_eos", true}});
  EXPECT_EQ(ignored["usage"]["completion_tokens"], 12);
  EXPECT_EQ(ask(server.port, "/v1/completions", {{"prompt", "x"}, {"min_tokens", 15}})["usage"]["completion_tokens"],
            15);
}

// Each of the two messages adds 4 tokens to its text of 1 and 2 tokens.
TEST(ServeTest, AnswersAChat) {
  RunningServer server(quick(), fast());
  const json parts = {{{"type", "text"}, {"text", "abcdef"}}};
  const json answer =
      ask(server.port, "/v1/chat/completions",
          {{"messages", {{{"role", "system"}, {"content", "hi"}}, {{"role", "user"}, {"content", parts}}}},
           {"max_completion_tokens", 3},
           {"unknown", {1, 2}}});
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_FALSE(answer["choices"][0]["message"]["content"].get<std::string>().empty());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 11);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
}

TEST(ServeTest, StreamsATokenAnEventAndTheUsageLast) {
  RunningServer server(quick(), fast());
  const std::vector<std::string> events =
      events_of(talk(server.port, post("/v1/completions",
                                       R"({"prompt":[1,2],"max_tokens":5,"stream":true,)"
                                       R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})")));
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  int tokens = 0;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const json event = json::parse(events[i]);
    EXPECT_GT(event["usage"]["completion_tokens"], tokens);
    tokens = event["usage"]["completion_tokens"];
    text += event["choices"][0]["text"];
    EXPECT_EQ(event["choices"][0]["finish_reason"].is_null(), i + 3 < events.size());
  }
  EXPECT_EQ(tokens, 5);
  const json usage = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 5);
  EXPECT_EQ(ask(server.port, "/v1/completions", {{"prompt", {1, 2}}, {"max_tokens", 5}})["choices"][0]["text"], text);
}

// Bodies of more than 64 KiB are parsed on another thread.
TEST(ServeTest, ReadsALongPrompt) {
  RunningServer server(quick(), fast());
  const json ids(50'000, 7);
  const json refused = ask(server.port, "/v1/completions", {{"prompt", ids}, {"max_tokens", 2}});
  EXPECT_EQ(refused["error"]["code"], "max_model_len");
  EXPECT_EQ(ask(server.port, "/v1/completions", {{"prompt", ids}, {"n", 2}})["error"]["param"], "n");
  const std::string padding(100'000, ' ');
  const std::string answer =
      talk(server.port, post("/v1/completions", R"({"prompt":[1,2],"max_tokens":2)" + padding + "}"));
  EXPECT_EQ(json::parse(body_of(answer))["usage"]["completion_tokens"], 2);
}

TEST(ServeTest, SpeaksTheApiOfTgi) {
  RunningServer server(quick(), fast());
  const json whole =
      ask(server.port, "/generate", {{"inputs", "hello"}, {"parameters", {{"max_new_tokens", 3}, {"details", true}}}});
  EXPECT_EQ(whole["details"]["generated_tokens"], 3);
  EXPECT_EQ(whole["details"]["finish_reason"], "length");
  const std::vector<std::string> events =
      events_of(talk(server.port, post("/generate_stream", R"({"inputs":"hello","parameters":{"max_new_tokens":3}})")));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_TRUE(json::parse(events[0])["generated_text"].is_null());
  EXPECT_EQ(json::parse(events[2])["generated_text"], whole["generated_text"]);
}

TEST(ServeTest, TellsOfItself) {
  ServeSettings settings = fast();
  settings.service.version = "9.9";
  RunningServer server(quick(), settings);
  EXPECT_THAT(talk(server.port, get("/health")), StartsWith("HTTP/1.1 200 "));
  const std::string version = talk(server.port, get("/version"));
  EXPECT_THAT(version, HasSubstr("Plimsoll-Speed: 20\r\n"));
  EXPECT_EQ(json::parse(body_of(version))["speed"], 20);
  const json models = json::parse(body_of(talk(server.port, get("/v1/models"))));
  EXPECT_EQ(models["data"][0]["id"], "a-model");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
  (void)ask(server.port, "/v1/completions", {{"prompt", {1, 2}}, {"max_tokens", 5}});
  const std::string metrics = body_of(talk(server.port, get("/metrics")));
  for (const char* const line :
       {"vllm:generation_tokens_total{engine=\"0\",model_name=\"a-model\"} 5.0",
        "# TYPE vllm:num_requests_running gauge", "vllm:prompt_tokens_total{engine=\"0\",model_name=\"a-model\"} 2.0",
        "vllm:request_success_total{engine=\"0\",model_name=\"a-model\",finished_reason=\"length\"} 1.0",
        "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"a-model\"} 1.0",
        "vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"a-model\"} 4.0",
        "# TYPE plimsoll:step_lateness_seconds histogram"})
    EXPECT_THAT(metrics, HasSubstr(line));
}

// Each error names the field, as in OpenAI's API.
TEST(ServeTest, RefusesWhatItCannotServe) {
  RunningServer server(quick(), fast());
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt":"a","n":2})", "n"},
      {R"({"prompt":"a","best_of":2})", "best_of"},
      {R"({"prompt":"a","echo":true})", "echo"},
      {R"({"prompt":"a","tools":[{}]})", "tools"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":"4"})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":4,"min_tokens":5})", "min_tokens"},
      {R"({"prompt":"a","stream":1})", "stream"},
      {R"({"prompt":"a","stream_options":{}})", "stream_options"},
      {R"({"prompt":"a","temperature":3})", "temperature"},
      {R"({"prompt":"a","stop":[1]})", "stop"},
      {R"({"prompt":"a","model":7})", "model"},
      {R"({"prompt":[1,-2]})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":""})", "prompt"},
      {R"({"prompt":["a","b"]})", "prompt"},
      {R"({})", "prompt"}};
  for (const auto& [body, field] : cases) {
    const std::string answer = talk(server.port, post("/v1/completions", body));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << body;
    EXPECT_EQ(json::parse(body_of(answer))["error"]["param"], field) << body;
  }
  const std::string image = talk(
      server.port, post("/v1/chat/completions",
                        R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})"));
  EXPECT_EQ(json::parse(body_of(image))["error"]["param"], "messages[0].content[0].image_url");
  for (const std::string& body :
       {std::string("{"), std::string("{\"prompt\":\"\xff\"}"), std::string(1000, '['), std::string("[]")})
    EXPECT_THAT(talk(server.port, post("/v1/completions", body)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk(server.port, get("/v1/completions")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(talk(server.port, get("/nowhere")), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(server.stop().completed, 0);
}

TEST(ServeTest, KnowsItsModelAndItsKey) {
  ServeSettings settings = fast();
  settings.service.served_names = {"mine"};
  settings.service.api_key = "secret";
  RunningServer server(quick(), settings);
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_THAT(talk(server.port, get("/v1/models")),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n")));
  EXPECT_THAT(talk(server.port, get("/v1/models", "Authorization: Bearer secre\r\n")), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(talk(server.port, get("/v1/models", key)), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(talk(server.port, get("/metrics")), StartsWith("HTTP/1.1 200 "));
  const std::string other = talk(server.port, post("/v1/completions", R"({"model":"other","prompt":"a"})", key));
  EXPECT_THAT(other, StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(json::parse(body_of(other))["error"]["code"], "model_not_found");
  EXPECT_THAT(talk(server.port, post("/v1/completions", R"({"model":"mine","prompt":"a"})", key)),
              StartsWith("HTTP/1.1 200 "));
}

// The slash of a name is %2F in a path, which the openai package writes. Bytes that are no UTF-8 do no harm.
TEST(ServeTest, FindsAModelWhoseNameHasASlash) {
  ServeSettings settings = fast();
  settings.service.served_names = {"org/model 7%"};
  RunningServer server(quick(), settings);
  for (const char* const name : {"org%2Fmodel%207%25", "org/model%207%", "org%2fmodel%207%"}) {
    const std::string answer = talk(server.port, get(std::string("/v1/models/") + name));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << name;
    EXPECT_EQ(json::parse(body_of(answer))["id"], "org/model 7%");
  }
  for (const char* const name : {"org", "%FF%00", "%", "%2"}) {
    const std::string answer = talk(server.port, get(std::string("/v1/models/") + name));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404 ")) << name;
    EXPECT_EQ(json::parse(body_of(answer))["error"]["code"], "model_not_found");
  }
}

TEST(ServeTest, RefusesAsTheProductDoes) {
  load::Scenario s = quick();
  s.policy.max_input = 8;
  RunningServer server(s, fast());
  const std::string answer = talk(server.port, post("/v1/completions", R"({"prompt":[1,2,3,4,5,6,7,8,9]})"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 422 "));
  EXPECT_EQ(json::parse(body_of(answer))["error"]["code"], "input_length");
}

// Prompts of two blocks share their first block of 16 tokens; the last token is always computed.
TEST(ServeTest, FindsTheBlocksOfARealPromptAgain) {
  load::Scenario s = quick();
  s.kv.prefix_caching = true;
  RunningServer server(s, fast());
  const auto cached = [&](const std::string& prompt) {
    return ask(server.port, "/v1/completions",
               {{"prompt", prompt}, {"max_tokens", 1}})["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int>();
  };
  const std::string block(64, 'a'), other(64, 'b');
  EXPECT_EQ(cached(block + other), 0);
  EXPECT_EQ(cached(block + "something else"), 16);
  EXPECT_EQ(cached(other + block), 0);
  EXPECT_EQ(cached(block + other + "and more"), 32);
}

// The client reads nothing until another client has its answer. Its stream waits in the socket's buffers, and beyond
// those only as a number of tokens.
TEST(ServeTest, ASlowReaderLosesNothingAndHoldsUpNoOther) {
  ServeSettings settings = fast();
  settings.speed = 1000;
  RunningServer server(quick(), settings);
  PlainClient slow(server.port, 4096);
  slow.send(post("/v1/completions", R"({"prompt":"a","max_tokens":3900,"ignore_eos":true,"stream":true})"));
  EXPECT_EQ(ask(server.port, "/v1/completions", {{"prompt", "x"}})["usage"]["completion_tokens"], 10);
  const std::vector<std::string> events = events_of(slow.read());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) text += json::parse(events[i])["choices"][0]["text"];
  std::istringstream words(text);
  EXPECT_EQ(std::distance(std::istream_iterator<std::string>(words), {}), 3900);
}

TEST(ServeTest, EndsAfterOpenRequestsOrCutsThem) {
  ServeSettings settings = fast();
  settings.drain = Seconds{0};
  RunningServer server(quick(), settings);
  PlainClient client(server.port);
  client.send(post("/v1/completions", R"({"prompt":"a","max_tokens":4000,"ignore_eos":true,"stream":true})"));
  EXPECT_THAT(client.read("data:"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(server.stop().cut, 1);
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A priority that the client states counts, also 0; else one is drawn from the study's workload, here always 7.
TEST(ServeTest, PrioritiesAreTheClientsOrTheStudys) {
  load::Scenario s = quick();
  s.workload.priorities = {{7, 1}};
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("plimsoll-priorities-" + std::to_string(::getpid()));
  ServeSettings settings = fast();
  settings.events_file = file;
  RunningServer server(s, settings);
  for (const char* const fields : {R"("ignore_eos":true)", R"("user":"a")", R"("priority":3)", R"("priority":0)"})
    (void)talk(server.port, post("/v1/completions", std::string(R"({"prompt":[1],"max_tokens":2,)") + fields + "}"));
  (void)talk(server.port, post("/generate", R"({"inputs":"a","parameters":{"max_new_tokens":2}})"));
  (void)server.stop();
  std::vector<int> priorities;
  std::istringstream lines(text_of(file));
  for (std::string line; std::getline(lines, line);)
    if (const json event = json::parse(line); event.contains("input")) priorities.push_back(event.value("priority", 0));
  EXPECT_EQ(priorities, (std::vector{7, 7, 3, 0, 7}));
  std::filesystem::remove(file);
}

// A shell and a wrapper may both pass on one Ctrl-C. A user who repeats it takes longer.
TEST(ServeTest, ASignalThatComesTwiceAtOnceCountsOnce) {
  const load::Scenario s = quick();
  const ServiceSettings settings;
  ModelClock clock(1);
  Service service(s, settings, clock);
  const ModelClock::Time first = std::chrono::steady_clock::now();
  service.note_stop(first);
  service.note_stop(first + std::chrono::milliseconds(199));
  EXPECT_EQ(service.stops_wanted(), 1);
  service.note_stop(first + std::chrono::milliseconds(400));
  EXPECT_EQ(service.stops_wanted(), 2);
}

class ReplayTest : public ::testing::TestWithParam<PolicyCase> {};

// Requests of many lengths on two replicas, some of which leave early. Replaying what reached the schedulers must
// reproduce their decisions byte for byte.
TEST_P(ReplayTest, AServedRunIsReproducedFromItsEvents) {
  load::Scenario s = sim::testing::random_scenario(GetParam(), 3);
  s.engine = sim::testing::constant_engine(2e-3, 1e-3);
  s.kv = {.blocks = 48, .block_tokens = 16, .prefix_caching = true};
  s.policy.model_max_len = 256;
  s.replicas = 2;
  if (s.policy.policy == sched::PolicyKind::vllm_v1) s.policy.order = sched::Order::priority;
  s.life.reset();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("plimsoll-serve-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  ServeSettings settings = fast();
  settings.events_file = folder / "events.jsonl";
  settings.decision_files = {folder / "0.txt", folder / "1.txt"};
  RunningServer server(s, settings);
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < 24; ++i)
    clients.emplace_back([i, port = server.port] {
      std::mt19937 random(i);
      const json body = {{"prompt", std::string(1 + random() % 400, static_cast<char>('a' + i % 3))},
                         {"max_tokens", 1 + random() % 60},
                         {"ignore_eos", true},
                         {"priority", i % 4},
                         {"stream", i % 2 == 0}};
      PlainClient client(port);
      client.send(post("/v1/completions", body.dump()));
      if (i % 5 != 0) (void)client.read();
    });
  for (std::thread& client : clients) client.join();
  (void)server.stop();
  EXPECT_EQ(sim::replay(settings.events_file, s),
            (std::vector{text_of(settings.decision_files[0]), text_of(settings.decision_files[1])}));
  std::filesystem::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(Policies, ReplayTest, ::testing::ValuesIn(sim::testing::kPolicyCases),
                         sim::testing::case_name);

}  // namespace
}  // namespace plimsoll::serve
