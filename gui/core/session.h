// SPDX-License-Identifier: GPL-3.0-or-later
// Everything that the user has made: scenarios, display settings, pins, measured files. It is a single value: undo
// keeps earlier values, and a session file is the value as text (docs/gui.md, "Sessions").
#pragma once

#include <QObject>
#include <QString>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/core/metrics.h"
#include "gui/core/scenario.h"

namespace plimsoll::gui {

/// What the curves show. x and y are metric ids (metrics.h).
struct ViewState {
  std::string x = "output_tokens_per_s", y = "latency_per_token_p90_s";
  bool log_x = true, log_y = true;
  bool measured = true, residuals = true, bands = true, knees = true;
  double limit = 0;  // SLO line: limit of the y metric in its displayed unit; 0 for none
  // How far from its limits a load must stay to count as carried: a share of each limit that remains unused, or the
  // whole 90 % band within the limits.
  double margin = 0;
  bool safe = false;
  bool operator==(const ViewState&) const = default;
};

/// A point pinned by the user.
struct Pin {
  QString scenario, curve;
  double load = 0;
  bool operator==(const Pin&) const = default;
};

/// The points that a run in this window has measured.
struct MeasuredRun {
  QString name, note;          // the note says what makes the run doubtful; may be empty
  std::vector<PointRow> rows;  // missing figures are blank cells
  std::string folder = {};     // files of the run while the program is running; not saved
  QString tool = {};           // of imported runs, as in OverlayTable: what they do not state may have any value
};

/// The saved part of a session.
struct SessionState {
  std::vector<Scenario> scenarios;  // never empty
  std::size_t current = 0;
  std::optional<std::size_t> compared;  // the scenario to compare with
  ViewState view;
  std::vector<Pin> pins;
  std::vector<std::string> measured;  // files of measured points
  std::vector<std::shared_ptr<const MeasuredRun>> runs = {};
};

/// Returns what the window shows when it is opened for the first time.
[[nodiscard]] SessionState default_session();
/// Returns the state of File > New.
[[nodiscard]] SessionState new_session();
/// Returns the text of a *.plimsoll-session.yaml.
[[nodiscard]] std::string session_text(const SessionState& state);
/// Parses a session. Throws InputError with file:line:column.
[[nodiscard]] SessionState parse_session(const std::string& text, const std::string& file);
[[nodiscard]] bool is_session_file(const QString& file);

/// The current state with its undo history. Belongs to one thread.
class Session final : public QObject {
  Q_OBJECT
 public:
  explicit Session(QObject* parent = nullptr);
  [[nodiscard]] const SessionState& state() const { return state_; }
  [[nodiscard]] const Scenario& scenario() const { return state_.scenarios[state_.current]; }

  /// Changes the state in one undoable step called `label`. Consecutive steps with the same `merge` key (not empty)
  /// become one step: for example, those of a slider during a drag.
  void edit(const QString& label, const QString& merge, const std::function<void(SessionState&)>& change);
  /// Changes the state as a consequence of the last step, which undo takes back together with it.
  void amend(const std::function<void(SessionState&)>& change);
  /// Adds a run, or replaces the one with the same folder. Measurements cost machine time, so this is not an edit: undo
  /// and redo keep the run. The session counts as modified until it is saved.
  void set_run(MeasuredRun run);
  /// Replaces the state and clears the undo history, because a file was opened.
  void replace(SessionState state);
  /// Ends merging: the next step is separate whatever its key.
  void end_merge() { merge_.clear(); }

  [[nodiscard]] bool can_undo() const { return !past_.empty(); }
  [[nodiscard]] bool can_redo() const { return !future_.empty(); }
  [[nodiscard]] QString undo_label() const { return past_.empty() ? QString() : past_.back().label; }
  [[nodiscard]] QString redo_label() const { return future_.empty() ? QString() : future_.back().label; }
  /// Goes back by one edit; merged edits count as one.
  void undo();
  /// Applies the edit that undo() took back; a new edit forgets it.
  void redo();
  /// Returns true if the state differs from the saved or opened one. Undo and redo can return to that state.
  [[nodiscard]] bool is_modified() const { return runs_unsaved_ || revision_ != saved_; }
  /// Marks the current state as saved. The next step does not merge with earlier ones, so that undo can return here.
  void set_saved();

 Q_SIGNALS:
  /// After every edit, undo, redo and replacement.
  void changed();

 private:
  struct Step {
    QString label;
    SessionState state;
    quint64 revision = 0;
  };
  void step(std::vector<Step>& from, std::vector<Step>& to);
  static constexpr std::size_t kMaxSteps = 500;
  SessionState state_;
  std::vector<Step> past_, future_;
  QString merge_;
  bool runs_unsaved_ = false;
  quint64 revision_ = 0, saved_ = 0,
          newest_ = 0;  // numbers of the current, saved and newest state; every edit gets a new one
};

}  // namespace plimsoll::gui
