// SPDX-License-Identifier: GPL-3.0-or-later
// A scenario is a study file with edits. An edit is a path and a YAML value, as `--set` accepts them. A scenario can
// therefore always be written as a command line, and the program simulates exactly what `plimsoll simulate` reads.
#pragma once

#include <QString>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::gui {

/// A value type. Copies are cheap because documents share their nodes, so undo simply keeps old copies.
struct Scenario {
  QString name;
  std::string file;  // used in messages; relative file names start from its folder
  configs::Document document = configs::Document::from_text("{}", "empty");
  study::Overrides edits;
  bool shown = true;        // whether the views draw it
  std::size_t colour = 0;   // of its curves: an index into the theme's series
  bool finds_load = false;  // its loads are found again when it changes (load_range.h)
};

/// Opens a study file. Throws InputError if the file cannot be read; an invalid study is opened all the same.
[[nodiscard]] Scenario open_scenario(const std::string& file);
/// Returns the example that the window opens with: Llama 2 7B on a p4d with a sweep of the load.
[[nodiscard]] Scenario default_scenario();

/// Returns the scenario of File > New, which states only what the form shows.
[[nodiscard]] Scenario new_scenario();

/// Sets or replaces an edit.
void set_edit(Scenario& scenario, const std::string& path, const std::string& yaml);
/// Removes an edit: the file's value applies again.
void clear_edit(Scenario& scenario, const std::string& path);

/// Sets a field of the form to a value or to a list ("1, 2, 4"), which is swept. An empty `text` restores the file's
/// value.
void set_field(Scenario& scenario, const std::string& path, const QString& text);

/// The content of a field of the form.
struct FieldValue {
  QString text;        // YAML flow style; empty if not stated
  bool swept = false;  // the file sweeps it; `text` is then the list without brackets
  bool edited = false;
};
/// Returns a field by path: "deployment.tp", "workload.lengths.input" …
[[nodiscard]] FieldValue field_value(const Scenario& scenario, const std::string& path);
/// Reads several fields. It applies the edits once, so it is faster than field_value for each.
class FieldReader {
 public:
  /// The scenario must outlive this and stay the same.
  explicit FieldReader(const Scenario& scenario);
  [[nodiscard]] FieldValue value(const std::string& path) const;

 private:
  const Scenario& scenario_;
  configs::Document document_;  // with the edits that replace whole parts
};

/// A setting of the scheduler that the study states and the form has no field for.
struct HiddenSetting {
  std::string key, value;  // without "scheduler."; YAML
};
[[nodiscard]] std::vector<HiddenSetting> hidden_settings(const Scenario& scenario);
/// Removes every setting of the scheduler whose key is not `kept`.
void keep_settings(Scenario& scenario, const std::function<bool(const std::string&)>& kept);
/// Sets the field of the engine. Settings of the scheduler that only the former engine understands, or that the form
/// does not show, are removed; an empty text restores the file's engine with the file's settings.
void set_engine(Scenario& scenario, const QString& text);

/// Returns the scheduler settings that the study states under a product's name, by the path of their field:
/// {"scheduler.max_running", "MAX_BATCH_SIZE"}. A field shows only the value stated under its own name.
[[nodiscard]] std::map<std::string, std::string> other_spellings(const Scenario& scenario);

/// The load in the form's terms.
struct LoadField {
  QString kind;       // "jumpstart", "poisson" …; empty if none is stated
  QString values;     // "1, 2, 4": the swept values, or the single value of the load
  bool rate = false;  // whether the values are requests per second
};
[[nodiscard]] LoadField load_field(const Scenario& scenario);
/// Replaces the load and its sweep. `values` are numbers separated by commas or blanks; throws InputError otherwise.
void set_load(Scenario& scenario, const QString& kind, const QString& values);
/// Replaces load and lengths by those of a trace file, replayed at half to four times its own speed. A file without
/// times provides only the lengths. Throws TraceError for an invalid trace.
void set_trace(Scenario& scenario, const std::string& file);
/// Returns the kinds of loads that are set by a single number, which the form therefore offers.
[[nodiscard]] std::vector<std::string> editable_load_kinds();

/// Returns the scenario's study with those of its edits that are YAML, even if it is not a valid study.
[[nodiscard]] configs::Document edited_study(const Scenario& scenario);
/// Returns its text.
[[nodiscard]] std::string edited_yaml(const Scenario& scenario);

/// Returns the study that `plimsoll simulate` would read. Throws InputError.
[[nodiscard]] study::Study make_study(const Scenario& scenario,
                                      const std::shared_ptr<const configs::Catalogue>& catalogue);

/// Returns `plimsoll VERB FILE --set …`, quoted for a shell.
[[nodiscard]] QString command_line(const Scenario& scenario, const QString& verb);
[[nodiscard]] QString shell_quoted(const QString& word);

/// A setting with its path: "scheduler.max_input", "deployment.pools.prefill.scheduler.step_token_budget", "limits".
struct OtherSetting {
  std::string path, value;  // the value as YAML
};
/// Returns them in the order of the study. Titles, sweeps, the SLO and the planner's search are not among them: the
/// window shows these elsewhere.
[[nodiscard]] std::vector<OtherSetting> other_settings(const Scenario& scenario);
/// Removes the setting; its default applies.
void remove_setting(Scenario& scenario, const std::string& path);

}  // namespace plimsoll::gui
