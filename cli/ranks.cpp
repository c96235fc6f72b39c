// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stop_token>

#include "cli/ranks_module.h"
#include "cli/stated_study.h"
#include "model/error.h"
#include "net/endpoint.h"
#include "study/output/metrics_record.h"
#include "study/plan/trial.h"
#include "study/run/bands.h"
#include "study/run/digest.h"
#include "study/run/resolve.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kFailed = "failed ";

std::string_view reason(study::RankCrew::Loss loss) {
  switch (loss) {
    case study::RankCrew::Loss::died: return "died";
    case study::RankCrew::Loss::silent: return "sent no more heartbeats";
    case study::RankCrew::Loss::unreadable: return "sent an unreadable answer";
  }
  return {};
}

// Processes with equal texts run the same program and simulate the same points.
std::string greeting_of(const study::Study& study, const Parsed& parsed) {
  std::string text = study::hex(study::program_digest()) +
                     study::hex(study::digest_of_folders(study.catalogue().content_folders())) + study.resolved_yaml();
  for (const std::string& file : study.point_file(0).files) text += study::hex(study::digest_of_file(file));
  return study::hex(study::digest_of(text + (parsed.common.stepwise ? "stepwise" : "")));
}

/// Answers tasks of one study.
class Follower {
 public:
  Follower(const study::Study& study, bool stepwise) : study_(study), stepwise_(stepwise) {}

  // Returns the answer to a task. If the task fails here, returns "": the leader then does it and reports the reason.
  std::string answer(const std::string& task, const std::function<bool()>& gone) {
    std::stop_source stop;
    sim::RunOptions options;
    options.stop = stop.get_token();
    options.progress = [&](double) {
      if (gone()) stop.request_stop();
    };
    try {
      if (const auto trial = study::plan::read_trial_task(task)) {
        const study::plan::Candidate& candidate = question(trial->question).candidates.at(trial->trial.candidate);
        const auto run = study::plan::simulate_trial(candidate, trial->trial, stepwise_, options);
        return run ? study::metrics_record(run->metrics) : std::string();
      }
      study::ResolvedPoint point = study::resolve_point(study_, std::stoul(task));
      if (!point.scenario) return {};
      point.scenario->stepwise = stepwise_;
      return point_answer(study::simulate_with_bands(*point.scenario, options));
    } catch (const std::exception&) {
      return {};
    }
  }

 private:
  const study::plan::Question& question(std::size_t index) {
    const std::lock_guard lock(mutex_);
    const auto found = questions_.find(index);
    if (found != questions_.end()) return found->second;
    return questions_.emplace(index, study::plan::make_question(study_, index)).first->second;
  }

  const study::Study& study_;
  bool stepwise_;
  std::mutex mutex_;
  std::map<std::size_t, study::plan::Question> questions_;
};

}  // namespace

std::string point_answer(const sim::RunResult& run) {
  if (run.stopped) return {};
  std::string text = study::metrics_record(run.metrics);
  for (const std::string& why : run.beyond_measured) text += '\n' + why;
  if (!run.fleet.empty()) text += '\n' + study::fleet_record(run.fleet);
  return text;
}

sim::RunResult read_point_answer(const std::string& text) {
  sim::RunResult run;
  run.stopped = text.empty();
  if (run.stopped) return run;
  std::size_t end = text.find('\n');
  run.metrics = study::read_metrics_record(std::string_view(text).substr(0, end));
  while (end != std::string::npos) {
    const std::size_t begin = end + 1;
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (auto fleet = study::read_fleet_record(line))
      run.fleet = std::move(*fleet);
    else
      run.beyond_measured.insert(line);
  }
  return run;
}

bool is_point_answer(const std::string& text) {
  try {
    static_cast<void>(read_point_answer(text));
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

bool is_trial_answer(const std::string& text) { return text.find('\n') == std::string::npos && is_point_answer(text); }

void Ranks::refuse_several(std::string_view verb) {
  const int count = ranks_of_mpirun();
  if (count < 2) return;
  if (own_rank_of_mpirun() != 0) let_mpirun_end_this();
  throw InputError(fmt::format("mpirun started {} ranks, but {} is one process; start it without mpirun", count, verb));
}

std::unique_ptr<Ranks> Ranks::join() {
  if (ranks_of_mpirun() < 2) return nullptr;
  const RanksModule module;
  std::unique_ptr<Ranks> ranks(new Ranks);
  const Introduction place = module.begin();
  ranks->rank_ = place.rank;
  ranks->count_ = place.count;
  const std::vector<std::string> addresses = module.listening_addresses(place);
  if (ranks->rank_ == 0) ranks->crew_ = std::make_unique<study::RankCrew>(addresses);
  const std::string meeting = module.share(ranks->crew_ ? ranks->crew_->meeting().text() : std::string());
  // Connect before MPI ends: until then, rank 0 cannot have exited.
  if (ranks->rank_ != 0)
    ranks->leader_ =
        std::make_unique<study::RankLeader>(net::Meeting::read(meeting), study::RankName::own(ranks->rank_));
  module.end();  // from here on, a dying rank does not end the others
  return ranks;
}

void Ranks::open(const study::Study& study, const Parsed& parsed) {
  jobs_ = std::max(1, parsed.common.jobs);
  crew_->open(static_cast<std::size_t>(jobs_), greeting_of(study, parsed), [this](const std::string& greeting) {
    const bool failed = greeting.starts_with(kFailed);
    const std::lock_guard lock(mutex_);
    strangers_.push_back(failed ? greeting.substr(kFailed.size()) : "its program, catalogue or study differs");
  });
}

std::string Ranks::run(const std::string& task, study::RunControl& control, const std::function<std::string()>& here,
                       const study::RankCrew::IsAnswer& is_answer) {
  const auto give_up = [&control] {
    control.look_in();
    return control.cancelled();
  };
  return crew_->run(task, give_up, here, is_answer);
}

void Ranks::close(Console& console) const {
  console.note(fmt::format("{} of the simulations were done by the other {}", crew_->answered(),
                           count_ == 2 ? "rank" : fmt::format("{} ranks", count_ - 1)));
  const std::lock_guard lock(mutex_);
  for (const std::string& stranger : strangers_) console.warn("a rank took no part: " + stranger);
  for (const study::RankCrew::Lost& lost : crew_->lost()) {
    console.warn(fmt::format("rank {} on {} {}: {} task{} repeated by others", lost.rank.rank, lost.rank.host,
                             reason(lost.loss), lost.tasks, lost.tasks == 1 ? " was" : "s were"));
    if (lost.loss == study::RankCrew::Loss::silent && lost.rank.host != net::host_name())
      console.warn(
          fmt::format("mpirun waits until process {} on {} continues or is killed", lost.rank.process, lost.rank.host));
  }
}

void Ranks::follow(const Usage& usage, const std::vector<std::string>& arguments) {
  using End = study::RankLeader::End;
  Console mute;
  mute.configure(ProgressMode::none, true);
  // A rank that cannot read the study sends the reason to the leader instead of its greeting.
  const auto leave = [this](const std::string& why) {
    const std::string greeting = fmt::format("{}rank {} on {}: {}", kFailed, rank_, net::host_name(), why);
    return leader_->follow(greeting.substr(0, net::Lobby::kMaxNext), 1,
                           [](const std::string&, const std::function<bool()>&) { return std::string(); });
  };
  const auto serve = [&] {
    try {
      const auto parsed = parse_arguments(usage, arguments, mute);
      if (!parsed) return End::done;
      const study::Study study = load_study(*parsed, mute);
      Follower follower(study, parsed->common.stepwise);
      return leader_->follow(
          greeting_of(study, *parsed), static_cast<std::size_t>(std::max(1, parsed->common.jobs)),
          [&](const std::string& task, const std::function<bool()>& gone) { return follower.answer(task, gone); });
    } catch (const InputError& error) {
      return leave(error.what());
    } catch (const DeviceError& error) {
      return leave(error.what());
    }
  };
  if (serve() != End::lost) return;
  let_mpirun_end_this();
  throw DeviceError(fmt::format("rank {} on {}: rank 0 ended before the end of the run", rank_, net::host_name()));
}

}  // namespace plimsoll::cli
