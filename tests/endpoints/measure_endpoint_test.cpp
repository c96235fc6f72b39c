// SPDX-License-Identifier: Apache-2.0
// Whole points against servers in this process: what is sent, what is counted, and what a hostile server can cause.
#include "endpoints/measure_endpoint.h"

#include <gtest/gtest.h>

#include "model/error.h"
#include "tests/endpoints/openai_stub.h"

namespace plimsoll::endpoints {
namespace {

load::Scenario scenario(std::int64_t requests, std::int32_t users = 1, std::int32_t output = 5) {
  load::Scenario made;
  made.workload.load = load::ClosedLoop{.concurrency = users};
  made.workload.lengths = load::IndependentLengths{.input = load::FixedLength{8}, .output = load::FixedLength{output}};
  made.workload.requests = requests;
  return made;
}

ServerSettings settings(const OpenAiStub& stub) {
  ServerSettings made;
  made.http.server = net::parse_url(stub.url(), "--endpoint");
  return made;
}

EndpointPoint measure(const OpenAiStub& stub, const load::Scenario& what, const sched::RunOptions& options = {}) {
  Server server(settings(stub));
  return measure_point(what, server, Prompts(1, 1000), options);
}

TEST(MeasureEndpoint, CountsTokensAndTimesOfEveryRequest) {
  const OpenAiStub stub;
  const EndpointPoint point = measure(stub, scenario(6, 2));
  EXPECT_EQ(point.run.failure, "");
  EXPECT_EQ(point.run.metrics.requests_completed, 6);
  EXPECT_EQ(point.run.metrics.output_tokens_mean, 5);
  EXPECT_EQ(point.run.metrics.input_tokens_mean, 8);
  EXPECT_GT(point.run.metrics.ttft.mean.value_or(0), 0);
  EXPECT_EQ(counts_text(point.figures), "usage in every chunk");
  EXPECT_EQ(point.figures.prompt_error, 0);
  EXPECT_EQ(point.figures.early_ends, 0);
  EXPECT_EQ(warnings(point).size(), 0U);
}

// Four tokens arrive in one piece, as for a client that lags: one gap with the waiting time, and three of length 0.
TEST(MeasureEndpoint, APieceOfSeveralTokensIsAsManyGaps) {
  const OpenAiStub stub([](net::CannedPeer& peer, const nlohmann::json&) {
    peer.send(stream_head() +
              chunked("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":1}}\n\n"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    peer.send(chunked("data: {\"choices\":[{\"text\":\"bcde\",\"finish_reason\":\"length\"}],"
                      "\"usage\":{\"completion_tokens\":5}}\n\ndata: [DONE]\n\n") +
              "0\r\n\r\n");
  });
  const EndpointPoint point = measure(stub, scenario(1));
  EXPECT_EQ(point.run.metrics.requests_completed, 1);
  EXPECT_EQ(point.run.metrics.output_tokens_mean, 5);
  EXPECT_EQ(point.run.metrics.itl.p50.value_or(1), 0);  // 3 of 4 gaps
  // The gaps sum to the time after the first token, whenever a busy client sees it.
  const double tpot = point.run.metrics.tpot.mean.value_or(-1);
  EXPECT_NEAR(point.run.metrics.itl.mean.value_or(0), tpot, 0.01 * tpot);
}

TEST(MeasureEndpoint, PromptsHaveTheStudysLengthAndDiffer) {
  const OpenAiStub stub;
  (void)measure(stub, scenario(3));
  const std::vector<nlohmann::json> requests = stub.requests();
  ASSERT_EQ(requests.size(), 3U);
  for (const nlohmann::json& request : requests) {
    EXPECT_EQ(request.at("prompt").size(), 8U);
    EXPECT_EQ(request.at("max_tokens"), 5);
    EXPECT_EQ(request.at("min_tokens"), 5);
    EXPECT_EQ(request.at("ignore_eos"), true);
    EXPECT_EQ(request.at("model"), "stub");
  }
  EXPECT_NE(requests[0].at("prompt"), requests[1].at("prompt"));
}

TEST(MeasureEndpoint, ReplicationsHavePromptsOfTheirOwn) {
  const OpenAiStub stub;
  load::Scenario twice = scenario(1);
  twice.replications = 2;
  (void)measure(stub, twice);
  const std::vector<nlohmann::json> requests = stub.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_NE(requests[0].at("prompt"), requests[1].at("prompt"));
}

TEST(MeasureEndpoint, LeavesOutWhatTheServerRefuses) {
  OpenAiStub stub;
  stub.refused_fields = {"min_tokens", "token ids"};
  Server server(settings(stub));
  EXPECT_EQ(server.facts().refused, (std::vector<std::string>{"token-id prompts", "min_tokens"}));
  (void)measure_point(scenario(1), server, Prompts(1, 1000), {});
  ASSERT_EQ(stub.requests().size(), 1U);
  EXPECT_TRUE(stub.requests()[0].at("prompt").is_string());
  EXPECT_FALSE(stub.requests()[0].contains("min_tokens"));
  EXPECT_TRUE(stub.requests()[0].contains("ignore_eos"));
}

load::Scenario scenario_of(std::int32_t priority) {
  load::Scenario made = scenario(1);
  made.workload.priorities = {{priority, 1}};
  return made;
}

ServerSettings with_priorities(const OpenAiStub& stub) {
  ServerSettings made = settings(stub);
  made.has_priorities = true;
  return made;
}

TEST(MeasureEndpoint, PrioritiesAreSentToAServerThatTakesThem) {
  const OpenAiStub stub;
  Server server(with_priorities(stub));
  EXPECT_TRUE(server.facts().features.priority);
  for (const std::int32_t priority : {-4, 0}) {  // 0 is sent too: `plimsoll serve` draws priorities that are not stated
    (void)measure_point(scenario_of(priority), server, Prompts(1, 1000), {});
    EXPECT_EQ(stub.requests().back().at("priority"), priority);
  }
}

TEST(MeasureEndpoint, PrioritiesThatTheServerRefusesAreNamed) {
  OpenAiStub stub;
  stub.refused_fields = {"priority"};
  const Server server(with_priorities(stub));
  EXPECT_FALSE(server.facts().features.priority);
  EXPECT_EQ(server.facts().refused, std::vector<std::string>{"priority"});
}

// vLLM without scheduling by priority refuses the field, so a study without priorities does not try it.
TEST(MeasureEndpoint, WithoutPrioritiesNoneIsProbedOrSent) {
  const OpenAiStub stub;
  Server server(settings(stub));
  EXPECT_FALSE(server.facts().features.priority);
  (void)measure_point(scenario_of(-4), server, Prompts(1, 1000), {});
  EXPECT_FALSE(stub.requests().back().contains("priority"));
}

TEST(MeasureEndpoint, AnswersThatEndEarlyAreReported) {
  const OpenAiStub stub([](net::CannedPeer& peer, nlohmann::json request) {
    request["max_tokens"] = 3;
    OpenAiStub::stream(peer, request);
  });
  const EndpointPoint point = measure(stub, scenario(2));
  EXPECT_EQ(point.run.metrics.output_tokens_mean, 3);
  ASSERT_EQ(warnings(point).size(), 1U);
  EXPECT_TRUE(warnings(point)[0].starts_with("short_answers: 2 of 2"));
}

// ---- outcomes ---------------------------------------------------------------------------------------------------

struct Case {
  std::string answer;  // everything that the server sends before it closes the connection
  const char* code;
};

TEST(MeasureEndpoint, EveryBadAnswerHasItsClass) {
  const std::string head = stream_head(), token = chunked("data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
  const std::string plain = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  std::string deep, endless_header;
  for (int i = 0; i < 2000; ++i) {
    deep += R"({"a":)";
    endless_header += "X: " + std::string(100, 'a') + "\r\n";
  }
  for (const Case& given : {
           Case{with_length(429, "application/json", "{}"), "too_many_requests"},
           Case{with_length(503, "text/plain", "busy"), "unavailable"},
           Case{with_length(400, "application/json", "{}"), "bad_request"},
           Case{with_length(422, "application/json", "{}"), "unprocessable"},
           Case{with_length(500, "text/html", "<h1>"), "failed: server_error"},
           Case{with_length(502, "text/html", ""), "failed: bad_gateway"},
           Case{with_length(504, "text/html", ""), "failed: gateway_timeout"},
           Case{with_length(302, "text/html", ""), "failed: redirect"},
           Case{with_length(200, "text/html", "<h1>"), "failed: content_type"},
           Case{plain + "Content-Encoding: gzip\r\n\r\n\x1f\x8b", "failed: compressed"},
           Case{head + chunked("data: {broken\n\n"), "failed: malformed_stream"},
           Case{head + token + chunked("data: {\"error\":{\"message\":\"out of memory\"}}\n\n"), "failed: error_event"},
           Case{head + token, "failed: cut_stream"},
           Case{head + token + "0\r\n\r\n", "failed: cut_stream"},
           Case{head + "3\r\nlies\r\n0\r\n\r\n", "failed: malformed_http"},
           Case{head + "FFFFFFFFFFFFFFFFFF\r\nx", "failed: malformed_http"},
           Case{"HTTP/1.1 200 OK\r\n" + endless_header, "failed: malformed_http"},
           Case{head + chunked("data: " + deep + "\n\n"), "failed: malformed_stream"},
           Case{head + chunked("data: {\"choices\":[{\"text\":\"\xff\"}]}\n\n"), "failed: malformed_stream"},
           Case{head + chunked("data: [DONE]\n\n") + "0\r\n\r\n", "failed: empty_answer"},
           Case{"garbage\r\n\r\n", "failed: malformed_http"},
           Case{"", "failed: connection_closed"},
       }) {
    const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
      peer.send(given.answer);
      peer.hang_up();
    });
    const EndpointPoint point = measure(stub, scenario(1));
    EXPECT_EQ(point.run.failure, "") << given.code;
    EXPECT_EQ(point.run.metrics.requests_completed, 0) << given.code;
    ASSERT_EQ(point.run.metrics.rejections.size(), 1U) << given.code;
    EXPECT_EQ(point.run.metrics.rejections.begin()->first, given.code);
  }
}

// HTTP/1.0 ends a stream by closing the connection, and some servers separate events by CR LF.
TEST(MeasureEndpoint, TakesStreamsOfOlderServers) {
  const OpenAiStub stub([](net::CannedPeer& peer, const nlohmann::json&) {
    peer.send(
        "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n: hello\r\n\r\n"
        "data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n"
        "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}\r\n\r\n");
    peer.hang_up();
  });
  const EndpointPoint point = measure(stub, scenario(2));
  EXPECT_EQ(point.run.metrics.requests_completed, 2);
  EXPECT_EQ(point.run.metrics.output_tokens_mean, 2);
  EXPECT_EQ(counts_text(point.figures), "chunks");
}

// TGI identifies the token of every message, and states the total with the last one.
TEST(MeasureEndpoint, CountsByWhatTheServerNames) {
  const std::string token = "data: {\"token\":{\"id\":7,\"text\":\"a\"}}\n\n";
  const std::string last =
      "data: {\"token\":{\"id\":7,\"text\":\"a\"},\"generated_text\":\"aaa\","
      "\"details\":{\"finish_reason\":\"length\",\"generated_tokens\":3}}\n\n";
  const std::string text = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
  const std::string total =
      "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],"
      "\"usage\":{\"completion_tokens\":3}}\n\n";
  for (const auto& [events, count] :
       {std::pair(token + token + last, TokenCount::ids), std::pair(text + text + total, TokenCount::usage_at_end),
        std::pair(text + text + text + total, TokenCount::usage_at_end)}) {
    const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
      peer.send(stream_head() + chunked(events) + chunked("data: [DONE]\n\n") + "0\r\n\r\n");
    });
    const EndpointPoint point = measure(stub, scenario(1));
    EXPECT_EQ(point.run.metrics.output_tokens_mean, 3);
    EXPECT_EQ(counts_text(point.figures), name(count));
  }
}

// Here, answers of one token state usage only at their end, and others in every piece. Both ways of counting are
// reported.
TEST(MeasureEndpoint, EveryWayOfCountingIsTold) {
  EndpointFigures figures;
  figures.counts = {0, 0, 1, 99};
  EXPECT_EQ(counts_text(figures), "usage at the end x 1; usage in every chunk x 99");
}

// A stream reports its end but stays open: the user continues, and the next send time is known.
TEST(MeasureEndpoint, AnAnswerEndsWithItsLastMessageThoughTheConnectionStaysOpen) {
  std::atomic<int> seen{0};
  const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
    ++seen;
    peer.send(stream_head() +
              chunked("data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"));
    while (seen < 2) std::this_thread::yield();
    peer.wait_closed();
  });
  const EndpointPoint point = measure(stub, scenario(2));
  EXPECT_EQ(point.run.metrics.requests_completed, 2);
  EXPECT_LT(point.figures.written_to_first.mean(), 60);
  EXPECT_EQ(point.figures.written_to_first.count(), 2);
}

// Failures are distinguished from refusals of a request, and by their classes.
TEST(MeasureEndpoint, FailuresAreCountedByTheirClass) {
  std::atomic<int> seen{0};
  const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
    const int status = std::array{502, 422, 429, 502}.at(static_cast<std::size_t>(seen++));
    peer.send(with_length(status, "application/json", "{}"));
  });
  load::Scenario open = scenario(4);
  open.workload.load = load::ConstantRate{.rate = 1000};
  const EndpointPoint point = measure(stub, open);
  EXPECT_EQ(point.figures.refused, 1);
  EXPECT_EQ(point.figures.failures, (std::map<std::string, std::int64_t>{{"bad_gateway", 2}}));
  EXPECT_EQ(point.run.metrics.requests_rejected, 4);
}

// A server that takes ignore_eos and min_tokens only one at a time gets one of them.
TEST(Server, FeaturesAreProbedTogether) {
  OpenAiStub stub;
  stub.refused_together = {"min_tokens", "ignore_eos"};
  const Server server(settings(stub));
  EXPECT_TRUE(server.facts().features.min_tokens);
  EXPECT_FALSE(server.facts().features.ignore_eos);
  EXPECT_TRUE(server.facts().features.continuous_usage);
}

// `transformers serve` accepts max_completion_tokens and answers with up to 1024 tokens: max_tokens limits them.
TEST(Server, AnIgnoredLimitOfTheAnswerIsNotUsed) {
  OpenAiStub stub;
  stub.ignored_fields = {"max_completion_tokens"};
  ServerSettings chat = settings(stub);
  chat.api = Api::openai_chat;
  Server server(chat);
  EXPECT_EQ(server.facts().refused, std::vector<std::string>{"max_completion_tokens"});
  (void)measure_point(scenario(1), server, Prompts(1, 1000), {});
  ASSERT_EQ(stub.requests().size(), 1U);
  EXPECT_TRUE(stub.requests()[0].contains("max_tokens"));
}

TEST(MeasureEndpoint, AnEndlessLineOrAnswerIsCutOff) {
  for (const std::string& part : {std::string(65536, 'x'), std::string("data: {\"choices\":[{\"text\":\"a\"}]}\n\n")}) {
    const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
      peer.send(stream_head() + chunked("data: "));
      while (peer.send(chunked(part))) {}
    });
    const EndpointPoint point = measure(stub, scenario(1));
    EXPECT_EQ(point.run.metrics.requests_completed, 0);
    EXPECT_EQ(point.run.metrics.requests_rejected, 1);
  }
}

TEST(MeasureEndpoint, ARefusalOfAccessEndsTheRun) {
  const OpenAiStub stub([](net::CannedPeer& peer, const nlohmann::json&) {
    peer.send(with_length(403, "application/json", R"({"error":{"message":"no access"}})"));
  });
  const EndpointPoint point = measure(stub, scenario(5));
  EXPECT_TRUE(point.run.stopped);
  EXPECT_NE(point.run.failure.find("status 403: no access"), std::string::npos);
}

// A request is retried as often as the study states, and not more.
TEST(MeasureEndpoint, RetriesAreTheStudys) {
  std::atomic<int> seen{0};
  const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json& request) {
    if (++seen == 1)
      peer.send("HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    else
      OpenAiStub::stream(peer, request);
  });
  load::Scenario once = scenario(1);
  once.limits.retries = 1;
  const EndpointPoint point = measure(stub, once);
  EXPECT_EQ(point.run.metrics.requests_completed, 1);
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(point.figures.retry_after.at("7"), 1);
}

TEST(MeasureEndpoint, ATimeOutClosesTheConnection) {
  std::atomic<bool> closed{false};
  const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
    peer.wait_closed();
    closed = true;
  });
  load::Scenario hasty = scenario(1);
  hasty.limits.timeout = Seconds(0.05);
  const EndpointPoint point = measure(stub, hasty);
  EXPECT_EQ(point.run.metrics.requests_timed_out, 1);
  while (!closed) std::this_thread::yield();
}

TEST(MeasureEndpoint, AStopEndsTheRunAtOnce) {
  std::stop_source stop;
  const OpenAiStub stub([&](net::CannedPeer& peer, const nlohmann::json&) {
    stop.request_stop();
    peer.wait_closed();
  });
  sched::RunOptions options;
  options.stop = stop.get_token();
  EXPECT_TRUE(measure(stub, scenario(1), options).run.stopped);
}

// ---- before the run -------------------------------------------------------------------------------------------------

TEST(Server, SeveralModelsNeedAChoice) {
  OpenAiStub stub;
  stub.models = R"({"data":[{"id":"a"},{"id":"b"}]})";
  try {
    const Server server(settings(stub));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("a, b"), std::string::npos);
  }
  ServerSettings chosen = settings(stub);
  chosen.served_model = "b";
  EXPECT_EQ(Server(chosen).facts().model, "b");
}

// llama.cpp states how many requests it serves at once, and the context of each.
TEST(Server, LlamaCppStatesItsSlots) {
  OpenAiStub stub;
  stub.models = R"({"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":512}}]})";
  stub.props = R"({"total_slots":8,"default_generation_settings":{"n_ctx":512}})";
  const Server server(settings(stub));
  EXPECT_EQ(server.facts().engine, "llama.cpp");
  EXPECT_EQ(server.facts().slots, 8);
  EXPECT_EQ(server.facts().state.kv_blocks, 8 * 512);
  EXPECT_EQ(server.facts().state.block_tokens, 1);
  stub.props = R"({"total_slots":"8"})";
  EXPECT_FALSE(Server(settings(stub)).facts().slots);
}

// A 4 GB answer to a query about the server is read only up to the limit and then ignored.
TEST(Server, AnEndlessPageIsCutOff) {
  const net::CannedServer server([](net::CannedPeer& peer) {
    for (std::string text = peer.request(); !text.empty(); text = peer.request()) {
      if (!text.starts_with("GET /v1/models")) {
        (void)peer.send(with_length(404, "text/plain", ""));
        continue;
      }
      (void)peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000000000\r\n\r\n");
      while (peer.send(std::string(65536, '['))) {}
    }
  });
  ServerSettings given;
  given.http.server = net::parse_url(server.url(), "--endpoint");
  EXPECT_THROW(const Server asked(given), DeviceError);
}

TEST(Server, SaysWhatItIsAndWhatItAllows) {
  const OpenAiStub stub;
  const Server server(settings(stub));
  EXPECT_EQ(server.facts().label(), "vLLM 0.9");
  EXPECT_EQ(misfit(server.facts(), 4096), "");
  EXPECT_NE(misfit(server.facts(), 4097).find("4096"), std::string::npos);
}

TEST(Server, KeysAreInNoMessage) {
  OpenAiStub stub;
  stub.models = "{}";
  stub.refused_fields = {"prompt"};
  ServerSettings with_key = settings(stub);
  with_key.secrets = {"unknown"};  // a word of the stub's error message
  try {
    const Server server(with_key);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(std::string(error.what()).find("unknown"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("[...] field"), std::string::npos);
  }
}

TEST(ServerState, ReadsWhatServersSayOfThemselves) {
  const ServerState state = read_server_state(
      "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n"
      "vllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} "
      "0.7\n"
      "vllm:num_preemptions_total 9\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n");
  EXPECT_EQ(state.running, 7);
  EXPECT_EQ(state.waiting, 2);
  EXPECT_DOUBLE_EQ(state.kv_use.value_or(0), 0.6);
  EXPECT_EQ(state.preemptions, 9);
  EXPECT_EQ(state.kv_blocks, 100);
  EXPECT_EQ(state.block_tokens, 16);
}

// Sizes that no server can have would overflow where they are multiplied.
TEST(ServerState, IgnoresSizesThatNoServerCanHave) {
  const auto blocks = [](const std::string& count) {
    return read_server_state("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"" + count + "\"} 1\n")
        .kv_blocks;
  };
  EXPECT_EQ(blocks("1"), 1);
  EXPECT_EQ(blocks("1000000000000"), 1e12);
  for (const char* const wrong : {"0", "1000000000001", "-1", "1e3", "None", ""})
    EXPECT_EQ(blocks(wrong), std::nullopt) << wrong;
  EXPECT_EQ(blocks(std::string(400, '9')), std::nullopt);
}

// A server that states 0 or 2^31 - 1 prompt tokens does not count them, so prompts keep one word for each token.
TEST(Server, CountsOfPromptTokensThatCannotBeAreNotLearnt) {
  for (const std::string stated : {"0", "2147483647", "1e300", "-5"}) {
    OpenAiStub stub;
    stub.refused_fields = {"token ids"};
    stub.stated_prompt_tokens = stated;
    Server server(settings(stub));
    Prompts prompts(1, 1000);
    server.learn_words(prompts);
    if (stated == "0" || stated == "-5") {
      EXPECT_FALSE(server.facts().counts_prompts) << stated;
      EXPECT_FALSE(server.facts().features.usage) << stated;
    }
    const std::string text = prompts.text({.serial = 1, .input = 50, .hashes = {}});
    EXPECT_LE(text.size(), 20U * 50 * 12);  // at most 20 words a token, of at most 11 letters and a space
  }
}

}  // namespace
}  // namespace plimsoll::endpoints
