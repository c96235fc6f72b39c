// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/yaml_dock.h"

#include <QFontDatabase>
#include <QLabel>
#include <QPlainTextEdit>
#include <QTextBlock>
#include <QVBoxLayout>

#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

constexpr int kPauseMs = 400;  // after the last key

// Returns the study as `simulate` reads it. An invalid one is shown as it is stated.
std::string scenario_yaml(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue) {
  try {
    const std::string text = make_study(scenario, catalogue).resolved_yaml();
    return text.starts_with('#') ? text.substr(text.find('\n') + 1) : text;  // the licence of saved studies
  } catch (const std::exception&) {
    return edited_yaml(scenario);
  }
}

}  // namespace

YamlDock::YamlDock(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 4, 6, 6);
  editor_ = new QPlainTextEdit(this);
  editor_->setAccessibleName(tr("The study as YAML"));
  editor_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  editor_->setLineWrapMode(QPlainTextEdit::NoWrap);
  editor_->setTabChangesFocus(true);
  problem_ = new QLabel(this);
  problem_->setObjectName(QStringLiteral("problem"));
  problem_->setWordWrap(true);
  problem_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  problem_->setFocusPolicy(Qt::NoFocus);
  problem_->hide();
  column->addWidget(editor_, 1);
  column->addWidget(problem_);
  pause_.setSingleShot(true);
  pause_.setInterval(kPauseMs);
  connect(&pause_, &QTimer::timeout, this, [this] { static_cast<void>(apply()); });
  connect(editor_, &QPlainTextEdit::modificationChanged, this, [this](bool modified) {
    if (!modified) pause_.stop();
  });
  connect(editor_, &QPlainTextEdit::textChanged, this, [this] {
    if (editor_->document()->isModified()) pause_.start();
  });
  connect(&bench_.session(), &Session::changed, this, &YamlDock::refresh);
  connect(&bench_, &Workbench::curves_changed, this, &YamlDock::refresh_problem);
}

void YamlDock::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  refresh();
}

// Typed text keeps its comments and layout as long as it means the same as the scenario.
void YamlDock::refresh() {
  if (!isVisible()) return;
  const Scenario& scenario = bench_.session().scenario();
  const std::string text = scenario_yaml(scenario, bench_.catalogue());
  if (text == shown_ && scenario.name == scenario_) return;
  shown_ = text;
  scenario_ = scenario.name;
  unread_ = typed_ = false;
  editor_->setPlainText(qs(text));
  editor_->document()->setModified(false);
  show_problem({}, 0);
  refresh_problem();
}

bool YamlDock::apply() {
  pause_.stop();
  if (!editor_->document()->isModified()) return !unread_;
  const std::string text = utf8(editor_->toPlainText());
  try {
    Scenario next = bench_.session().scenario();
    next.document = configs::Document::from_text(text, next.file);
    if (!next.document.root().is_map()) throw InputError(Where{next.file, 1, 1}, "expected a map of a study's keys");
    next.edits.clear();
    // Set before the session reports the change, so that the typed text is not replaced by the generated one.
    shown_ = scenario_yaml(next, bench_.catalogue());
    scenario_ = next.name;
    unread_ = false;
    typed_ = true;
    editor_->document()->setModified(false);
    show_problem({}, 0);
    bench_.session().edit(tr("Edit the YAML"), QStringLiteral("yaml"), [&](SessionState& s) {
      s.scenarios[s.current].document = next.document;
      s.scenarios[s.current].edits.clear();
    });
    return true;
  } catch (const InputError& error) {
    unread_ = true;
    editor_->document()->setModified(false);
    show_problem(qs(error.text()), static_cast<int>(error.where().line));
    return false;
  }
}

void YamlDock::refresh_problem() {
  if (!isVisible() || unread_) return;
  const auto& failure = bench_.failure();
  if (!failure) return show_problem({}, 0);
  // The line refers to the text from which the study was read, which is this one only if it was typed here.
  show_problem(failure->text, typed_ ? failure->line : 0);
}

void YamlDock::show_problem(const QString& text, int line) {
  const QString words = text.isEmpty() ? QString()
                        : line > 0     ? tr("✗ Line %1: %2").arg(line).arg(text)
                                       : QStringLiteral("✗ ") + text;
  problem_->setText(words);
  problem_->setVisible(!words.isEmpty());
  QList<QTextEdit::ExtraSelection> marks;
  if (line > 0 && !text.isEmpty()) {
    QTextEdit::ExtraSelection mark;
    mark.cursor = QTextCursor(editor_->document()->findBlockByNumber(line - 1));
    QColor ground = theme_->bad;
    ground.setAlphaF(0.18F);
    mark.format.setBackground(ground);
    mark.format.setProperty(QTextFormat::FullWidthSelection, true);
    marks << mark;
  }
  editor_->setExtraSelections(marks);
}

QString YamlDock::problem() const { return problem_->isHidden() ? QString() : problem_->text(); }

}  // namespace plimsoll::gui
