// SPDX-License-Identifier: GPL-3.0-or-later
// The interactive lane computes a study's curve on its own threads, from coarse to fine. A newer request replaces the
// current one, so dragging a slider never waits for obsolete points.
//
// A job reads the study, estimates every point in closed form, and simulates the study's points, first both ends and
// then the middles. If requested, it adds points in between (marked as refined) and the 90 % bands of the study's
// points; each point is delivered again with its band. The final result has exactly the study's points.
#pragma once

#include <QObject>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/field_defaults.h"
#include "gui/core/footprint.h"
#include "gui/core/metrics.h"
#include "gui/core/scenario.h"
#include "study/file/study.h"

namespace plimsoll::gui {

/// How a point of a curve was obtained: the closed-form estimate, the simulation of a study point, or the simulation of
/// a point added in between.
enum class PointStage : unsigned char { estimate, study, refined };

/// A point as the lane delivers it.
struct LanePoint {
  PointStage stage = PointStage::study;
  std::size_t curve = 0;  // index of the curve: a combination of the swept values other than the load
  std::size_t index = 0;  // index of the study point (for refined points: of the study point they derive from)
  PointRow row;
};

/// A point to simulate: one of a study, or that point at another load.
struct LanePointSpec {
  std::size_t index = 0, curve = 0;
  std::optional<double> load;
  std::int64_t requests = 0;  // in a run; 0: as many as the study states. Needs a load
};
/// Simulates a point as the lane does. nullopt if it was stopped, or if the load has no value to change. Throws
/// InputError.
[[nodiscard]] std::optional<LanePoint> simulate_lane_point(const study::Study& study, const LanePointSpec& spec,
                                                           const std::stop_token& stop);

/// The properties of a study that are known before its points.
struct CurveOutline {
  QString title;
  std::vector<QString> curves;  // "tp 4"; a single empty name if only the load is swept
  std::vector<std::string> swept_keys;
  std::size_t points = 0;
  std::vector<std::string> notes;
  sched::Slo slo;                     // of the first point
  FieldDefaults defaults;             // of the first point: values for its empty fields
  Setup setup;                        // of the first point
  std::vector<Footprint> footprints;  // of the curves
};

/// A curve to compute.
struct LaneRequest {
  Scenario scenario;
  bool refine = true;      // add points where the study's own are far apart
  bool bands = true;       // add bands to the study's own points
  double slo_limit_s = 0;  // > 0: refine where latency_per_token_p90_s crosses this value
};

/// Why a job ended without a curve.
struct LaneFailure {
  QString text;
  QString place;  // the file or the edit at fault; may be empty
  int line = 0;   // in that file; 0: not known
};

/// The public functions belong to the thread of the object. The destructor stops the running job and joins the threads.
class CurveLane final : public QObject {
  Q_OBJECT
 public:
  using Generation = std::uint64_t;
  /// `threads` may be 0 for one per core.
  CurveLane(std::shared_ptr<const configs::Catalogue> catalogue, int threads, QObject* parent = nullptr);
  ~CurveLane() override;
  CurveLane(const CurveLane&) = delete;
  CurveLane& operator=(const CurveLane&) = delete;

  /// Starts a job and returns immediately. The new job replaces the current one, except that a job which has shown
  /// three points and is younger than 100 ms may finish first. Otherwise a drag would show nothing.
  Generation submit(LaneRequest request);
  /// Ends the current and the pending job without further signals.
  void cancel();
  /// Returns true while a job is running or pending.
  [[nodiscard]] bool busy() const;
  /// Sets the catalogue for jobs that are submitted from now on.
  void set_catalogue(std::shared_ptr<const configs::Catalogue> catalogue);

 Q_SIGNALS:
  // All signals are emitted in the thread of this object, in order. Nothing is emitted for a generation that was
  // replaced before it finished.
  /// The study has been read; points follow.
  void outlined(quint64 generation, const plimsoll::gui::CurveOutline& outline);
  /// Points that have become available, in any order. A later point replaces one of the same curve and load.
  void points(quint64 generation, const std::vector<plimsoll::gui::LanePoint>& points);
  /// Every point of the study has been delivered; refined points and bands may follow.
  void study_done(quint64 generation, double seconds);
  /// Refined points and bands have been delivered too; the job is done.
  void finished(quint64 generation);
  /// The study or a point is invalid. The job has ended.
  void failed(quint64 generation, const plimsoll::gui::LaneFailure& failure);

 private:
  using Clock = std::chrono::steady_clock;
  /// One simulation of a job: a study point, that point at another load, or the band of a point.
  struct Task {
    std::size_t index = 0, curve = 0;
    std::optional<double> load;
    bool band = false;
  };
  struct Job;
  struct Delivery;

  [[nodiscard]] std::shared_ptr<const configs::Catalogue> catalogue() const;
  void work(const std::stop_token& stop);
  void open(Job& job);
  void estimate(Job& job);
  void run_task(Job& job, const Task& task);
  void plan_refinement(Job& job);
  void add_band(Job& job, const Task& task);
  void task_done(const std::shared_ptr<Job>& job);
  void fail(Job& job, LaneFailure failure);
  void post(Delivery delivery);
  Q_INVOKABLE void deliver();
  void start_pending();

  std::shared_ptr<const configs::Catalogue> catalogue_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::shared_ptr<Job> job_;  // shared: a replaced job lives until its last thread leaves it
  std::optional<LaneRequest> pending_;
  Generation generation_ = 0, pending_generation_ = 0;
  Generation oldest_wanted_ = 0;  // results of older generations are discarded
  std::vector<Delivery> outbox_;
  bool delivery_posted_ = false;
  std::vector<std::jthread> threads_;  // last member: the threads stop before the others are destroyed
};

}  // namespace plimsoll::gui
