// SPDX-License-Identifier: GPL-3.0-or-later
// The form of the current scenario. Every field takes one value or a list, which is swept. Errors appear beside the
// field, never in a dialog.
#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/workbench.h"
#include "gui/window/fold_group.h"
#include "gui/window/scenario_list.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QScrollArea;
class QSlider;
class QVBoxLayout;

namespace plimsoll::gui {

struct Command;

/// A field of the form: its key in the study, its texts and its choices.
struct FieldSpec {
  QString path, label, help;
  QStringList choices;
  bool slider = false;         // has a slider over the choices
  bool unset_is_most = false;  // without a value and a default, the slider is at its upper end, not its lower
  QString unset = {};          // text of the empty field when its default is unknown
};

// The fields of the form, with choices from the catalogue (scenario_fields.cpp).
struct FieldGroups {
  std::vector<FieldSpec> machine, deployment, pools, workload, advanced;
};
[[nodiscard]] FieldGroups field_groups(const configs::Catalogue& catalogue);
/// Returns "closed loop (clients)".
[[nodiscard]] QString load_kind_label(const QString& kind);

/// A label, an editable list of choices, a slider if useful, and an error text.
class Field final : public QWidget {
  Q_OBJECT
 public:
  Field(FieldSpec spec, QWidget* parent);
  /// Shows what the scenario states; does not emit entered().
  void show_value(const FieldValue& value);
  /// Sets the default shown in the empty field; nullptr if it is unknown.
  void show_default(const FieldDefault* value);
  /// Shows the error of this field beside it; empty: none.
  void show_problem(const QString& text);
  [[nodiscard]] const FieldSpec& spec() const { return spec_; }
  [[nodiscard]] QSlider* slider() const { return slider_; }
  [[nodiscard]] QComboBox* box() const { return box_; }

 Q_SIGNALS:
  /// The user has changed the value; the text is YAML, and empty for the default.
  void entered(const QString& path, const QString& text);
  void released();  // an edit is complete: the slider was released, or a value was entered

 private:
  void place_slider(const QString& text);
  void enter(const QString& text);
  [[nodiscard]] bool is_typing() const;
  [[nodiscard]] QString unset_text() const { return spec_.unset.isEmpty() ? tr("default") : spec_.unset; }
  FieldSpec spec_;
  FieldDefault default_;  // its value is empty if unknown
  QString shown_;         // the text that the scenario has; other text in the field has not been entered yet
  QLabel *label_ = nullptr, *problem_ = nullptr;
  QComboBox* box_ = nullptr;
  QSlider* slider_ = nullptr;
};

class ScenarioDock final : public QWidget {
  Q_OBJECT
 public:
  ScenarioDock(Workbench& bench, QWidget* parent = nullptr);
  void refresh();
  /// Shows what the simulation reported about the scenario: errors, and the defaults of its empty fields.
  void refresh_findings();
  void set_theme(const Theme& theme) { scenarios_->set_theme(theme); }
  [[nodiscard]] Field* field(const QString& path) const;
  /// Returns the palette's commands of the shown fields for a typed text; `go` goes to the field of a path.
  [[nodiscard]] std::vector<Command> commands(const QString& typed, const std::function<void(const QString&)>& go);
  [[nodiscard]] ScenarioList& scenarios() { return *scenarios_; }
  /// Returns the groups of the form, which can be folded.
  [[nodiscard]] const std::vector<FoldGroup*>& groups() const { return groups_; }
  /// Adds a group made elsewhere below the load. `key` names it in the settings.
  void add_group(const QString& title, const QString& key, QWidget* content);
  /// Unfolds the group of a field, scrolls to it and gives it the focus.
  void reveal(const QString& path);

 Q_SIGNALS:
  /// The user wants to choose the hardware from a table.
  void hardware_wanted();

 private:
  void refresh_problems();
  FoldGroup* make_group(const QString& title, const QString& key, bool open);
  void add_fields(FoldGroup& group, const std::vector<FieldSpec>& specs);
  void make_pools(FoldGroup& group, const std::vector<FieldSpec>& specs);
  void make_load(FoldGroup& group);
  void make_hidden();
  void refresh_pools();
  void refresh_load();
  void refresh_hidden();
  void enter_load();
  Workbench& bench_;
  QVBoxLayout* column_ = nullptr;
  QScrollArea* scroll_ = nullptr;
  ScenarioList* scenarios_ = nullptr;
  std::vector<FoldGroup*> groups_;
  FoldGroup *load_ = nullptr, *advanced_ = nullptr;
  std::vector<Field*> fields_;
  QComboBox* kind_ = nullptr;
  QString foreign_;  // the kind of a load that the form does not edit; empty: none
  QCheckBox *follows_ = nullptr, *pools_ = nullptr;
  QLineEdit* values_ = nullptr;
  QLabel *load_problem_ = nullptr, *problem_ = nullptr, *hidden_ = nullptr;
};

}  // namespace plimsoll::gui
