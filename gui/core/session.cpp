// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/session.h"

#include <algorithm>
#include <sstream>

#include "configs/quantity.h"
#include "gui/core/metrics.h"
#include "gui/core/overlay.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "study/file/cell.h"

namespace plimsoll::gui {
namespace {

using configs::Document;
using configs::Node;
using Keys = std::vector<std::string_view>;

std::string quoted(const std::string& text) { return study::json_quoted(text); }
const char* word(bool value) { return value ? "true" : "false"; }

std::string indented(const std::string& text, const std::string& margin) {
  std::istringstream lines(text);
  std::string out, line;
  while (std::getline(lines, line)) out += margin + line + '\n';
  return out;
}

std::string view_text(const ViewState& v) {
  return "{x: " + v.x + ", y: " + v.y + ", log_x: " + word(v.log_x) + ", log_y: " + word(v.log_y) +
         ", measured: " + word(v.measured) + ", residuals: " + word(v.residuals) + ", bands: " + word(v.bands) +
         ", knees: " + word(v.knees) + ", limit: " + study::number_text(v.limit) +
         ", margin: " + study::number_text(v.margin) + ", safe: " + word(v.safe) + "}";
}

ViewState read_view(const Node& node) {
  node.require_known_keys(
      Keys{"x", "y", "log_x", "log_y", "measured", "residuals", "bands", "knees", "limit", "margin", "safe"});
  ViewState view;
  const auto metric = [&](const char* key, std::string& out) {
    const auto value = node.find(key);
    if (!value) return;
    if (find_metric(value->as_string()) == nullptr)
      value->fail("found '" + value->as_string() + "', expected a metric's name");
    out = value->as_string();
  };
  const auto flag = [&](const char* key, bool& out) {
    if (const auto value = node.find(key)) out = value->as_bool();
  };
  metric("x", view.x);
  metric("y", view.y);
  flag("log_x", view.log_x);
  flag("log_y", view.log_y);
  flag("measured", view.measured);
  flag("residuals", view.residuals);
  flag("bands", view.bands);
  flag("knees", view.knees);
  if (const auto value = node.find("limit")) view.limit = value->as_number(0, 1e12);
  flag("safe", view.safe);
  if (const auto value = node.find("margin")) view.margin = value->as_number(0, 0.99);
  return view;
}

// Writes the whole study in addition to the file's name and the edits, so that the session opens without the file.
std::string scenario_text(const Scenario& scenario) {
  std::string text =
      "  - name: " + quoted(utf8(scenario.name)) + "\n    file: " + quoted(scenario.file) + "\n    edits:";
  if (scenario.edits.empty()) text += " []";
  text += '\n';
  for (const auto& [path, yaml] : scenario.edits)
    text += "      - {path: " + quoted(path) + ", value: " + quoted(yaml) + "}\n";
  // Only written if they differ from the defaults, so that older versions can read such a session.
  if (!scenario.shown) text += "    shown: false\n";
  if (scenario.finds_load) text += "    finds_load: true\n";
  if (scenario.colour != 0) text += "    colour: " + std::to_string(scenario.colour) + '\n';
  return text + "    study:\n" + indented(scenario.document.dump(), "      ");
}

Scenario read_scenario(const Node& node) {
  node.require_known_keys(Keys{"name", "file", "edits", "shown", "colour", "finds_load", "study"});
  Scenario scenario;
  scenario.name = qs(node.at("name").as_string());
  scenario.file = node.at("file").as_string();
  for (const configs::Item& item : node.at("edits").items()) {
    scenario.edits.emplace_back(item.value.at("path").as_string(), item.value.at("value").as_string());
  }
  if (const auto shown = node.find("shown")) scenario.shown = shown->as_bool();
  if (const auto finds = node.find("finds_load")) scenario.finds_load = finds->as_bool();
  if (const auto colour = node.find("colour")) scenario.colour = static_cast<std::size_t>(colour->as_integer(0, 7));
  scenario.document = Document::from_text("{}", scenario.file);
  const Node study = node.at("study");
  if (!study.is_map()) study.fail("expected a study");
  for (const configs::Item& item : study.items()) scenario.document.set(item.key, item.value);
  return scenario;
}

Pin read_pin(const Node& node) {
  return {qs(node.at("scenario").as_string()), qs(node.at("curve").as_string()), node.at("load").as_number(0, 1e12)};
}

// Writes a point as the cells that it has, by their columns in points.csv.
std::string row_text(const PointRow& row) {
  std::vector<std::string> columns;
  std::vector<study::Cell> cells;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    if (study::plain_text(row.cells[i]).empty()) continue;
    columns.push_back(row_columns()[i]);
    cells.push_back(row.cells[i]);
  }
  return "      - {" + study::json_members(columns, cells) + "}\n";
}

study::Cell read_cell(const Node& node) {
  const std::string text = node.as_string();
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = configs::parse_number(text)) return *number;
  return text;
}

std::string run_text(const MeasuredRun& run) {
  std::string text = "  - name: " + quoted(utf8(run.name)) + "\n    note: " + quoted(utf8(run.note)) +
                     (run.tool.isEmpty() ? "" : "\n    tool: " + quoted(utf8(run.tool))) + "\n    points:\n";
  for (const PointRow& row : run.rows) text += row_text(row);
  return text;
}

MeasuredRun read_run(const Node& node) {
  node.require_known_keys(Keys{"name", "note", "tool", "points"});
  MeasuredRun run{qs(node.at("name").as_string()), qs(node.at("note").as_string()), {}, {}};
  if (const auto tool = node.find("tool")) run.tool = qs(tool->as_string());
  for (const configs::Item& point : node.at("points").items()) {
    std::vector<std::pair<std::string, study::Cell>> cells;
    for (const configs::Item& cell : point.value.items()) cells.emplace_back(cell.key, read_cell(cell.value));
    run.rows.push_back(overlay_row(cells));
    run.rows.back().result.index = run.rows.size() - 1;
  }
  return run;
}

template <class Read>
void each(const Node& root, const char* key, Read&& read) {
  if (const auto list = root.find(key); list && !list->is_null()) {
    for (const configs::Item& item : list->items()) read(item.value);
  }
}

}  // namespace

SessionState default_session() {
  SessionState state;
  state.scenarios.push_back(default_scenario());
  return state;
}

SessionState new_session() {
  SessionState state;
  state.scenarios.push_back(new_scenario());
  return state;
}

bool is_session_file(const QString& file) { return file.endsWith(QStringLiteral(".plimsoll-session.yaml")); }

std::string session_text(const SessionState& state) {
  std::string text =
      "# A session of `plimsoll gui`; its studies are whole, so it opens anywhere.\nplimsoll_session: 1\n";
  text += "current: " + std::to_string(state.current) + '\n';
  if (state.compared) text += "compared: " + std::to_string(*state.compared) + '\n';
  text += "view: " + view_text(state.view) + "\nmeasured:";
  if (state.measured.empty()) text += " []";
  text += '\n';
  for (const std::string& file : state.measured) text += "  - " + quoted(file) + '\n';
  // Only written if there are runs, so that older versions can read a session without any.
  if (!state.runs.empty()) text += "runs:\n";
  for (const auto& run : state.runs) text += run_text(*run);
  text += state.pins.empty() ? "pins: []\n" : "pins:\n";
  for (const Pin& pin : state.pins) {
    text += "  - {scenario: " + quoted(utf8(pin.scenario)) + ", curve: " + quoted(utf8(pin.curve)) +
            ", load: " + study::number_text(pin.load) + "}\n";
  }
  text += "scenarios:\n";
  for (const Scenario& scenario : state.scenarios) text += scenario_text(scenario);
  return text;
}

SessionState parse_session(const std::string& text, const std::string& file) {
  const Document document = Document::from_text(text, file);
  const Node root = document.root();
  root.require_known_keys(
      Keys{"plimsoll_session", "current", "compared", "view", "measured", "runs", "pins", "scenarios"});
  // Refuses files of other versions of the format.
  static_cast<void>(root.at("plimsoll_session").as_integer(1, 1));
  SessionState state;
  each(root, "scenarios", [&](const Node& node) { state.scenarios.push_back(read_scenario(node)); });
  if (state.scenarios.empty()) root.fail("a session needs at least one scenario");
  const auto last = static_cast<std::int64_t>(state.scenarios.size()) - 1;
  state.current = static_cast<std::size_t>(root.at("current").as_integer(0, last));
  if (const auto other = root.find("compared")) state.compared = static_cast<std::size_t>(other->as_integer(0, last));
  if (const auto view = root.find("view")) state.view = read_view(*view);
  each(root, "measured", [&](const Node& node) { state.measured.push_back(node.as_string()); });
  each(root, "runs",
       [&](const Node& node) { state.runs.push_back(std::make_shared<const MeasuredRun>(read_run(node))); });
  each(root, "pins", [&](const Node& node) { state.pins.push_back(read_pin(node)); });
  return state;
}

Session::Session(QObject* parent) : QObject(parent), state_(default_session()) {}

void Session::edit(const QString& label, const QString& merge, const std::function<void(SessionState&)>& change) {
  SessionState next = state_;
  change(next);  // may throw; then nothing has changed
  // A merged edit keeps the state from before its first step.
  if (merge.isEmpty() || merge != merge_) {
    past_.push_back({label, std::move(state_), revision_});
    if (past_.size() > kMaxSteps) past_.erase(past_.begin());
  }
  merge_ = merge;
  state_ = std::move(next);
  future_.clear();
  revision_ = ++newest_;
  Q_EMIT changed();
}

void Session::amend(const std::function<void(SessionState&)>& change) {
  SessionState next = state_;
  change(next);
  state_ = std::move(next);
  revision_ = ++newest_;
  Q_EMIT changed();
}

void Session::set_run(MeasuredRun run) {
  const auto shared = std::make_shared<const MeasuredRun>(std::move(run));
  const auto put = [&](SessionState& state) {
    const auto same = std::find_if(state.runs.begin(), state.runs.end(), [&](const auto& known) {
      return !known->folder.empty() && known->folder == shared->folder;
    });
    if (same != state.runs.end())
      *same = shared;
    else
      state.runs.push_back(shared);
  };
  put(state_);
  for (Step& step : past_) put(step.state);
  for (Step& step : future_) put(step.state);
  runs_unsaved_ = true;
  Q_EMIT changed();
}

void Session::replace(SessionState state) {
  state_ = std::move(state);
  past_.clear();
  future_.clear();
  merge_.clear();
  // The state that was opened counts as saved.
  revision_ = saved_ = ++newest_;
  runs_unsaved_ = false;
  Q_EMIT changed();
}

void Session::set_saved() {
  saved_ = revision_;
  runs_unsaved_ = false;
  merge_.clear();
  Q_EMIT changed();
}

// Makes the last state of `from` the current one and pushes the present one to `to`.
void Session::step(std::vector<Step>& from, std::vector<Step>& to) {
  if (from.empty()) return;
  Step step = std::move(from.back());
  from.pop_back();
  to.push_back({step.label, std::move(state_), revision_});
  state_ = std::move(step.state);
  revision_ = step.revision;
  merge_.clear();
  Q_EMIT changed();
}

void Session::undo() { step(past_, future_); }

void Session::redo() { step(future_, past_); }

}  // namespace plimsoll::gui
