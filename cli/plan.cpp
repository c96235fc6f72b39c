// SPDX-License-Identifier: Apache-2.0
// plimsoll plan STUDY: finds the deployment that carries the load at the least cost.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/ranks.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "cli/verb_parts.h"
#include "model/error.h"
#include "study/deploy/deployment_manifests.h"
#include "study/output/write_file.h"
#include "study/plan/search.h"
#include "study/plan/together.h"
#include "study/plan/view.h"
#include "study/run/slo_text.h"

namespace plimsoll::cli {
namespace {

using study::plan::QuestionAnswer;

Usage plan_usage() {
  Usage usage{
      .verb = "plan",
      .positional = "STUDY",
      .summary =
          "Searches instance types, TP degrees, replicas, batch limits, policies and number types for the cheapest\n"
          "deployment that meets the study's SLO (or the best by another objective), and says why the others lose.\n\n"
          "The study states model, engine, workload and slo as for `simulate`, and what may vary:\n\n"
          "  slo: {p90_latency: 20 s, p99_ttft: 2 s}\n"
          "  search:\n"
          "    instances: [ml.g5.2xlarge, ml.g5.12xlarge, ml.p4d.24xlarge]\n"
          "    tp: [1, 2, 4, 8]                 # default: all that an instance holds\n"
          "    replicas: [1, 2, 4, 8, 16]       # default: 1 to 128; or replicas_per_instance and instance_count\n"
          "    max_running: [32, 128]           # also policies, step_token_budget, mem_fraction, dtype, routers\n"
          "    max_usd_per_hour: 100            # also max_gpus\n"
          "    objective: cost                  # or gpus, latency, throughput, capacity, cost_per_token\n"
          "    confidence: 0.95\n\n"
          "A sweep asks the question for each of its points. `models: [{model: ..., workload.rate: ...}, ...]` asks\n"
          "for several models on the same instances. `mpirun -n N plimsoll plan ...` spreads the simulations over\n"
          "processes. --out DIR writes report.html, ranking.csv, plan.json, curve.csv, winner.yaml (a study for\n"
          "`simulate`), the winner's server settings, and its manifests in deploy/ (docs/deployments.md). The file\n"
          "results.sqlite in DIR lets an interrupted search continue. Exit code 4: nothing meets the SLO.\n"
          "docs/plan.md explains an example.",
      .example =
          "  plimsoll plan --model llama-3.1-70b --hardware 8xh100 --rate 4 --input 1000 --output 300 --slo "
          "p99_ttft=1s,p99_tpot=50ms\n"
          "  plimsoll plan configs/studies/plan-jumpstart.yaml\n"
          "  plimsoll plan configs/studies/plan-jumpstart.yaml --set model=llama-2-13b --set search.objective=gpus "
          "--out out/plan\n",
      .positional_required = false,
      .options = po::options_description("Of the plan"),
      .study_options = StudyOptions::search,
      .pools = true};
  auto add = usage.options.add_options();
  add("rows", po::value<std::size_t>()->default_value(15)->value_name("N"), "deployments in the table");
  add_schema_option(usage.options);
  return usage;
}

// Returns the folder of one question: DIR itself, or DIR/question-K in a sweep.
std::string folder_of(const std::string& out, const study::Study& study, std::size_t index) {
  return study.point_count() == 1 ? out : fmt::format("{}/question-{}", out, index);
}

// Returns the manifests of the winner; empty without a winner.
std::vector<study::deploy::ManifestFile> manifests_of(const study::Study& study, const QuestionAnswer& finding,
                                                      const std::string& schemas) {
  if (!finding.answer.winner) return {};
  const study::plan::Candidate& winner = finding.question.candidates[*finding.answer.winner];
  const std::string yaml = study.point_file(finding.question.index, winner.settings).yaml;
  return study::deploy::manifest_files(winner.spec, configs::Document::from_text(yaml, study.file()).root(),
                                       winner.name, schemas);
}

void write_finding(const study::Study& study, const QuestionAnswer& finding, const std::string& folder) {
  if (!finding.answer.winner) return;
  study::make_folder(folder);
  const study::plan::Candidate& winner = finding.question.candidates[*finding.answer.winner];
  study::write_file(folder + "/winner.yaml", "# SPDX-License-Identifier: Apache-2.0\n" +
                                                 study.point_file(finding.question.index, winner.settings).yaml);
  study::write_file(folder + "/curve.csv", study::plan::curve_csv(finding));
  for (const auto& file : study::plan::deploy_files_of(winner)) study::write_file(folder + '/' + file.name, file.text);
}

class Planner {
 public:
  Planner(const Parsed& parsed, const study::Study& study, Console& console, Ranks* ranks)
      : parsed_(parsed),
        study_(study),
        console_(console),
        ranks_(ranks),
        commands_(control_, console.is_jsonl()),
        schemas_(schema_folder(parsed)) {
    if (ranks_ != nullptr) ranks_->open(study_, parsed_);
    if (parsed.common.out.empty()) return;
    study::make_folder(parsed.common.out);
    store_ = std::make_unique<study::ResultStore>(parsed.common.out + "/results.sqlite");
    study::write_file(parsed.common.out + "/study.yaml", study.resolved_yaml());
  }

  int run() {
    for (std::size_t i = 0; i < study_.point_count() && !cancelled_; ++i) answer(i);
    if (store_) store_->commit();
    if (ranks_ != nullptr) ranks_->close(console_);
    write_tables();
    print();
    say_written();
    if (cancelled_) {
      console_.warn("interrupted: the answer rests on the simulations so far");
      return kInterrupted;
    }
    return report_failures();
  }

 private:
  void answer(std::size_t index) {
    QuestionAnswer finding{
        .question = study::plan::make_question(study_, index), .answer = {}, .swept = study_.swept_values(index)};
    refuse_empty(finding.question);
    if (parsed_.common.format != Format::table) {
      for (const std::string& note : finding.question.notes) console_.note(note);
    }
    study::plan::TrialSettings settings;
    settings.jobs = parsed_.common.jobs;
    settings.stepwise = parsed_.common.stepwise;
    settings.control = &control_;
    settings.store = store_.get();
    if (ranks_ != nullptr) {
      settings.jobs = ranks_->places();
      settings.spread = [this](const std::string& task, const std::function<std::string()>& here) {
        return ranks_->run(task, control_, here, is_trial_answer);
      };
    }
    settings.on_progress = [&](double done, std::size_t asked, double recalled) {
      console_.progress(done, asked, recalled);
    };
    const std::vector<std::string> columns =
        study::point_columns(study_.swept_keys(), study::plan::pool_columns_of(finding.question));
    settings.on_first = [&](const study::plan::Candidate& candidate, const sched::PointMetrics& metrics) {
      if (!console_.is_jsonl()) return;
      study::PointResult point = candidate.point;
      point.swept = finding.swept;
      point.metrics = metrics;
      const bool beyond = metrics.steady.grows;
      if (!candidate.spec.slo.empty()) point.missed_slo = study::missed_slo(candidate.spec.slo, metrics, beyond);
      console_.point(columns, point);
      console_.object("candidate", fmt::format("\"question\":{},", index) +
                                       study::plan::look_members(study_.swept_keys(), finding, candidate, metrics));
    };
    study::plan::Trials trials(finding.question, settings);
    finding.answer = study::plan::find_best(finding.question, trials,
                                            {.examine_winner = true, .fewest_on_each = shares_instances()});
    cancelled_ = finding.answer.cancelled;
    findings_.push_back(std::move(finding));
    if (!parsed_.common.out.empty()) {
      const std::string folder = folder_of(parsed_.common.out, study_, index);
      const auto manifests = manifests_of(study_, findings_.back(), schemas_);
      write_finding(study_, findings_.back(), folder);
      if (!manifests.empty()) {
        study::deploy::write_manifests(manifests, folder);
        for (const std::string& note : study::deploy::manifest_notes(manifests)) console_.note(note);
      }
    }
    if (console_.is_jsonl()) tell(index);
  }

  // Returns whether the study varies only its models.
  [[nodiscard]] bool shares_instances() const { return study_.swept_keys() == std::vector<std::string>{"models"}; }

  // Prints the answer as lines: its deployments, best first, then the details of the best.
  void tell(std::size_t index) {
    const QuestionAnswer& finding = findings_.back();
    const std::string question = fmt::format("\"question\":{},", index);
    for (const std::string& members : study::plan::ranking_members(study_.swept_keys(), finding))
      console_.object("ranking", question + members);
    console_.object("answer",
                    fmt::format("{}{},\"text\":{}", question, study::plan::answer_members(finding),
                                study::json_quoted(finding_text(finding, parsed_.values["rows"].as<std::size_t>()))));
  }

  // If every candidate is impossible, the study itself is invalid.
  static void refuse_empty(const study::plan::Question& question) {
    if (question.candidates.empty() || question.feasible > 0) return;
    throw InputError(question.spec.places.study,
                     "no deployment of the search is possible: " + question.candidates.front().excluded);
  }

  void write_tables() const {
    if (parsed_.common.out.empty()) return;
    study::write_file(parsed_.common.out + "/ranking.csv", study::plan::ranking_csv(study_.swept_keys(), findings_));
    if (shares_instances() && !cancelled_) {
      study::write_file(parsed_.common.out + "/together.csv",
                        study::plan::shared_csv(findings_, study::plan::share_instances(findings_)));
    }
    study::write_file(parsed_.common.out + "/plan.json", study::plan::findings_json(study_.swept_keys(), findings_));
    study::write_file(parsed_.common.out + "/report.html", study::plan::findings_html(study_, findings_));
  }

  void say_written() {
    if (parsed_.common.out.empty()) return;
    const bool won = std::any_of(findings_.begin(), findings_.end(),
                                 [](const QuestionAnswer& f) { return f.answer.winner.has_value(); });
    const std::string of_winner = study_.point_count() > 1
                                      ? ", and in question-N winner.yaml, curve.csv and files to deploy it"
                                      : ", winner.yaml, curve.csv and files to deploy it";
    console_.note(fmt::format("written to {}: report.html (open it in a browser), ranking.csv, plan.json, study.yaml{}",
                              parsed_.common.out, won ? of_winner : ""));
  }

  void print() {
    switch (parsed_.common.format) {
      case Format::csv: console_.print(study::plan::ranking_csv(study_.swept_keys(), findings_)); return;
      case Format::json: console_.print(study::plan::findings_json(study_.swept_keys(), findings_)); return;
      case Format::table: break;
    }
    for (const QuestionAnswer& finding : findings_) {
      const std::vector<std::string> keys = study_.swept_keys();
      std::string head = &finding == findings_.data() ? "" : "\n";
      for (std::size_t k = 0; k < keys.size(); ++k)
        head += (k > 0 ? ", " : "") + keys[k] + ' ' + study::plain_text(finding.swept[k]);
      console_.print((keys.empty() ? head : head + "\n") +
                     finding_text(finding, parsed_.values["rows"].as<std::size_t>()));
      print_curve(study::plan::winner_charts(finding), console_);
    }
    if (shares_instances() && !cancelled_)
      console_.print(study::plan::shared_text(findings_, study::plan::share_instances(findings_)));
  }

  int report_failures() {
    int code = kDone;
    for (const QuestionAnswer& finding : findings_) {
      if (finding.answer.winner) continue;
      code = kAnswerIsNo;
      console_.warn("nothing meets the SLO; " + study::plan::nearest_text(finding));
    }
    return code;
  }

  const Parsed& parsed_;
  const study::Study& study_;
  Console& console_;
  Ranks* ranks_ = nullptr;  // null: this is the only process
  study::RunControl control_;
  RunCommands commands_;
  std::string schemas_;  // of --schemas
  std::unique_ptr<study::ResultStore> store_;
  std::vector<QuestionAnswer> findings_;
  bool cancelled_ = false;
};

}  // namespace

int run_plan(const Arguments& arguments, Console& console) {
  const auto ranks = Ranks::join();
  if (ranks && !ranks->leads()) {
    ranks->follow(plan_usage(), arguments);
    return kDone;
  }
  const auto parsed = parse_arguments(plan_usage(), arguments, console);
  if (!parsed) return kDone;
  const study::Study study = load_study(*parsed, console);
  return Planner(*parsed, study, console, ranks.get()).run();
}

}  // namespace plimsoll::cli
