// SPDX-License-Identifier: GPL-3.0-or-later
// What the user varies: a study file and the edits made to it, each a path and a YAML value as `--set` takes them. A
// scenario is therefore always a command line, and what the program simulates is what `plimsoll simulate` reads.
#pragma once

#include <QString>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::gui {

/// A value; cheap to copy (documents share their nodes), which makes undo a matter of keeping old ones.
struct Scenario {
  QString name;
  std::string file;  // stands in messages; relative file names start from its folder
  configs::Document document = configs::Document::from_text("{}", "empty");
  study::Overrides edits;
};

/// A scenario of a study file. Throws InputError when the file cannot be read; a study that is wrong is read all the
/// same.
[[nodiscard]] Scenario open_scenario(const std::string& file);
/// One that can be changed into anything: Llama 2 7B on a p4d with a sweep of the load.
[[nodiscard]] Scenario default_scenario();

/// Sets or replaces an edit.
void set_edit(Scenario& scenario, const std::string& path, const std::string& yaml);
/// Back to what the file says.
void clear_edit(Scenario& scenario, const std::string& path);

/// What a field of the form was given: one value, a list ("1, 2, 4": then it is swept), or nothing (back to the file).
void set_field(Scenario& scenario, const std::string& path, const QString& text);

/// What a field of the form shows.
struct FieldValue {
  QString text;        // YAML flow text; empty: not stated
  bool swept = false;  // the file sweeps it: `text` is the list without brackets
  bool edited = false;
};
/// `path`: "deployment.tp", "workload.lengths.input" …
[[nodiscard]] FieldValue field_value(const Scenario& scenario, const std::string& path);

/// Scheduler settings that are stated under a product's name for them, by the path of their field:
/// {"scheduler.max_running", "MAX_BATCH_SIZE"}. A field shows only what is stated under its own.
[[nodiscard]] std::map<std::string, std::string> other_spellings(const Scenario& scenario);

/// The load as the form edits it.
struct LoadField {
  QString kind;       // "jumpstart", "poisson" …; empty: none stated
  QString values;     // "1, 2, 4": swept values, or the one of the load itself
  bool rate = false;  // the values are requests a second
};
[[nodiscard]] LoadField load_field(const Scenario& scenario);
/// Replaces the load and its sweep. `values`: numbers separated by commas or blanks. Throws InputError for what are
/// none.
void set_load(Scenario& scenario, const QString& kind, const QString& values);
/// Replaces load and lengths by those of a trace file, at half to four times its own speed. Without times in the file
/// only the lengths. Throws TraceError for a file that is none.
void set_trace(Scenario& scenario, const std::string& file);
/// Kinds whose value is a single number and which the form therefore offers.
[[nodiscard]] std::vector<std::string> editable_load_kinds();

/// The study that `plimsoll simulate` would see. Throws InputError.
[[nodiscard]] study::Study make_study(const Scenario& scenario,
                                      const std::shared_ptr<const configs::Catalogue>& catalogue);

/// `plimsoll VERB FILE --set …`, quoted for a shell.
[[nodiscard]] QString command_line(const Scenario& scenario, const QString& verb);
[[nodiscard]] QString shell_quoted(const QString& word);

}  // namespace plimsoll::gui
