// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stop_token>

#include "cli/load_study.h"
#include "cli/ranks_module.h"
#include "model/error.h"
#include "study/run/bands.h"
#include "study/run/digest.h"
#include "study/output/metrics_record.h"
#include "study/plan/trial.h"
#include "study/run/resolve.h"

namespace plimsoll::cli {
namespace {

constexpr std::size_t kMeetingSize = 4096;
constexpr std::string_view kFailed = "failed ";

// Equal texts: the same program simulates the same points.
std::string greeting_of(const study::Study& study, const Parsed& parsed) {
  std::string text = study::hex(study::program_digest()) + study::hex(study::digest_of_folders(study.catalogue().folders())) + study.resolved_yaml();
  for (const std::string& file : study.point_file(0).files) text += study::hex(study::digest_of_file(file));
  return study::hex(study::digest_of(text + (parsed.common.stepwise ? "stepwise" : "")));
}

/// Answers tasks of one study.
class Follower {
 public:
  Follower(const study::Study& study, bool stepwise) : study_(study), stepwise_(stepwise) {}

  // "" for what cannot be done here: the leader then does it and says why.
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
        const auto metrics = study::plan::simulate_trial(candidate, trial->trial, stepwise_, options);
        return metrics ? study::metrics_record(*metrics) : std::string();
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
    run.beyond_measured.insert(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return run;
}

bool Ranks::is_surplus(std::string_view verb) {
  if (ranks_of_mpirun() < 2) return false;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::atoi(rank) != 0) return true;
  throw InputError(fmt::format("mpirun started {} ranks, but {} is one process; start it without mpirun", ranks_of_mpirun(), verb));
}

std::unique_ptr<Ranks> Ranks::join() {
  if (ranks_of_mpirun() < 2) return nullptr;
  const RanksModule module;
  std::unique_ptr<Ranks> ranks(new Ranks);
  const Introduction place = module.begin();
  ranks->rank_ = place.rank;
  ranks->count_ = place.count;
  std::array<char, kMeetingSize> text{};
  if (ranks->rank_ == 0) {
    ranks->crew_ = std::make_unique<study::RankCrew>(place.one_host);
    const std::string meeting = ranks->crew_->meeting().text();
    std::memcpy(text.data(), meeting.data(), std::min(meeting.size(), text.size() - 1));
  }
  module.share(text);
  module.end();                        // from here on a rank may die without taking the others along
  ranks->meeting_ = study::Meeting::read(text.data());
  return ranks;
}

void Ranks::open(const study::Study& study, const Parsed& parsed) {
  jobs_ = std::max(1, parsed.common.jobs);
  crew_->open(static_cast<std::size_t>(jobs_), greeting_of(study, parsed), [this](const std::string& greeting) {
    const bool failed = greeting.starts_with(kFailed);
    const std::lock_guard lock(mutex_);
    strangers_.push_back(failed ? greeting.substr(kFailed.size()) : "it has another program, catalogue or study");
  });
}

std::string Ranks::run(const std::string& task, study::RunControl& control, const std::function<std::string()>& here) {
  const auto give_up = [&control] {
    control.look_in();
    return control.cancelled();
  };
  return crew_->run(task, give_up, here);
}

void Ranks::close(Console& console) const {
  console.note(fmt::format("{} of the simulations were done by the other {}", crew_->answered(), count_ == 2 ? "rank" : fmt::format("{} ranks", count_ - 1)));
  const std::lock_guard lock(mutex_);
  for (const std::string& stranger : strangers_) console.warn("a rank took no part: " + stranger);
  if (crew_->lost() > 0) {
    console.warn(fmt::format("{} task{} of ranks that died {} done again by others", crew_->lost(), crew_->lost() == 1 ? "" : "s", crew_->lost() == 1 ? "was" : "were"));
  }
}

void Ranks::follow(const Usage& usage, const std::vector<std::string>& arguments) const {
  Console mute;
  mute.configure(ProgressMode::none, true);
  const auto leave = [this](const std::string& why) {
    static_cast<void>(study::follow(meeting_, fmt::format("{}rank {} on {}: {}", kFailed, rank_, study::host_name(), why), 1,
                                    [](const std::string&, const std::function<bool()>&) { return std::string(); }));
  };
  try {
    const auto parsed = parse_arguments(usage, arguments, mute);
    if (!parsed) return;
    const study::Study study = load_study(*parsed, mute);
    Follower follower(study, parsed->common.stepwise);
    static_cast<void>(study::follow(meeting_, greeting_of(study, *parsed), static_cast<std::size_t>(std::max(1, parsed->common.jobs)),
                                    [&](const std::string& task, const std::function<bool()>& gone) { return follower.answer(task, gone); }));
  } catch (const InputError& error) {
    leave(error.what());
  } catch (const DeviceError& error) {
    leave(error.what());
  }
}

}  // namespace plimsoll::cli
