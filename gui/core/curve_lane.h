// SPDX-License-Identifier: GPL-3.0-or-later
// The interactive lane: a study in, its curve out, coarse to fine, on its own threads. A newer request replaces the one
// under way, so a slider that is dragged never waits for points that nobody wants any more.
//
// Order of a job: the study is read; a closed-form estimate of every point; the study's points from both ends and the
// middle inwards; then, as asked, points between them, marked refined, and the 90 % bands of the study's points, each
// of which comes once more with its band. What is final is exactly the study's points.
#pragma once

#include <QObject>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/field_defaults.h"
#include "gui/core/metrics.h"
#include "gui/core/scenario.h"
#include "study/file/study.h"

namespace plimsoll::gui {

enum class PointStage : unsigned char { estimate, study, refined };

struct LanePoint {
  PointStage stage = PointStage::study;
  std::size_t curve = 0;  // which curve: combination of the swept values other than the load's
  std::size_t index = 0;  // of the study; of a refined point, that of the study's point it was varied from
  PointRow row;
};

/// What is known of a study before its points are.
struct CurveOutline {
  QString title;
  std::vector<QString> curves;  // "tp 4"; one empty name where only the load is swept
  std::vector<std::string> swept_keys;
  std::size_t points = 0;
  std::vector<std::string> notes;
  sched::Slo slo;          // of the first point
  FieldDefaults defaults;  // of the first point: what its empty fields stand for
};

struct LaneRequest {
  Scenario scenario;
  bool refine = true;      // add points where the study's own are far apart
  bool bands = true;       // and bands to the study's own
  double slo_limit_s = 0;  // > 0: refine where latency_per_token_p90_s crosses this
};

struct LaneFailure {
  QString text;
  QString place;  // "file:line:column" or the edit that caused it; may be empty
};

class CurveLane final : public QObject {
  Q_OBJECT
 public:
  using Generation = std::uint64_t;
  /// `threads`: 0 for one a core.
  CurveLane(std::shared_ptr<const configs::Catalogue> catalogue, int threads, QObject* parent = nullptr);
  ~CurveLane() override;
  CurveLane(const CurveLane&) = delete;
  CurveLane& operator=(const CurveLane&) = delete;

  /// Replaces what is under way, unless that has shown three points already and is younger than 100 ms: then it may
  /// finish first, or a drag would show nothing. Returns at once.
  Generation submit(LaneRequest request);
  void cancel();
  [[nodiscard]] bool busy() const;
  /// For the jobs that are submitted from now on.
  void set_catalogue(std::shared_ptr<const configs::Catalogue> catalogue);

 Q_SIGNALS:
  // All in the thread of this object and in order; nothing of a generation that was superseded before it finished.
  void outlined(quint64 generation, const plimsoll::gui::CurveOutline& outline);
  void points(quint64 generation, const std::vector<plimsoll::gui::LanePoint>& points);
  /// Every point of the study has been handed over; refined ones and bands may follow.
  void study_done(quint64 generation, double seconds);
  void finished(quint64 generation);
  void failed(quint64 generation, const plimsoll::gui::LaneFailure& failure);

 private:
  using Clock = std::chrono::steady_clock;
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
  std::shared_ptr<Job> job_;  // shared: a superseded job lives until its last thread has left it
  std::optional<LaneRequest> pending_;
  Generation generation_ = 0, pending_generation_ = 0;
  Generation oldest_wanted_ = 0;  // what is older was superseded and is not handed over
  std::vector<Delivery> outbox_;
  bool delivery_posted_ = false;
  std::vector<std::jthread> threads_;  // last: they stop before the rest goes
};

}  // namespace plimsoll::gui
