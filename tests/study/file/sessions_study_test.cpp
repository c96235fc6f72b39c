// SPDX-License-Identifier: Apache-2.0
// How a study states sessions, routers with options, priorities and graph sizes, and what it refuses.
#include <gmock/gmock.h>

#include "load/load_kind.h"
#include "model/error.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

const std::string kHead = "engine: vllm-0.12\nmodel: llama-3.1-8b\nhardware: {accelerator: h100-sxm, count: 2}\n";
const std::string kTalk = "turns: 5, first: 800, added: 60, output: 40";

class SessionsStudy : public StudyFolder {
 protected:
  [[nodiscard]] PointSpec with_load(const std::string& load, const std::string& more = "") const {
    return read(kHead + "workload: {load: {" + load + "}" + more + "}\n").point(0);
  }
  [[nodiscard]] std::string refusal(const std::string& yaml) const {
    try {
      static_cast<void>(read(yaml).point(0));
    } catch (const InputError& error) {
      EXPECT_GT(error.where().line, 0U) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << yaml;
    return {};
  }
  [[nodiscard]] std::string load_refusal(const std::string& load, const std::string& more = "") const {
    return refusal(kHead + "workload: {load: {" + load + "}" + more + "}\n");
  }
};

// The keys of the specification.
TEST_F(SessionsStudy, AClosedPopulationIsReadWithItsDistributions) {
  const PointSpec spec = with_load(
      "sessions: {concurrency: 32, turns: {geometric: {mean: 12}}, think: {lognormal: {mean: 20 s, cv: 1}}, first: "
      "8000, added: 600, output: 400, tools: {share: 0.8, gap: 2 s, added: 1200}, longest: 90000, count: 7}");
  const auto& sessions = std::get<load::Sessions>(spec.workload.load);
  EXPECT_EQ(sessions.concurrency, 32);
  EXPECT_EQ(load::length_mean(sessions.talk.turns), 12);
  EXPECT_EQ(sessions.talk.think, (load::Pause{load::PauseFamily::lognormal, 20, 1, 0, 0}));
  EXPECT_EQ(sessions.talk.tool_share, 0.8);
  EXPECT_EQ(sessions.talk.tool, (load::Pause{.mean = 2}));
  EXPECT_EQ(load::length_mean(sessions.talk.result), 1200);
  EXPECT_EQ(sessions.talk.longest, 90000);
  EXPECT_EQ(sessions.talk.count, 7);
  const auto& lengths = std::get<load::IndependentLengths>(spec.workload.lengths);
  EXPECT_EQ(load::length_mean(lengths.input), 8000);
  EXPECT_EQ(load::length_mean(lengths.output), 400);
  EXPECT_EQ(spec.workload.requests, 0) << "the sessions end the load";
  EXPECT_EQ(with_load("sessions: {concurrency: 1, " + kTalk + "}").workload.requests, 1000);
}

TEST_F(SessionsStudy, AnOpenPopulationHasARate) {
  const PointSpec spec = with_load("sessions: {rate: 2 /s, cv: 3, " + kTalk + "}");
  EXPECT_EQ(std::get<load::SessionArrivals>(spec.workload.load).rate, 2);
  EXPECT_EQ(std::get<load::SessionArrivals>(spec.workload.load).cv, 3);
  EXPECT_EQ(load::load_kind(spec.workload.load), "session_arrivals");
  EXPECT_EQ(with_load("session_arrivals: {rate: 2 /s, " + kTalk + "}").workload.load.index(),
            spec.workload.load.index());
}

TEST_F(SessionsStudy, ASweepSetsTheirNumberAndTheirRate) {
  const std::string study = kHead + "workload: {load: {sessions: {concurrency: 4, " + kTalk + "}}}\n";
  const Study swept = read(study + "sweep: {workload.concurrency: [1, 8]}\n");
  EXPECT_EQ(load::load_value(swept.point(1).workload.load), 8);
  const Study rates =
      read(kHead + "workload: {load: {sessions: {rate: 1 /s, " + kTalk + "}}}\nsweep: {workload.rate: [1 /s, 3 /s]}\n");
  EXPECT_EQ(load::load_value(rates.point(1).workload.load), 3);
}

TEST_F(SessionsStudy, RefusesWhatDescribesNoSessions) {
  EXPECT_THAT(load_refusal("sessions: {" + kTalk + "}"), HasSubstr("concurrency"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, rate: 1 /s, " + kTalk + "}"), HasSubstr("state one"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, cv: 1, " + kTalk + "}"), HasSubstr("rate"));
  EXPECT_THAT(load_refusal("session_arrivals: {concurrency: 1, " + kTalk + "}"), HasSubstr("rate"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, turns: 5}"), HasSubstr("added"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, " + kTalk + ", tools: {gap: 1 s}}"), HasSubstr("share"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, " + kTalk + ", think: {lognormal: {cv: 1}}}"),
              HasSubstr("mean"));
  EXPECT_THAT(load_refusal("sessions: {concurrency: 1, " + kTalk + "}", ", lengths: {input: 1, output: 1}"),
              HasSubstr("own lengths"));
}

// A session that outgrows the model is refused there; the study says so before the run.
TEST_F(SessionsStudy, NotesSessionsThatOutgrowTheModel) {
  const auto notes =
      with_load("sessions: {concurrency: 1, turns: 300, first: 8000, added: 600, output: 400}").load_notes;
  ASSERT_FALSE(notes.empty());
  EXPECT_THAT(notes.front(), HasSubstr("longest"));
}

TEST_F(SessionsStudy, NotesThatNothingIsCached) {
  const std::string load = "workload: {load: {sessions: {concurrency: 1, " + kTalk + "}}}\n";
  EXPECT_TRUE(read(kHead + load).point(0).load_notes.empty());
  EXPECT_THAT(read(kHead + "scheduler: {prefix_caching: false}\n" + load).point(0).load_notes,
              ::testing::ElementsAre(HasSubstr("prefix caching is off")));
}

TEST_F(SessionsStudy, ATraceMayBeReplayedByItsSessions) {
  write("t.csv", "arrival_s,input_tokens,output_tokens,session\n0,5,5,1\n1,20,5,1\n");
  write("plain.csv", "arrival_s,input_tokens,output_tokens\n0,5,5\n1,20,5\n");
  write("a.jsonl",
        "{\"arrival_time_ns\": 0, \"sub_requests\": [{\"input_toks\": 5, \"output_toks\": 5}, "
        "{\"input_toks\": 20, \"output_toks\": 5}]}\n");
  const auto follows = [&](const std::string& trace) {
    return std::get<load::TraceReplay>(with_load("trace: {" + trace + "}").workload.load).after_answers;
  };
  EXPECT_FALSE(follows("file: t.csv"));
  EXPECT_FALSE(follows("file: t.csv, turns: recorded"));
  EXPECT_TRUE(follows("file: t.csv, turns: after_answers"));
  EXPECT_TRUE(follows("file: a.jsonl")) << "its turns have no time of their own";
  EXPECT_THAT(load_refusal("trace: {file: a.jsonl, turns: recorded}"), HasSubstr("after_answers"));
  EXPECT_THAT(load_refusal("trace: {file: plain.csv, turns: after_answers}"), HasSubstr("neither sessions nor blocks"));
  EXPECT_THAT(load_refusal("trace: {file: t.csv, turns: after_answers}", ", lengths: {input: 1, output: 1}"),
              HasSubstr("own lengths"));
}

// A replay reports what it infers: sessions from blocks, or shared content from lengths.
TEST_F(SessionsStudy, NotesWhatAReplayInfers) {
  write("b.jsonl", "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}\n");
  write("t.csv", "arrival_s,input_tokens,output_tokens,session\n0,5,5,1\n1,20,5,1\n");
  EXPECT_THAT(with_load("trace: {file: b.jsonl, turns: after_answers}").load_notes,
              ::testing::ElementsAre(HasSubstr("names no sessions")));
  EXPECT_THAT(with_load("trace: {file: t.csv, turns: after_answers}").load_notes,
              ::testing::ElementsAre(HasSubstr("has no block ids")));
  EXPECT_TRUE(with_load("trace: {file: t.csv}").load_notes.empty());
}

TEST_F(SessionsStudy, ARouterMayHaveOptions) {
  const auto deployment = [&](const std::string& router) {
    return read(kHead + "deployment: {replicas: 2, router: " + router + "}\n" +
                "workload: {load: {sessions: {rate: 1 /s, " + kTalk + "}}}\n")
        .point(0)
        .deployment;
  };
  EXPECT_EQ(deployment("vllm_dp").router, sched::RouterKind::vllm_dp);
  const Deployment scored = deployment("{policy: scored, prefix: 3, queue: 2, kv: 0, stale: 10 ms}");
  EXPECT_EQ(scored.router, sched::RouterKind::scored);
  EXPECT_EQ(scored.router_options.prefix, 3);
  EXPECT_EQ(scored.router_options.kv, 0);
  EXPECT_EQ(scored.router_options.report_every, 10'000'000);
  const Deployment dynamo = deployment("{policy: dynamo, overlap: 1, temperature: 0}");
  EXPECT_EQ(dynamo.router, sched::RouterKind::dynamo);
  for (const char* const bad : {"{policy: dynamo, stale: 1 s}", "{prefix: 2}", "{policy: nosuch}", "nosuch",
                                "{policy: scored, prefix: -1}", "{policy: round_robin, stale: 1 s}"})
    EXPECT_FALSE(refusal(kHead + "deployment: {replicas: 2, router: " + bad +
                         "}\nworkload: {load: {sessions: {rate: 1 /s, " + kTalk + "}}}\n")
                     .empty())
        << bad;
}

// Both notations mean the same.
TEST_F(SessionsStudy, PrioritiesMayBeAListOfValuesAndShares) {
  const auto classes = [&](const std::string& text) {
    return with_load("burst: {count: 4}", ", lengths: {input: 1, output: 1}, priorities: " + text).workload.priorities;
  };
  EXPECT_EQ(classes("[{value: 0, share: 0.2}, {value: 7, share: 0.8}]"), classes("{0: 0.2, 7: 0.8}"));
  EXPECT_THAT(load_refusal("burst: {count: 4}", ", lengths: {input: 1, output: 1}, priorities: [{value: 0}]"),
              HasSubstr("share"));
}

// vLLM's sizes follow from the scheduler: twice 16 sequences.
TEST_F(SessionsStudy, GraphSizesFollowTheScheduler) {
  const auto sizes = [&](const std::string& graphs) {
    return read(kHead + "engine_graphs: " + graphs +
                "\nscheduler: {max_running: 16}\nworkload: {load: {burst: {count: 1}}, lengths: {input: 1, output: "
                "1}}\n")
        .point(0)
        .engine->graph_sizes;
  };
  EXPECT_EQ(sizes("vllm"), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32}));
  EXPECT_EQ(sizes("sglang"), (std::vector<std::int64_t>{1, 2, 4, 8, 12, 16}));
  EXPECT_EQ(sizes("trtllm"), (std::vector<std::int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(sizes("tgi"), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(sizes("[1, 5]"), (std::vector<std::int64_t>{1, 5}));
  EXPECT_TRUE(sizes("off").empty());
  EXPECT_FALSE(refusal(kHead + "engine_graphs: [5, 1]\nworkload: {load: {burst: {count: 1}}, lengths: {input: 1, "
                               "output: 1}}\n")
                   .empty());
}

// The written study gives the same points again, with all the new keys.
TEST_F(SessionsStudy, TheResolvedStudyGivesTheSamePoints) {
  write("t.csv", "arrival_s,input_tokens,output_tokens,session\n0,50,5,1\n1,200,5,1\n");
  for (const std::string load : {"sessions: {concurrency: 3, turns: {geometric: {mean: 3}}, think: 1 s, first: 80, "
                                 "added: 20, output: 9, count: 6}",
                                 "sessions: {rate: 2 /s, turns: 2, first: 80, added: 20, output: 9}",
                                 "trace: {file: t.csv, turns: after_answers}"}) {
    const std::string yaml = kHead +
                             "engine_graphs: vllm\ndeployment: {replicas: 2, router: {policy: scored, stale: 20 ms}}\n"
                             "workload: {load: {" +
                             load + "}, priorities: [{value: 1, share: 1}], requests: 20}\n";
    const Study study = read(yaml);
    const Study again = read(study.resolved_yaml());
    EXPECT_EQ(points_csv({}, run_study(study, {}).points), points_csv({}, run_study(again, {}).points)) << load;
  }
}

TEST_F(SessionsStudy, NoMeasuredRunSendsTurns) {
  EXPECT_THROW(refuse_turns(with_load("sessions: {concurrency: 1, " + kTalk + "}")), InputError);
  EXPECT_NO_THROW(refuse_turns(with_load("burst: {count: 1}", ", lengths: {input: 1, output: 1}")));
}

}  // namespace
}  // namespace plimsoll::study
