// SPDX-License-Identifier: GPL-3.0-or-later
// The displayed curves: the points delivered for the newest request, and the previous complete curves, which stay
// (greyed) until enough new points have arrived. The model is also a table, so that every chart has an accessible
// equivalent.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/core/curve_lane.h"

namespace plimsoll::gui {

/// The points of one combination of swept values, sorted by load.
struct Curve {
  QString name;
  std::vector<LanePoint> points;  // sorted by load; estimates stay only until they are replaced
};

/// Belongs to one thread. Points of a generation other than the newest are ignored.
class CurveModel final : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit CurveModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

  // Slots for the signals of the lane.
  void begin(quint64 generation, const CurveOutline& outline);
  void add(quint64 generation, const std::vector<LanePoint>& points);
  /// All points of the study have arrived; older generations are dropped.
  void complete(quint64 generation);
  void clear();
  /// Shows the complete curves of another model. Points of earlier generations are ignored from now on.
  void adopt(const CurveModel& other);

  [[nodiscard]] const CurveOutline& outline() const { return outline_; }
  /// Returns the curves of the newest request.
  [[nodiscard]] const std::vector<Curve>& curves() const { return curves_; }
  /// Returns the complete curves of the previous request; empty once the new ones are complete.
  [[nodiscard]] const std::vector<Curve>& previous() const { return previous_; }
  /// Returns true once every study point of the newest request has arrived.
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// Returns the number of the study's simulated points that have arrived.
  [[nodiscard]] std::size_t simulated() const { return simulated_; }
  /// Returns the distinct reasons why points cannot run.
  [[nodiscard]] std::vector<QString> impossible() const;
  /// Returns what the estimated figures are based on; empty if all are calibrated.
  [[nodiscard]] QString extrapolates() const;
  /// Returns true if some simulated points are estimated and others are not.
  [[nodiscard]] bool extrapolates_in_part() const;
  /// Returns the study's points as `simulate` prints them, in sweep order.
  [[nodiscard]] std::vector<study::PointResult> results() const;
  /// Returns the point of a curve at exactly this load, or nullptr.
  [[nodiscard]] const LanePoint* find(std::size_t curve, double load) const;

  // The table: stage, curve, then the columns of points.csv.
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 Q_SIGNALS:
  void changed();  // emitted when any of the above changes

 private:
  void insert(const LanePoint& point);
  [[nodiscard]] const std::vector<const LanePoint*>& rows() const;
  quint64 generation_ = 0;
  CurveOutline outline_;
  std::vector<Curve> curves_, previous_;
  mutable std::vector<const LanePoint*> rows_;  // rows of the table, filled on demand
  bool complete_ = false;
  std::size_t simulated_ = 0;
};

/// Returns the stage in words for the user.
[[nodiscard]] QString stage_name(PointStage stage);

}  // namespace plimsoll::gui
