// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/slo_form.h"

#include <QCoreApplication>
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "configs/quantity.h"
#include "gui/core/text.h"
#include "gui/core/workbench.h"
#include "model/error.h"
#include "study/file/cell.h"
#include "study/file/read_point.h"

namespace plimsoll::gui {
namespace {

constexpr auto kQuantities = std::to_array<SloQuantity>(
    {{"ttft", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "TTFT"), "ms", "1 s"},
     {"tpot", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "TPOT"), "ms", "50 ms"},
     {"itl", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "ITL"), "ms", "100 ms"},
     {"latency", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "latency"), "s", "20 s"},
     {"latency_per_token", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "latency per token"), "ms", "50 ms"},
     {"min_output_tokens_per_s", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "output tokens/s, at least"), "", "1000",
      false, true},
     {"min_requests_per_s", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "requests/s, at least"), "", "1", false, true},
     {"min_goodput", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "goodput, at least"), "/s", "1 /s", false, true},
     {"max_timeout_rate", QT_TRANSLATE_NOOP("plimsoll::gui::SloPanel", "time-out rate"), "", "0.01", false, false}});

// The study's `slo` with one row. Throws InputError if it is not valid.
sched::Slo read_row(const SloRow& row) {
  const auto document = configs::Document::from_text("{" + row.key + ": " + row.limit + "}", "slo");
  return study::read_slo(document.root());
}

// Returns a latency limit in seconds; nullopt for other rows and for invalid ones.
std::optional<double> seconds_of(const SloRow& row) {
  try {
    const sched::Slo slo = read_row(row);
    return slo.bounds.empty() ? std::nullopt : std::optional(slo.bounds.front().limit);
  } catch (const InputError&) {
    return {};
  }
}

// Returns the limit of a row less the margin, in the unit in which it is written.
std::string tightened(const SloRow& row, double margin) {
  const SloQuantity* quantity = slo_quantity(row.key);
  if (margin <= 0 || quantity == nullptr) return row.limit;
  const std::size_t end = row.limit.find_first_not_of("0123456789.eE+-");
  const auto number = configs::parse_number(row.limit.substr(0, end));
  if (!number) return row.limit;
  const double limit = *number * (quantity->at_least ? 1 + margin : 1 - margin);
  return study::number_text(limit) + (end == std::string::npos ? "" : row.limit.substr(end));
}

SloRow* row_of(std::vector<SloRow>& rows, const std::string& key) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const SloRow& row) { return row.key == key; });
  return key.empty() || found == rows.end() ? nullptr : &*found;
}

std::string line_text(double limit, const Metric& metric) { return study::number_text(limit) + " " + metric.unit; }

std::vector<SloRow> stated_rows(const Scenario& scenario) {
  std::vector<SloRow> rows;
  const std::string text = utf8(field_value(scenario, "slo").text);
  if (text.empty()) return rows;
  try {
    const auto document = configs::Document::from_text(text, "slo");
    if (!document.root().is_map()) return rows;
    for (const configs::Item& item : document.root().items()) rows.push_back({item.key, item.value.to_text()});
  } catch (const InputError&) {
    rows.clear();  // the simulation reports what is wrong
  }
  return rows;
}

void state_rows(Scenario& scenario, const std::vector<SloRow>& rows) {
  std::erase_if(scenario.edits, [](const auto& edit) { return edit.first == "slo" || edit.first.starts_with("slo."); });
  // Without an edit, the limits of the file apply again.
  if (stated_rows(scenario) == rows) return;
  set_edit(scenario, "slo", slo_yaml(rows));
}

// Returns whether limits_of() lists the limit of this row as `limit`: under its column or its name.
bool is_limit_of(const PointLimit& limit, const SloRow& row) {
  const SloQuantity* quantity = slo_quantity(row.key);
  if (quantity == nullptr) return false;
  if (quantity->statistic) {
    const sched::Slo slo = [&] {
      try {
        return read_row(row);
      } catch (const InputError&) {
        return sched::Slo();
      }
    }();
    return !slo.bounds.empty() && limit.column == column_of(slo.bounds.front());
  }
  // The names of slo_figures().
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames = {
      {{"min_output_tokens_per_s", "output tokens"},
       {"min_requests_per_s", "requests"},
       {"min_goodput", "goodput"},
       {"max_timeout_rate", "time-out rate"}}};
  const auto name =
      std::find_if(kNames.begin(), kNames.end(), [&](const auto& known) { return known.first == row.key; });
  return name != kNames.end() && utf8(limit.name) == name->second;
}

const LanePoint* standing_point(const Workbench& bench, const DrawnLimit& drawn) {
  const LanePoint* best = nullptr;
  double most = -1;
  for (const Curve& curve : bench.curves().curves()) {
    const auto answer = slo_answer(curve, drawn);
    if (!answer) continue;
    const double carried = answer->carried ? answer->tokens_per_s : 0;
    if (carried <= most) continue;
    most = carried;
    best = &curve.points[answer->point];
  }
  return best;
}

}  // namespace

std::span<const SloQuantity> slo_quantities() { return kQuantities; }

const SloQuantity* slo_quantity(const std::string& key) {
  for (const SloQuantity& quantity : kQuantities) {
    const std::string_view name = quantity.name;
    if (!quantity.statistic && key == name) return &quantity;
    const std::size_t split = key.find('_');
    if (quantity.statistic && split != std::string::npos && std::string_view(key).substr(split + 1) == name &&
        (key.starts_with("mean_") || key.starts_with("p")))
      return &quantity;
  }
  return nullptr;
}

std::string slo_statistic(const std::string& key) {
  const SloQuantity* quantity = slo_quantity(key);
  return quantity != nullptr && quantity->statistic ? key.substr(0, key.find('_')) : std::string();
}

std::string slo_key(const Metric& metric) {
  std::string id = metric.id;
  if (!id.ends_with("_s") || std::string_view(metric.group) != "latency") return {};
  id.resize(id.size() - 2);
  const std::size_t split = id.rfind('_');
  if (split == std::string::npos) return {};
  const std::string key = id.substr(split + 1) + "_" + id.substr(0, split);
  const SloQuantity* quantity = slo_quantity(key);
  return quantity != nullptr && quantity->statistic ? key : std::string();
}

std::vector<SloRow> slo_rows(const Scenario& scenario, const ViewState& view) {
  std::vector<SloRow> rows = stated_rows(scenario);
  const Metric* metric = find_metric(view.y);
  const std::string key = metric != nullptr && view.limit > 0 ? slo_key(*metric) : std::string();
  if (key.empty()) return rows;
  SloRow* row = row_of(rows, key);
  if (row == nullptr) row = &rows.emplace_back(SloRow{key, {}});
  // A limit that is written differently but has the same value stays as it is written.
  if (const auto stated = seconds_of(*row);
      !stated || std::abs(*stated * metric->scale - view.limit) > 1e-9 * view.limit)
    row->limit = line_text(view.limit, *metric);
  return rows;
}

std::string slo_yaml(const std::vector<SloRow>& rows, double margin) {
  std::string text;
  for (const SloRow& row : rows) text += (text.empty() ? "" : ", ") + row.key + ": " + tightened(row, margin);
  return "{" + text + "}";
}

QString slo_row_words(const SloRow& row, double margin) {
  const SloQuantity* quantity = slo_quantity(row.key);
  if (quantity == nullptr) return qs(row.key + ": " + row.limit);
  const std::string statistic = slo_statistic(row.key);
  return QStringLiteral("%1%2 %3 %4")
      .arg(statistic.empty() ? QString() : qs(statistic) + QChar(u' '),
           QCoreApplication::translate("plimsoll::gui::SloPanel", quantity->label).section(QChar(u','), 0, 0),
           quantity->at_least ? QStringLiteral("≥") : QStringLiteral("≤"), qs(tightened(row, margin)));
}

void set_slo_rows(SessionState& state, std::vector<SloRow> rows) {
  std::set<std::string> keys;
  for (SloRow& row : rows) {
    const SloQuantity* quantity = slo_quantity(row.key);
    if (quantity != nullptr && *quantity->unit != '\0' && configs::parse_number(row.limit))
      row.limit += std::string(" ") + quantity->unit;
    try {
      static_cast<void>(read_row(row));
    } catch (const InputError& error) {
      throw InputError(error.text());  // without the place, which would refer to the text made here
    }
    if (!keys.insert(row.key).second)
      throw InputError(
          utf8(QCoreApplication::translate("plimsoll::gui::SloPanel", "%1 is limited twice").arg(qs(row.key))));
  }
  ViewState& view = state.view;
  const Metric* metric = find_metric(view.y);
  const SloRow* line = metric != nullptr ? row_of(rows, slo_key(*metric)) : nullptr;
  const auto limit = line != nullptr ? seconds_of(*line) : std::nullopt;
  if (limit)
    view.limit = *limit * metric->scale;
  else if (metric != nullptr && !slo_key(*metric).empty())
    view.limit = 0;
  state_rows(state.scenarios[state.current], rows);
}

void move_slo_line(SessionState& state, double value) {
  Scenario& scenario = state.scenarios[state.current];
  state.view.limit = value;
  const Metric* metric = find_metric(state.view.y);
  std::vector<SloRow> rows = stated_rows(scenario);
  SloRow* row = metric != nullptr ? row_of(rows, slo_key(*metric)) : nullptr;
  if (row == nullptr) return;
  if (value > 0)
    row->limit = line_text(value, *metric);
  else
    rows.erase(rows.begin() + (row - rows.data()));
  state_rows(scenario, rows);
}

void choose_y(SessionState& state, const std::string& metric) {
  const std::vector<SloRow> rows = slo_rows(state.scenarios[state.current], state.view);
  state.view.y = metric;
  state.view.limit = 0;  // the limit on the old metric has other units
  try {
    set_slo_rows(state, rows);
  } catch (const InputError&) {
    state.view.limit = 0;  // the form shows what is wrong with the scenario's SLO
  }
}

SloStanding slo_standing(const Workbench& bench, const std::vector<SloRow>& rows) {
  SloStanding out;
  out.limits.resize(rows.size());
  const DrawnLimit drawn = drawn_limit(bench.session().state().view);
  if (bench.failure()) return out;
  const LanePoint* point = bench.selected_point();
  out.selected = point != nullptr;
  if (point == nullptr) point = standing_point(bench, drawn);
  if (point == nullptr || !point->row.result.metrics) return out;
  out.at = point->row.result.labels;
  const std::vector<PointLimit> limits = limits_of(point->row, drawn);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const PointLimit& limit : limits) {
      if (is_limit_of(limit, rows[i])) out.limits[i] = limit;
    }
  }
  if (!rows.empty()) out.attainment = point->row.result.metrics->slo_attainment;
  return out;
}

}  // namespace plimsoll::gui
