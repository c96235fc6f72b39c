// SPDX-License-Identifier: GPL-3.0-or-later
// The application without widgets: the session, the lanes that compute for it, and their results.
#pragma once

#include <QObject>
#include <QStringList>
#include <QTimer>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/curve_lane.h"
#include "gui/core/curve_model.h"
#include "gui/core/details.h"
#include "gui/core/overlay.h"
#include "gui/core/session.h"
#include "gui/core/side_curves.h"
#include "gui/core/task_lane.h"

namespace plimsoll::gui {

/// The point whose details are shown.
struct Selection {
  std::size_t curve = 0;
  double load = 0;
  bool operator==(const Selection&) const = default;
};

/// A curve that the views draw.
struct DrawnCurve {
  std::size_t scenario = 0;  // index in the session
  std::size_t index = 0;     // index in its model
  const CurveModel* model = nullptr;
  const Curve* curve = nullptr;
  QString name;            // names scenario and swept values, unique among the drawn curves
  std::size_t colour = 0;  // index for Theme::colour
  bool current = false;    // of the scenario that is edited
  bool stale = false;      // the last valid curve of a scenario that is invalid now
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
  /// Returns the curves of a scenario; nullptr if it is neither current nor shown.
  [[nodiscard]] const CurveModel* curves_of(std::size_t scenario) const;
  /// Returns why a scenario has no curves; nullptr if it has.
  [[nodiscard]] const LaneFailure* failure_of(std::size_t scenario) const;
  /// Returns every curve of every shown scenario, in the order of the session. Valid until the next change.
  [[nodiscard]] std::vector<DrawnCurve> drawn() const;
  /// Returns the name of a scenario's curve: that of the scenario, its swept values, or both if there are several
  /// scenarios.
  [[nodiscard]] QString curve_name(std::size_t scenario, const Curve& curve) const;
  /// Returns the published tables, the user's files and the session's measured runs.
  [[nodiscard]] const std::vector<OverlayTable>& tables() const { return tables_; }
  [[nodiscard]] TaskLane& tasks() { return tasks_; }
  /// Returns whether a scenario has been simulated or is being simulated.
  [[nodiscard]] bool has_question() const { return submitted_.has_value(); }
  /// Returns true while the curves are not final.
  [[nodiscard]] bool is_busy() const { return dirty_ || lane_.busy() || sides_.busy(); }
  /// Returns true from a change until the first result of it: curves() are still those of the former question.
  [[nodiscard]] bool awaits_curves() const { return awaits_; }
  /// Returns the time that the study's points of the last complete curves took, in seconds.
  [[nodiscard]] double last_seconds() const { return last_seconds_; }
  /// Returns why the current scenario has no curves; empty if it has.
  [[nodiscard]] const std::optional<LaneFailure>& failure() const { return failure_; }
  [[nodiscard]] const std::optional<Selection>& selection() const { return selection_; }
  /// Returns the selected point, or nullptr if none is selected or the curves no longer have it.
  [[nodiscard]] const LanePoint* selected_point() const;

  /// Replaces the session; `file` is the one that holds it, if one does.
  void begin(SessionState state, const QString& file = {});
  /// Makes the session one that no file holds yet, so that saving asks for a name.
  void forget_file() { session_file_.clear(); }
  /// Opens a study, a session, a table of measured points, another tool's result, a Hugging Face config.json or a
  /// trace, depending on the content. Throws InputError; then nothing has changed.
  void open(const QString& file);
  /// Reads and checks the file that open() opens, and returns the change that it makes, so that the user can be asked
  /// first. Throws InputError.
  [[nodiscard]] std::function<void()> read(const QString& file);
  /// As open(), but the scenarios of a study or a session are added to those of this session.
  void add(const QString& file);
  /// Returns true if opening the file would replace the whole session rather than add to it.
  [[nodiscard]] static bool replaces_session(const QString& file);
  /// Writes the session. Throws DeviceError if the file cannot be written.
  void save(const QString& file);
  /// Returns the current study as `simulate` reads it. Throws InputError.
  [[nodiscard]] std::string study_text() const;
  /// Writes study_text() to a file. Throws InputError and DeviceError.
  void save_study(const QString& file);
  /// Returns the scenario as a command that anyone with this machine can run. If no file holds its study as it is, the
  /// study is written to one in `folder`. Throws InputError and DeviceError.
  [[nodiscard]] QString command(const QString& verb, const QString& folder) const;
  /// Reloads the catalogue after this machine's calibration has changed, and simulates everything again.
  void reload_catalogue();
  /// Returns the file that save() writes by default; empty: none yet.
  [[nodiscard]] const QString& session_file() const { return session_file_; }

  // Edits of the current scenario. Each is one step that can be undone.
  /// Sets a field; `text` as for set_field. Consecutive steps of the same path merge.
  void set_value(const QString& path, const QString& text);
  /// Returns the number of replicas that the instances of the current scenario hold, if that is more than it has;
  /// nullopt if all are used, or if its curves differ in their footprints.
  [[nodiscard]] std::optional<std::int64_t> filling_replicas() const;
  /// Sets that number of replicas.
  void fill_instances();
  /// Changes the replicas of every shown scenario so that all use as many GPUs as the largest one. Returns the names of
  /// scenarios that cannot reach this number exactly: they get the next lower number, or are not changed at all.
  QStringList equalise_gpus();
  /// Sets the number of requests of a scenario's runs.
  void lengthen_runs(std::size_t scenario, qint64 requests);
  /// Sets the load and its sweep, as set_load does.
  void change_load(const QString& kind, const QString& values);
  /// With `on`, finds the loads of the current scenario automatically whenever it changes; otherwise stops doing so.
  void follow_load(bool on);
  /// Finds the loads of every shown scenario once, in one step that can be undone.
  void find_all_loads();
  /// Changes what is shown. Steps with the same `merge` key merge, as for Session::edit.
  void set_view(const QString& label, const QString& merge, const std::function<void(ViewState&)>& change);
  /// Copies the current scenario, switches to the copy and compares it with the original.
  void duplicate_scenario();
  /// The same for a copy that `change` has changed, in one step of that label. The copy's name may get a number.
  void add_copy(const QString& label, const std::function<void(Scenario&)>& change);
  /// Adds scenarios and switches to the first of them. They get names and colours that no other scenario has.
  void add_scenarios(const QString& label, std::vector<Scenario> scenarios);
  /// Renames a scenario. A name that another scenario has gets a number; an empty one changes nothing.
  void rename_scenario(std::size_t index, const QString& name);
  /// Shows the scenario in the views, or hides it.
  void show_scenario(std::size_t index, bool shown);
  /// Sets the colour of its curves, an index for Theme::colour.
  void colour_scenario(std::size_t index, std::size_t colour);
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
  void curves_changed();  // curves, or the failure, of some scenario have changed
  void overlays_changed();
  void selection_changed();
  void details_changed();
  void settled();  // no work is in progress any more

 private:
  [[nodiscard]] std::function<void()> read_study(const QString& file);
  void add_measured(const QString& file);
  void open_trace(const QString& file);
  [[nodiscard]] std::pair<std::string, std::size_t> run_of(const LanePoint& point) const;
  void session_changed();
  void submit();
  void want_sides();
  void find_load();
  void load_tables();
  void read_files();
  /// Everything that determines the loads of a scenario: its question without the loads, and the limit.
  struct LoadQuestion {
    CurveQuestion scenario;
    std::string metric;
    double limit = 0, margin = 0;
    bool operator==(const LoadQuestion&) const = default;
  };
  [[nodiscard]] std::optional<LoadQuestion> load_question() const;
  /// Everything that a point's details depend on. `folder` contains the files of the run that measured it.
  struct DetailQuestion {
    std::optional<CurveQuestion> curves;
    std::size_t curve = 0;
    double load = 0;
    std::string folder;
    bool operator==(const DetailQuestion&) const = default;
  };
  [[nodiscard]] CurveQuestion question_of(const Scenario& scenario) const;
  [[nodiscard]] LaneRequest request_for(const Scenario& scenario) const;
  void finish();

  std::shared_ptr<const configs::Catalogue> catalogue_;
  Session session_;
  CurveModel curves_;
  std::vector<OverlayTable> published_, files_, tables_;
  std::vector<std::string> loaded_;
  std::vector<std::shared_ptr<const MeasuredRun>> loaded_runs_;
  std::optional<LaneFailure> failure_;
  std::optional<Selection> selection_;
  std::optional<PointDetails> details_;
  std::optional<DetailQuestion> asked_details_;
  QString details_failure_;
  QString session_file_;
  std::optional<CurveQuestion> submitted_;  // of curves_
  QString submitted_name_;                  // its scenario
  std::optional<LoadQuestion> asked_load_;
  // What curves_changed() has reported: the view, and each scenario's name, visibility and colour.
  ViewState seen_view_;
  std::vector<std::tuple<QString, bool, std::size_t>> seen_scenarios_;
  quint64 generation_ = 0;  // of the lane
  bool awaits_ = false;
  bool finished_ = false;  // curves_ has its refined points and bands too
  double last_seconds_ = 0;
  QTimer coalesce_;
  bool dirty_ = false, published_read_ = false;
  TaskLane tasks_;
  SideCurves sides_;
  CurveLane lane_;  // last members, so that they stop first
};

}  // namespace plimsoll::gui
