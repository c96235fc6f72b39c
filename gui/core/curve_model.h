// SPDX-License-Identifier: GPL-3.0-or-later
// The curves on show: what the lane has delivered for the newest request, and the complete curves before it, which stay
// (greyed) until the new ones have enough points to be seen. Also a table, so that every chart has its accessible twin.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "gui/core/curve_lane.h"

namespace plimsoll::gui {

struct Curve {
  QString name;
  std::vector<LanePoint> points;  // by load; estimates only until they are replaced
};

class CurveModel final : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit CurveModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

  // Called with what the lane says.
  void begin(quint64 generation, const CurveOutline& outline);
  void add(quint64 generation, const std::vector<LanePoint>& points);
  void complete(quint64 generation);
  void clear();

  [[nodiscard]] const CurveOutline& outline() const { return outline_; }
  /// Of the newest request.
  [[nodiscard]] const std::vector<Curve>& curves() const { return curves_; }
  /// The complete curves of the request before; empty once the new ones are complete.
  [[nodiscard]] const std::vector<Curve>& previous() const { return previous_; }
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// Simulated points of the study that have arrived.
  [[nodiscard]] std::size_t simulated() const { return simulated_; }
  /// Why points cannot exist: each reason once.
  [[nodiscard]] std::vector<QString> impossible() const;
  /// What the figures rest on where they are estimates; empty: calibrated.
  [[nodiscard]] QString extrapolates() const;
  /// Whether some simulated points rest on firmer ground than others.
  [[nodiscard]] bool extrapolates_in_part() const;
  /// The study's points as `simulate` prints them; in the order of the sweep.
  [[nodiscard]] std::vector<study::PointResult> results() const;
  [[nodiscard]] const LanePoint* find(std::size_t curve, double load) const;

  // The table: stage, curve, then the columns of points.csv.
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 Q_SIGNALS:
  void changed();  // any of the above

 private:
  void insert(const LanePoint& point);
  [[nodiscard]] const std::vector<const LanePoint*>& rows() const;
  quint64 generation_ = 0;
  CurveOutline outline_;
  std::vector<Curve> curves_, previous_;
  mutable std::vector<const LanePoint*> rows_;  // of the table, filled when asked for
  bool complete_ = false;
  std::size_t simulated_ = 0;
};

[[nodiscard]] QString stage_name(PointStage stage);

}  // namespace plimsoll::gui
