// SPDX-License-Identifier: GPL-3.0-or-later
// The application without widgets: the session, the lanes that compute for it, and their results.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/curve_lane.h"
#include "gui/core/curve_model.h"
#include "gui/core/details.h"
#include "gui/core/overlay.h"
#include "gui/core/session.h"
#include "gui/core/task_lane.h"

namespace plimsoll::gui {

/// The point whose details are shown.
struct Selection {
  std::size_t curve = 0;
  double load = 0;
  bool operator==(const Selection&) const = default;
};

/// Owns the session and the lanes. Belongs to the thread of the window; all signals are emitted there.
class Workbench final : public QObject {
  Q_OBJECT
 public:
  /// `threads` of the interactive lane; 0 for one per core.
  explicit Workbench(int threads = 0, QObject* parent = nullptr);

  [[nodiscard]] const std::shared_ptr<const configs::Catalogue>& catalogue() const { return catalogue_; }
  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const Session& session() const { return session_; }
  [[nodiscard]] const CurveModel& curves() const { return curves_; }
  [[nodiscard]] CurveModel& curves() { return curves_; }
  /// Returns the curves of the scenario that the current one is compared with; empty without one.
  [[nodiscard]] const CurveModel& compared() const { return compared_; }
  /// Returns the published tables, the user's files and the session's measured runs.
  [[nodiscard]] const std::vector<OverlayTable>& tables() const { return tables_; }
  [[nodiscard]] TaskLane& tasks() { return tasks_; }
  /// Returns true while the curves are not final.
  [[nodiscard]] bool is_busy() const { return dirty_ || lane_.busy() || compared_lane_.busy(); }
  /// Returns the time that the study's points of the last complete curves took, in seconds.
  [[nodiscard]] double last_seconds() const { return last_seconds_; }
  /// Returns why the current scenario has no curves; empty if it has.
  [[nodiscard]] const std::optional<LaneFailure>& failure() const { return failure_; }
  [[nodiscard]] const std::optional<Selection>& selection() const { return selection_; }
  /// Returns the selected point, or nullptr if none is selected or the curves no longer have it.
  [[nodiscard]] const LanePoint* selected_point() const;

  /// Opens a study, a session, a table of measured points, another tool's result, a Hugging Face config.json or a
  /// trace, depending on the content. Throws InputError; then nothing has changed.
  void open(const QString& file);
  /// Returns true if opening the file would replace the whole session rather than add to it.
  [[nodiscard]] static bool replaces_session(const QString& file);
  /// Writes the session. Throws DeviceError if the file cannot be written.
  void save(const QString& file);
  /// Returns the current study as `simulate` reads it. Throws InputError.
  [[nodiscard]] std::string study_text() const;
  /// Writes study_text() to a file. Throws InputError and DeviceError.
  void save_study(const QString& file);
  /// Reloads the catalogue after this machine's calibration has changed, and simulates everything again.
  void reload_catalogue();
  /// Returns the file that save() writes by default; empty: none yet.
  [[nodiscard]] const QString& session_file() const { return session_file_; }

  // Edits of the current scenario. Each is one step that can be undone.
  /// Sets a field; `text` as for set_field. Consecutive steps of the same path merge.
  void set_value(const QString& path, const QString& text);
  /// Sets the load and its sweep, as set_load does.
  void change_load(const QString& kind, const QString& values);
  /// Changes what is shown. Steps with the same `merge` key merge, as for Session::edit.
  void set_view(const QString& label, const QString& merge, const std::function<void(ViewState&)>& change);
  /// Copies the current scenario, switches to the copy and compares it with the original.
  void duplicate_scenario();
  /// Does nothing if it is the only one.
  void remove_scenario(std::size_t index);
  /// Makes a scenario the one that is edited.
  void choose_scenario(std::size_t index);
  /// Shows the curves of another scenario for comparison; nullopt: no comparison.
  void compare_with(std::optional<std::size_t> index);
  /// Exchanges the current scenario and the compared one.
  void swap_compared();
  /// Pins a point, or removes the pin.
  void toggle_pin(const Pin& pin);
  /// Chooses the point of the details. Not an edit: undo does not change it.
  void select(const Selection& selection);

  /// Returns the requests and steps of the selected point; if none is selected, of the middle load that the study
  /// states. They are simulated on first use: returns nullptr until details_changed().
  [[nodiscard]] const PointDetails* details();
  [[nodiscard]] const QString& details_failure() const { return details_failure_; }

 Q_SIGNALS:
  void curves_changed();  // curves(), compared() or failure() has changed
  void overlays_changed();
  void selection_changed();
  void details_changed();
  void settled();  // no work is in progress any more

 private:
  void open_study(const QString& file);
  void add_measured(const QString& file);
  void open_trace(const QString& file);
  [[nodiscard]] std::pair<std::string, std::size_t> run_of(const LanePoint& point) const;
  void session_changed();
  void submit();
  void submit_compared();
  void load_tables();
  void read_files();
  /// Everything that the curves of a scenario depend on.
  struct CurveQuestion {
    std::string file, text;
    study::Overrides edits;
    double limit = 0;  // limit around which points are refined; 0 if it is on another metric
    bool operator==(const CurveQuestion&) const = default;
  };
  /// Everything that a point's details depend on. `folder` contains the files of the run that measured it.
  struct DetailQuestion {
    std::optional<CurveQuestion> curves;
    std::size_t curve = 0;
    double load = 0;
    std::string folder;
    bool operator==(const DetailQuestion&) const = default;
  };
  [[nodiscard]] static CurveQuestion question_of(const Scenario& scenario, const ViewState& view);
  [[nodiscard]] LaneRequest request_for(const Scenario& scenario) const;
  void finish(quint64 generation);

  std::shared_ptr<const configs::Catalogue> catalogue_;
  Session session_;
  CurveModel curves_, compared_;
  std::vector<OverlayTable> published_, files_, tables_;
  std::vector<std::string> loaded_;
  std::vector<std::shared_ptr<const MeasuredRun>> loaded_runs_;
  std::optional<LaneFailure> failure_;
  std::optional<Selection> selection_;
  std::optional<PointDetails> details_;
  std::optional<DetailQuestion> asked_details_;
  QString details_failure_;
  QString session_file_;
  std::optional<CurveQuestion> submitted_, submitted_compared_;
  double last_seconds_ = 0;
  QTimer coalesce_;
  bool dirty_ = false, published_read_ = false;
  TaskLane tasks_;
  CurveLane lane_, compared_lane_;  // last members, so that they stop first
};

}  // namespace plimsoll::gui
