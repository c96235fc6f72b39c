// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/curve_model.h"

#include <algorithm>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

constexpr int kOwnColumns = 2;  // curve and stage

double load_of(const LanePoint& point) { return point.row.result.labels.load_value; }

}  // namespace

QString stage_name(PointStage stage) {
  switch (stage) {
    case PointStage::estimate: return QObject::tr("estimate");
    case PointStage::study: return QObject::tr("study");
    case PointStage::refined: return QObject::tr("refined");
  }
  return {};
}

void CurveModel::begin(quint64 generation, const CurveOutline& outline) {
  beginResetModel();
  rows_.clear();
  // Only complete curves are worth keeping; incomplete ones leave the earlier complete ones in place.
  if (complete_) previous_ = std::move(curves_);
  curves_.clear();
  for (const QString& name : outline.curves) curves_.push_back({name, {}});
  outline_ = outline;
  generation_ = generation;
  complete_ = false;
  simulated_ = 0;
  endResetModel();
  Q_EMIT changed();
}

void CurveModel::insert(const LanePoint& point) {
  if (point.curve >= curves_.size()) return;
  std::vector<LanePoint>& points = curves_[point.curve].points;
  if (point.stage == PointStage::study) {
    const auto known = std::find_if(points.begin(), points.end(), [&](const LanePoint& p) {
      return p.stage == PointStage::study && p.index == point.index;
    });
    if (known != points.end()) {  // the same point again, now with its band
      *known = point;
      return;
    }
    ++simulated_;
    std::erase_if(points,
                  [&](const LanePoint& p) { return p.stage == PointStage::estimate && p.index == point.index; });
  }
  // Points arrive coarse to fine; insert by load.
  const auto place = std::upper_bound(points.begin(), points.end(), point,
                                      [](const LanePoint& a, const LanePoint& b) { return load_of(a) < load_of(b); });
  points.insert(place, point);
}

void CurveModel::add(quint64 generation, const std::vector<LanePoint>& points) {
  if (generation != generation_) return;
  beginResetModel();
  rows_.clear();
  for (const LanePoint& point : points) insert(point);
  endResetModel();
  Q_EMIT changed();
}

void CurveModel::complete(quint64 generation) {
  if (generation != generation_) return;
  beginResetModel();
  rows_.clear();
  for (Curve& curve : curves_)
    // Estimates that remain at this point belong to points that cannot run.
    std::erase_if(curve.points, [](const LanePoint& p) { return p.stage == PointStage::estimate; });
  previous_.clear();
  complete_ = true;
  endResetModel();
  Q_EMIT changed();
}

void CurveModel::clear() {
  beginResetModel();
  rows_.clear();
  curves_.clear();
  previous_.clear();
  outline_ = {};
  complete_ = false;
  simulated_ = 0;
  endResetModel();
  Q_EMIT changed();
}

void CurveModel::adopt(const CurveModel& other) {
  beginResetModel();
  rows_.clear();
  previous_.clear();
  outline_ = other.outline_;
  curves_ = other.curves_;
  complete_ = other.complete_;
  simulated_ = other.simulated_;
  generation_ = 0;  // the lane's first is 1
  endResetModel();
  Q_EMIT changed();
}

std::vector<QString> CurveModel::impossible() const {
  std::vector<QString> reasons;
  for (const Curve& curve : curves_) {
    for (const LanePoint& point : curve.points) {
      const QString reason = qs(point.row.result.infeasible);
      if (!reason.isEmpty() && std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
        reasons.push_back(reason);
    }
  }
  return reasons;
}

QString CurveModel::extrapolates() const {
  for (const Curve& curve : curves_) {
    for (const LanePoint& point : curve.points) {
      if (!point.row.result.extrapolates.empty()) return qs(point.row.result.extrapolates);
    }
  }
  return {};
}

bool CurveModel::extrapolates_in_part() const {
  const std::string* first = nullptr;
  for (const Curve& curve : curves_) {
    for (const LanePoint& point : curve.points) {
      if (!point.row.result.metrics) continue;
      // Comparing each point with the one before finds any change along the curves.
      if (first != nullptr && *first != point.row.result.extrapolates) return true;
      first = &point.row.result.extrapolates;
    }
  }
  return false;
}

std::vector<study::PointResult> CurveModel::results() const {
  std::vector<study::PointResult> out;
  for (const Curve& curve : curves_) {
    for (const LanePoint& point : curve.points) {
      if (point.stage == PointStage::study) out.push_back(point.row.result);
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return out;
}

const LanePoint* CurveModel::find(std::size_t curve, double load) const {
  if (curve >= curves_.size()) return nullptr;
  for (const LanePoint& point : curves_[curve].points) {
    if (load_of(point) == load) return &point;
  }
  return nullptr;
}

// Lists the points once after each change; views ask for every cell in turn.
const std::vector<const LanePoint*>& CurveModel::rows() const {
  if (rows_.empty()) {
    for (const Curve& curve : curves_) {
      for (const LanePoint& point : curve.points) rows_.push_back(&point);
    }
  }
  return rows_;
}

int CurveModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows().size());
}

int CurveModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kOwnColumns + static_cast<int>(row_columns().size());
}

QVariant CurveModel::data(const QModelIndex& index, int role) const {
  const auto& points = rows();
  if (!index.isValid() || index.row() < 0 || static_cast<std::size_t>(index.row()) >= points.size()) return {};
  const LanePoint& point = *points[static_cast<std::size_t>(index.row())];
  const bool is_text =
      index.column() < kOwnColumns ||
      std::holds_alternative<std::string>(point.row.cells[static_cast<std::size_t>(index.column() - kOwnColumns)]);
  if (role == Qt::TextAlignmentRole)
    return QVariant(is_text ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole && role != Qt::UserRole) return {};
  if (index.column() == 0) return curves_[point.curve].name;
  if (index.column() == 1) return stage_name(point.stage);
  const study::Cell& cell = point.row.cells[static_cast<std::size_t>(index.column() - kOwnColumns)];
  // The full value, for copying and export; the screen shows rounded text.
  if (role == Qt::UserRole) return qs(study::plain_text(cell));  // with all digits
  if (const auto* number = std::get_if<double>(&cell)) return reader_text(*number, 5);
  return qs(study::plain_text(cell));
}

QVariant CurveModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role != Qt::DisplayRole || section < 0) return {};
  if (orientation == Qt::Vertical) return section + 1;
  if (section == 0) return tr("curve");
  if (section == 1) return tr("stage");
  const auto column = static_cast<std::size_t>(section - kOwnColumns);
  return column < row_columns().size() ? qs(row_columns()[column]) : QVariant();
}

}  // namespace plimsoll::gui
