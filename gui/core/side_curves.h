// SPDX-License-Identifier: GPL-3.0-or-later
// The curves of all scenarios but the one that is edited. One thread computes them, one scenario after the other, and
// stops while the edited scenario's own curves are computed. Finished curves are kept for a while, so that returning to
// an earlier scenario or an earlier value shows them at once.
#pragma once

#include <QObject>
#include <memory>
#include <optional>
#include <vector>

#include "gui/core/curve_lane.h"
#include "gui/core/curve_model.h"

namespace plimsoll::gui {

/// Everything that the curves of a scenario depend on, apart from the catalogue. Equal questions have equal answers.
struct CurveQuestion {
  std::string file, text;
  study::Overrides edits;
  double limit_s = 0;  // points are refined around this latency per token; 0 if the limit is on another metric
  bool operator==(const CurveQuestion&) const = default;
};

/// Belongs to one thread.
class SideCurves final : public QObject {
  Q_OBJECT
 public:
  struct Wanted {
    QString name;  // unique among the scenarios
    CurveQuestion question;
    LaneRequest request;
  };
  explicit SideCurves(std::shared_ptr<const configs::Catalogue> catalogue, QObject* parent = nullptr);
  ~SideCurves() override;

  /// Replaces the scenarios to compute. Those with a known answer are not computed again. A scenario whose question has
  /// changed keeps its former curves as previous() until the new ones are complete.
  void want(std::vector<Wanted> wanted);
  /// Stops the computation, or continues it. A scenario that is interrupted starts again.
  void hold(bool held);
  /// Returns the curves of a wanted scenario, which may be empty so far; nullptr if it is not wanted.
  [[nodiscard]] const CurveModel* curves(const QString& name) const;
  /// Returns why a wanted scenario has no curves; nullptr if it has.
  [[nodiscard]] const LaneFailure* failure(const QString& name) const;
  /// Stores finished curves that were computed elsewhere.
  void put(const CurveQuestion& question, const CurveModel& curves);
  /// Copies known finished curves to `into`. Returns false if there are none.
  [[nodiscard]] bool take(const CurveQuestion& question, CurveModel& into) const;
  /// Returns true while a wanted scenario is not finished.
  [[nodiscard]] bool busy() const;
  /// Forgets everything: answers depend on the catalogue, which is not part of the question.
  void set_catalogue(std::shared_ptr<const configs::Catalogue> catalogue);

 Q_SIGNALS:
  void changed();
  void settled();  // the last wanted scenario is finished

 private:
  enum class State : unsigned char { waiting, running, done };
  struct Entry {
    QString name;
    CurveQuestion question;
    LaneRequest request;
    std::unique_ptr<CurveModel> curves;
    std::optional<LaneFailure> failure;
    State state = State::waiting;
  };
  [[nodiscard]] const Entry* find(const QString& name) const;
  [[nodiscard]] Entry* running();
  void connect_lane();
  void interrupt();
  void start_next();
  void end_running();
  void keep(Entry entry);
  static constexpr std::size_t kKept = 16;  // finished curves of scenarios that are not wanted now
  std::vector<Entry> wanted_, kept_;        // kept_: the most recent last
  bool held_ = false;
  CurveLane lane_;  // last member, so that it stops first
};

}  // namespace plimsoll::gui
