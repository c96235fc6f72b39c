// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/curve_lane.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "gui/core/coarse_order.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "study/run/bands.h"
#include "study/run/estimate.h"
#include "study/run/load_variation.h"
#include "study/run/resolve.h"
#include "study/run/simulate_point.h"

namespace plimsoll::gui {
namespace {

constexpr auto kMayFinish = std::chrono::milliseconds(100);
// Bands are computed only when input pauses: during a drag the cores belong to the curve and the window.
constexpr auto kRest = std::chrono::milliseconds(60);
constexpr std::size_t kShownEnough = 3;
// With as many busy threads as cores, the window would wait for their time slices. Higher values help it no further,
// and on a busy machine they delay the curve.
constexpr int kNicer = 5;

// Resolves one point of each curve. Studies with very many curves do not delay the first points.
std::vector<Footprint> footprints_of(const study::Study& study, const CurveGrid& grid) {
  constexpr std::size_t kMost = 32;
  std::vector<Footprint> out;
  for (std::size_t i = 0; i < grid.curve_of.size() && out.size() < std::min(kMost, grid.names.size()); ++i) {
    if (grid.curve_of[i] == out.size()) out.push_back(footprint_of(study::resolve_point(study, i)));
  }
  return out;
}

LaneFailure failure_of(const std::exception& error) {
  const auto* input = dynamic_cast<const InputError*>(&error);
  if (input == nullptr) return {qs(error.what()), {}};
  return {qs(input->text()), qs(input->where().file), static_cast<int>(input->where().line)};
}

PointRow row_of(study::PointResult result, std::int32_t pp) { return make_row(std::move(result), pp); }

}  // namespace

std::optional<LanePoint> simulate_lane_point(const study::Study& study, const LanePointSpec& spec,
                                             const std::stop_token& stop) {
  LanePoint out{spec.load ? PointStage::refined : PointStage::study, spec.curve, spec.index, {}};
  study::ResolvedPoint point;
  // A refined point lies between points of the study and differs from one of them in its load alone.
  if (spec.load) {
    auto varied = study::with_load_value(study.point(spec.index), *spec.load);
    if (!varied) return {};
    // The number of requests of a trace is fixed.
    if (spec.requests > 0 && !std::holds_alternative<load::TraceReplay>(varied->workload.load)) {
      varied->workload.requests = spec.requests;
      varied->workload.duration = {};
    }
    point = study::resolve_spec(std::move(*varied));
    point.result.index = spec.index;
  } else {
    point = study::resolve_point(study, spec.index);
  }
  const std::int32_t pp = point.scenario ? point.scenario->pp : 1;
  sim::RunOptions options;
  options.stop = stop;
  study::FinishedPoint finished = study::simulate_point(std::move(point), {.options = std::move(options)});
  if (finished.run.stopped) return {};
  out.row = row_of(std::move(finished.result), pp);
  return out;
}

enum class Phase : unsigned char { fresh, opening, points, refining, banding, done };

struct CurveLane::Job {
  Generation generation = 0;
  LaneRequest request;
  std::stop_source stop;
  Clock::time_point start = Clock::now();
  // All following members are guarded by the lane's mutex.
  Phase phase = Phase::fresh;
  std::unique_ptr<const study::Study> study;  // set once, before the phase `points`
  CurveGrid grid;
  std::deque<Task> tasks;
  std::size_t running = 0, shown = 0;
  std::vector<LanePoint> seen;  // the study's points, kept for refinement and bands
};

struct CurveLane::Delivery {
  enum class Kind : unsigned char { outline, points, study_done, finished, failed } kind = Kind::points;
  Generation generation = 0;
  CurveOutline outline;
  std::vector<LanePoint> points;
  double seconds = 0;
  LaneFailure failure;
};

CurveLane::CurveLane(std::shared_ptr<const configs::Catalogue> catalogue, int threads, QObject* parent)
    : QObject(parent), catalogue_(std::move(catalogue)) {
  const int count = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int i = 0; i < count; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

CurveLane::~CurveLane() {
  cancel();
  for (std::jthread& thread : threads_) thread.request_stop();
  wake_.notify_all();
}

CurveLane::Generation CurveLane::submit(LaneRequest request) {
  const std::lock_guard lock(mutex_);
  // While a slider is dragged, requests arrive faster than curves are finished. A curve that is nearly complete is
  // finished first, so that something is drawn during the drag.
  const bool may_finish =
      job_ && job_->phase == Phase::points && job_->shown >= kShownEnough && Clock::now() - job_->start < kMayFinish;
  pending_ = std::move(request);
  pending_generation_ = ++generation_;
  if (!may_finish) {
    oldest_wanted_ = pending_generation_;
    start_pending();
  }
  return pending_generation_;
}

// Requires the mutex.
void CurveLane::start_pending() {
  if (job_) job_->stop.request_stop();
  job_ = std::make_shared<Job>();
  job_->generation = pending_generation_;
  job_->request = std::move(*pending_);
  pending_.reset();
  wake_.notify_all();
}

void CurveLane::cancel() {
  const std::lock_guard lock(mutex_);
  if (job_) job_->stop.request_stop();
  job_.reset();
  pending_.reset();
  // Results of older jobs that are still under way are dropped when they arrive.
  oldest_wanted_ = ++generation_;
}

bool CurveLane::busy() const {
  const std::lock_guard lock(mutex_);
  return pending_.has_value() || (job_ && job_->phase != Phase::done);
}

void CurveLane::set_catalogue(std::shared_ptr<const configs::Catalogue> catalogue) {
  const std::lock_guard lock(mutex_);
  catalogue_ = std::move(catalogue);
}

void CurveLane::work(const std::stop_token& stop) {
  // Linux changes the priority of the calling thread alone.
  static_cast<void>(nice(kNicer));
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const bool woken =
        wake_.wait(lock, stop, [this] { return job_ && (job_->phase == Phase::fresh || !job_->tasks.empty()); });
    if (!woken) return;
    const std::shared_ptr<Job> job = job_;
    // The first thread to see a new job opens it; the others wait for its tasks.
    if (job->phase == Phase::fresh) {
      job->phase = Phase::opening;
      lock.unlock();
      open(*job);
      lock.lock();
      if (job->phase == Phase::opening) job->phase = Phase::points;
      wake_.notify_all();
      continue;
    }
    // Wait for a pause in the user's input. A new job ends the wait immediately.
    if (job->phase == Phase::banding && Clock::now() < job->start + kRest) {
      wake_.wait_until(lock, stop, job->start + kRest, [&] { return job_ != job; });
      continue;
    }
    const Task task = job->tasks.front();
    job->tasks.pop_front();
    ++job->running;
    lock.unlock();
    run_task(*job, task);
    lock.lock();
    --job->running;
    task_done(job);
  }
}

// Requires the mutex. The last task of a phase starts the next phase.
void CurveLane::task_done(const std::shared_ptr<Job>& job) {
  if (job->running > 0 || !job->tasks.empty() || job->phase == Phase::done || job != job_) return;
  if (job->phase == Phase::points) {
    const double seconds = std::chrono::duration<double>(Clock::now() - job->start).count();
    post({.kind = Delivery::Kind::study_done,
          .generation = job->generation,
          .outline = {},
          .points = {},
          .seconds = seconds,
          .failure = {}});
    // The study's points are complete, so a waiting request takes precedence over refinement and bands.
    if (pending_) {
      start_pending();
      return;
    }
    job->phase = Phase::refining;
    if (job->request.refine) plan_refinement(*job);
    wake_.notify_all();
  }
  if (!job->tasks.empty()) return;
  if (job->phase == Phase::refining && job->request.bands) {
    job->phase = Phase::banding;
    for (std::size_t i = 0; i < job->seen.size(); ++i) job->tasks.push_back({i, job->seen[i].curve, {}, true});
    wake_.notify_all();
    if (!job->tasks.empty()) return;
  }
  job->phase = Phase::done;
  post({.kind = Delivery::Kind::finished,
        .generation = job->generation,
        .outline = {},
        .points = {},
        .seconds = 0,
        .failure = {}});
}

// A copy of the pointer: a job keeps its catalogue while the window loads another.
std::shared_ptr<const configs::Catalogue> CurveLane::catalogue() const {
  const std::lock_guard lock(mutex_);
  return catalogue_;
}

void CurveLane::open(Job& job) {
  try {
    // Read without holding the mutex, so that submit() never waits for a file.
    const auto known = catalogue();
    auto study = std::make_unique<const study::Study>(make_study(job.request.scenario, known));
    CurveGrid grid = curve_grid(*study);
    CurveOutline outline;
    outline.title = qs(study->title());
    outline.curves = grid.names;
    outline.swept_keys = study->swept_keys();
    outline.points = study->point_count();
    const study::PointSpec first = study->point(0);
    outline.notes = first.notes;
    outline.slo = first.slo;
    outline.defaults = field_defaults(job.request.scenario, first, known);
    outline.setup = setup_of(first);
    outline.footprints = footprints_of(*study, grid);
    const std::lock_guard lock(mutex_);
    job.study = std::move(study);
    job.grid = std::move(grid);
    post({.kind = Delivery::Kind::outline,
          .generation = job.generation,
          .outline = std::move(outline),
          .points = {},
          .seconds = 0,
          .failure = {}});
  } catch (const std::exception& error) {
    fail(job, failure_of(error));
    return;
  }
  estimate(job);
  const std::lock_guard lock(mutex_);
  // Queue the tasks only now, because the estimates must be shown before the first simulated point.
  for (const std::size_t index : job.grid.order) job.tasks.push_back({index, job.grid.curve_of[index], {}});
}

// Estimates only the first points of a study with thousands of points; they already fill the window.
void CurveLane::estimate(Job& job) {
  constexpr std::size_t kMaxCount = 200;
  Delivery delivery;
  delivery.generation = job.generation;
  try {
    for (std::size_t i = 0; i < std::min(kMaxCount, job.grid.order.size()) && !job.stop.stop_requested(); ++i) {
      const std::size_t index = job.grid.order[i];
      study::ResolvedPoint point = study::resolve_point(*job.study, index);
      // The closed form applies to a single pool only.
      if (!point.scenario || point.scenario->pools) continue;
      point.result.metrics = study::estimate_point(*point.scenario);
      if (!point.result.metrics) continue;
      delivery.points.push_back(
          {PointStage::estimate, job.grid.curve_of[index], index, row_of(std::move(point.result), point.scenario->pp)});
    }
  } catch (const std::exception&) {
    delivery.points.clear();  // the simulation fails with the same error and reports it then
  }
  const std::lock_guard lock(mutex_);
  post(std::move(delivery));
}

// Adds a band to the point of `task.index`: simulates it twice more, with the times at their lower and upper end.
void CurveLane::add_band(Job& job, const Task& task) {
  LanePoint out;
  {
    const std::lock_guard lock(mutex_);
    // Copy the point under the lock, because other threads append to `seen`.
    out = job.seen[task.index];
  }
  if (!out.row.result.metrics) return;
  try {
    const study::ResolvedPoint point = study::resolve_point(*job.study, out.index);
    const bool beyond_measured = out.row.result.extrapolates != point.result.extrapolates;  // added by the run itself
    study::add_bands(*point.scenario, beyond_measured, *out.row.result.metrics, job.stop.get_token());
    if (job.stop.stop_requested()) return;
    out.row = row_of(std::move(out.row.result), point.scenario->pp);
  } catch (const std::exception& error) {
    fail(job, failure_of(error));
    return;
  }
  const std::lock_guard lock(mutex_);
  Delivery delivery;
  delivery.generation = job.generation;
  delivery.points.push_back(std::move(out));
  post(std::move(delivery));
}

void CurveLane::run_task(Job& job, const Task& task) {
  if (job.stop.stop_requested()) return;
  if (task.band) {
    add_band(job, task);
    return;
  }
  std::optional<LanePoint> out;
  try {
    out = simulate_lane_point(*job.study, {task.index, task.curve, task.load}, job.stop.get_token());
    // A newer request has replaced this one, whose points are no longer shown.
    if (!out) return;
  } catch (const std::exception& error) {
    fail(job, failure_of(error));
    return;
  }
  const std::lock_guard lock(mutex_);
  ++job.shown;
  if (out->stage == PointStage::study) job.seen.push_back(*out);
  Delivery delivery;
  delivery.generation = job.generation;
  delivery.points.push_back(std::move(*out));
  post(std::move(delivery));
}

// Requires the mutex.
void CurveLane::plan_refinement(Job& job) {
  for (const Refinement& point : refinements(job.grid, job.seen, job.request.slo_limit_s)) {
    job.tasks.push_back({point.index, point.curve, point.load});
  }
}

void CurveLane::fail(Job& job, LaneFailure failure) {
  const std::lock_guard lock(mutex_);
  // Only the first failure of a job is reported.
  if (job.phase == Phase::done) return;
  job.stop.request_stop();
  job.tasks.clear();
  job.phase = Phase::done;
  post({.kind = Delivery::Kind::failed,
        .generation = job.generation,
        .outline = {},
        .points = {},
        .seconds = 0,
        .failure = std::move(failure)});
  if (pending_ && job_.get() == &job) start_pending();
}

// Requires the mutex. Posts a single event for all deliveries that accumulate until the window handles it.
void CurveLane::post(Delivery delivery) {
  outbox_.push_back(std::move(delivery));
  if (delivery_posted_) return;
  delivery_posted_ = true;
  QMetaObject::invokeMethod(this, &CurveLane::deliver, Qt::QueuedConnection);
}

void CurveLane::deliver() {
  std::vector<Delivery> box;
  Generation oldest = 0, shown = 0;
  {
    const std::lock_guard lock(mutex_);
    box.swap(outbox_);
    delivery_posted_ = false;
    oldest = oldest_wanted_;
  }
  // Consecutive points of a generation become one signal, so that the window redraws once.
  std::vector<LanePoint> gathered;
  const auto flush = [&] {
    if (!gathered.empty()) Q_EMIT points(shown, gathered);
    gathered.clear();
  };
  for (Delivery& delivery : box) {
    // The job was replaced after this delivery had been posted.
    if (delivery.generation < oldest) continue;
    if (delivery.generation != shown) flush();
    shown = delivery.generation;
    if (delivery.kind == Delivery::Kind::points) {
      std::move(delivery.points.begin(), delivery.points.end(), std::back_inserter(gathered));
      continue;
    }
    flush();
    switch (delivery.kind) {
      case Delivery::Kind::outline: Q_EMIT outlined(shown, delivery.outline); break;
      case Delivery::Kind::study_done: Q_EMIT study_done(shown, delivery.seconds); break;
      case Delivery::Kind::finished: Q_EMIT finished(shown); break;
      case Delivery::Kind::failed: Q_EMIT failed(shown, delivery.failure); break;
      case Delivery::Kind::points: break;
    }
  }
  flush();
}

}  // namespace plimsoll::gui
