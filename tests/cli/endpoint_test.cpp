// SPDX-License-Identifier: Apache-2.0
// `measure` and `validate` with --endpoint, run as a user does, against a server in this process.
#include <gmock/gmock.h>

#include "tests/cli/command_fixture.h"
#include "tests/endpoints/openai_stub.h"

namespace plimsoll::study {
namespace {

using endpoints::OpenAiStub;
using ::testing::HasSubstr;
using ::testing::Not;

class EndpointTest : public CommandTest {
 protected:
  [[nodiscard]] std::string study(const std::string& more = "") const {
    return write("study.yaml",
                 "model: llama-2-7b\ndtype: fp16\nhardware: ml.p4d.24xlarge\nengine: vllm-0.12\ndeployment: {tp: 1}\n"
                 "workload:\n  load: {closed_loop: {concurrency: 2}}\n  lengths: {input: 20, output: 8}\n"
                 "  requests: 6\n" +
                     more);
  }
  [[nodiscard]] std::string points() const { return read_text(file("out/points.csv")); }
};

TEST_F(EndpointTest, APointOfOtherHardwareIsMeasuredOnAServer) {
  const OpenAiStub stub;
  const Outcome out = run("measure " + study() + " --requests --out " + file("out") + " --endpoint " + stub.url());
  ASSERT_EQ(out.exit, 0) << out.output;
  EXPECT_THAT(points(), HasSubstr("\nmeasured,llama-2-7b,ml.p4d.24xlarge,vLLM 0.9,fp16,1,1,"));
  EXPECT_EQ(stub.requests().size(), 6U);
  EXPECT_THAT(read_text(file("out/endpoint.csv")), HasSubstr("\n0,openai,stub,6,0,"));
  EXPECT_THAT(read_text(file("out/requests.csv")), HasSubstr("completed"));
}

// Stored results of a server are reused, but not for another study, and not as results of a simulation.
TEST_F(EndpointTest, ARunContinuesWhereItEnded) {
  const OpenAiStub stub;
  const std::string command = "measure " + study("sweep: {workload.concurrency: [1, 2]}\n") + " --out " + file("out") +
                              " --endpoint " + stub.url();
  ASSERT_EQ(run(command).exit, 0);
  const std::string before = points(), figures = read_text(file("out/endpoint.csv"));
  const Outcome again = run(command);
  EXPECT_THAT(again.output, HasSubstr("2 of 2 points were already in"));
  EXPECT_EQ(points(), before);
  EXPECT_EQ(read_text(file("out/endpoint.csv")), figures);
  EXPECT_EQ(stub.requests().size(), 12U);
  ASSERT_EQ(run("simulate " + file("study.yaml") + " --out " + file("out")).exit, 0);
  EXPECT_THAT(points(), Not(HasSubstr("measured")));
}

TEST_F(EndpointTest, ValidatePrintsPredictedBesideMeasured) {
  const OpenAiStub stub;
  const std::string sweep = study("sweep: {workload.concurrency: [1, 2]}\n");
  const Outcome out = run("validate " + sweep + " --out " + file("out") + " --endpoint " + stub.url());
  ASSERT_EQ(out.exit, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("output tokens/s: median absolute error"));
  EXPECT_THAT(read_text(file("out/comparison.csv")), HasSubstr("predicted TTFT ms,measured TTFT ms,error TTFT ms"));
  EXPECT_THAT(read_text(file("out/comparison.html")), HasSubstr("<svg"));
  EXPECT_EQ(run("validate " + study() + " --max-error 1 --endpoint " + stub.url()).exit, 4);
}

// A client that gives up closes its connection, whatever the study says of servers that go on computing.
TEST_F(EndpointTest, ClientsThatGiveUpArePredictedToCancel) {
  const OpenAiStub stub;
  const std::string command = "validate " + study("limits: {timeout: 10 s}\n") + " --endpoint " + stub.url();
  EXPECT_THAT(run(command).output, HasSubstr("predicted as with limits.cancel_on_timeout: true"));
  EXPECT_THAT(run(command + " --set limits.cancel_on_timeout=true").output, Not(HasSubstr("cancel_on_timeout")));
}

// Answers of one token have no time per token, and neither has their prediction.
TEST_F(EndpointTest, AnswersThatEndEarlyArePredictedWithTheirOwnLengths) {
  const OpenAiStub stub([](net::CannedPeer& peer, nlohmann::json request) {
    request["max_tokens"] = 1;
    OpenAiStub::stream(peer, request);
  });
  const Outcome out = run("validate " + study() + " --out " + file("out") + " --endpoint " + stub.url());
  ASSERT_EQ(out.exit, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("predicted with output lengths drawn from the measured answers"));
  EXPECT_THAT(read_text(file("out/comparison.csv")), HasSubstr(",,,\n"));
}

// A server that schedules by priority is sent the field; other servers are not.
TEST_F(EndpointTest, PrioritiesNeedAServerThatTakesThem) {
  const std::string urgent = study("scheduler: {scheduling: priority}\n");
  const std::string command = "measure " + urgent + " --set 'workload.priorities={-1: 1}' --endpoint ";
  const OpenAiStub stub;
  ASSERT_EQ(run(command + stub.url()).exit, 0);
  EXPECT_EQ(stub.requests().back().at("priority"), -1);
  OpenAiStub plain;
  plain.refused_fields = {"priority"};
  const Outcome refused = run(command + plain.url());
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.output, HasSubstr("the server takes no priorities"));
}

// 6 requests of 20 + 8 tokens are 120 and 48 tokens; at 2 and 10 USD per million they cost less than a cent.
TEST_F(EndpointTest, ADryRunSendsNothing) {
  const Outcome out = run("measure " + study() + " --dry-run --price 2000,10000 --endpoint http://127.0.0.1:1");
  EXPECT_EQ(out.exit, 0);
  EXPECT_THAT(out.output, HasSubstr("6 requests, 120 input tokens, 48 output tokens"));
  EXPECT_THAT(out.output, HasSubstr("cost: 0.72 USD"));
}

TEST_F(EndpointTest, ALargeRunIsNotStartedUnasked) {
  const Outcome out =
      run("measure " + study() + " --set workload.requests=200000 --endpoint http://127.0.0.1:1 </dev/null");
  EXPECT_EQ(out.exit, 2);
  EXPECT_THAT(out.output, HasSubstr("200000 requests"));
  EXPECT_THAT(out.output, HasSubstr("--yes"));
}

TEST_F(EndpointTest, AKeyIsSentAndShownNowhere) {
  OpenAiStub stub;
  ::setenv("TEST_KEY", "secret-key-of-the-test", 1);
  const Outcome out =
      run("measure " + study() + " --out " + file("out") + " --api-key-env TEST_KEY --endpoint " + stub.url());
  EXPECT_EQ(out.exit, 0) << out.output;
  EXPECT_THAT(stub.last_header(), HasSubstr("Authorization: Bearer secret-key-of-the-test"));
  EXPECT_THAT(out.output, Not(HasSubstr("secret-key")));
  EXPECT_EQ(shell("grep -r secret-key " + file("out")).exit, 1);
  ::unsetenv("TEST_KEY");
}

TEST_F(EndpointTest, SaysInOneLineWhatIsWrong) {
  ::setenv("TEST_KEY", "k", 1);
  const std::vector<std::array<std::string, 3>> cases{
      {"http://user:secret-word@127.0.0.1:1", "2", "user information"},
      {"ftp://127.0.0.1", "2", "http:// or https://"},
      {"http://127.0.0.1:1", "3", "refused"},
      {"http://127.0.0.1:1 --api-key-env NOT_SET", "2", "has no variable NOT_SET"},
      {"http://192.0.2.1 --api-key-env TEST_KEY", "2", "unencrypted"},
      {"http://127.0.0.1:1 --header broken", "2", "NAME=ENV"},
      {"http://127.0.0.1:1 --api grpc", "2", "allowed: openai, openai-chat, tgi, lmi"},
      {"http://127.0.0.1:1 --device cpu", "2", "runs on this machine"},
      {"https://127.0.0.1:1 --ca-file /none.pem", "2", "/none.pem"}};
  for (const auto& [options, exit, text] : cases) {
    const Outcome out = run("measure " + study() + " --endpoint " + options);
    EXPECT_EQ(std::to_string(out.exit), exit) << options << out.output;
    EXPECT_THAT(out.output, HasSubstr(text)) << options;
    EXPECT_THAT(out.output, Not(HasSubstr("secret-word")));
  }
  ::unsetenv("TEST_KEY");
}

TEST_F(EndpointTest, LengthsBeyondTheServersLimitAreRefusedBeforeTheRun) {
  const OpenAiStub stub;
  const Outcome out = run("measure " + study() + " --set workload.lengths.input=4090 --endpoint " + stub.url());
  EXPECT_EQ(out.exit, 2);
  EXPECT_THAT(out.output, HasSubstr("4098 tokens, the server allows 4096"));
  EXPECT_TRUE(stub.requests().empty());
}

// The server answers three requests and disappears: what was measured until then is kept as a separate point.
TEST_F(EndpointTest, AServerThatDiesKeepsTheMeasuredPoints) {
  std::atomic<int> answered{0};
  auto stub = std::make_unique<OpenAiStub>([&](net::CannedPeer& peer, const nlohmann::json& request) {
    if (++answered <= 6)
      OpenAiStub::stream(peer, request);
    else
      peer.close_server();
  });
  const Outcome out = run("measure " + study("sweep: {workload.concurrency: [1, 2]}\n") + " --out " + file("out") +
                          " --endpoint " + stub->url());
  EXPECT_EQ(out.exit, 3) << out.output;
  EXPECT_THAT(out.output, HasSubstr("the server is gone"));
  EXPECT_THAT(points(), HasSubstr("\n1,measured,"));
  EXPECT_THAT(points(), Not(HasSubstr("\n2,measured,")));
}

}  // namespace
}  // namespace plimsoll::study
