// SPDX-License-Identifier: Apache-2.0
// Exports, the palette, big text and long words.
#include <QAbstractButton>
#include <QAction>
#include <QApplication>
#include <QImage>
#include <QLabel>
#include <QTranslator>
#include <set>

#include "gui/window/curves_view.h"
#include "gui/window/export.h"
#include "gui/window/main_window.h"
#include "gui/window/palette.h"
#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class FilesTest : public BenchTest {
 protected:
  std::string text_of(const QString& file) {
    QFile in(file);
    EXPECT_TRUE(in.open(QIODevice::ReadOnly));
    return in.readAll().toStdString();
  }
};

TEST_F(FilesTest, APictureOpensAsItsSession) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  settle(bench);
  const std::string session = session_text(bench.session().state());
  for (const char* const ending : {"png", "svg", "pdf"}) {
    const QString file = folder_.filePath(QStringLiteral("picture.") + qs(ending));
    window.export_to(file);
    EXPECT_EQ(window.problem(), QString());
    EXPECT_EQ(session_in_picture(file), session) << ending;
    bench.session().replace(default_session());
    window.open_files({file});
    EXPECT_EQ(session_text(bench.session().state()), session) << ending;
  }
}

TEST_F(FilesTest, DataAreExportedWithEveryDigit) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  window.show_view(QStringLiteral("table"));
  const QString csv = folder_.filePath(QStringLiteral("data.csv"));
  window.export_to(csv);
  EXPECT_EQ(text_of(folder_.filePath(QStringLiteral("data.plimsoll-session.yaml"))),
            session_text(bench.session().state()));
  const std::string text = text_of(csv);
  const std::string some = study::number_text(bench.curves().results().front().metrics->output_tokens_per_s);
  EXPECT_NE(text.find(some), std::string::npos) << some;
}

TEST_F(FilesTest, WhatCannotBeWrittenIsSaidInTheWindow) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  for (const char* const file : {"/nowhere/x.png", "/nowhere/x.svg", "/nowhere/x.csv", "x.docx"}) {
    window.report({});
    window.export_to(qs(file));
    EXPECT_NE(window.problem(), QString()) << file;
  }
  window.report({});
  window.save_to(QStringLiteral("/nowhere/a.plimsoll-session.yaml"));
  EXPECT_NE(window.problem(), QString());
}

TEST_F(FilesTest, ACorruptFileIsSaidInTheWindowAndNothingIsLost) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  const std::string before = session_text(bench.session().state());
  window.open_files({qs(write("broken.plimsoll-session.yaml", "plimsoll_session: 1\nscenarios: [{name: a}]\n"))});
  EXPECT_TRUE(window.problem().contains(QStringLiteral("broken.plimsoll-session.yaml:"))) << utf8(window.problem());
  EXPECT_EQ(session_text(bench.session().state()), before);
}

TEST(PaletteTest, LettersInOrderMatchAndWordStartsComeFirst) {
  EXPECT_EQ(match_score(QStringLiteral("xyz"), QStringLiteral("Save session")), -1);
  EXPECT_EQ(match_score(QStringLiteral("ss"), QStringLiteral("Save session")), 0);
  EXPECT_LT(match_score(QStringLiteral("exp"), QStringLiteral("Export the view")),
            match_score(QStringLiteral("exp"), QStringLiteral("Where existing pens end")));
}

TEST_F(FilesTest, EveryShortcutIsUsedOnce) {
  Workbench bench;
  MainWindow window(bench);
  std::set<QString> seen;
  for (const QAction* action : window.actions_of_menus()) {
    if (action->shortcut().isEmpty()) continue;
    EXPECT_TRUE(seen.insert(action->shortcut().toString()).second) << utf8(action->shortcut().toString());
  }
  EXPECT_GE(seen.size(), 25U);
}

/// Makes texts half as long again, with accents, as a translation might.
class PseudoLocale final : public QTranslator {
 public:
  [[nodiscard]] QString translate(const char* /*context*/, const char* source, const char* /*disambiguation*/,
                                  int /*n*/) const override {
    const QString text = QString::fromUtf8(source);
    if (text.size() < 2 || text.startsWith(QStringLiteral("Ctrl")) || text.startsWith(QStringLiteral("Alt")) ||
        text == QStringLiteral("Esc") || text == QStringLiteral("F1"))
      return text;
    return QStringLiteral("Ⓟ") + text + QString(text.size() / 2, QChar(u'é'));
  }
  [[nodiscard]] bool isEmpty() const override { return false; }
};

// Checks that labels and buttons have at least the space that their text needs.
void expect_nothing_clipped(MainWindow& window) {
  for (View* view : window.views()) {
    window.show_view(view->id());
    QCoreApplication::processEvents();
    for (const QWidget* widget : window.findChildren<QWidget*>()) {
      const auto* label = qobject_cast<const QLabel*>(widget);
      const auto* button = qobject_cast<const QAbstractButton*>(widget);
      if ((!label && !button) || !widget->isVisible()) continue;
      if (label && (label->wordWrap() || label->text().isEmpty())) continue;
      const QString text = label ? label->text() : button->text();
      if (text.isEmpty()) continue;
      EXPECT_GE(widget->width(), widget->sizeHint().width()) << utf8(view->id()) << ": " << utf8(text);
      EXPECT_GE(widget->height(), widget->minimumSizeHint().height()) << utf8(view->id()) << ": " << utf8(text);
    }
  }
}

TEST_F(FilesTest, NothingIsClippedInAPseudoLocale) {
  PseudoLocale locale;
  QCoreApplication::installTranslator(&locale);
  {
    Workbench bench;
    MainWindow window(bench);
    window.resize(1320, 860);
    window.show();
    open(bench, kJumpStart);
    expect_nothing_clipped(window);
  }
  QCoreApplication::removeTranslator(&locale);
}

TEST_F(FilesTest, NothingIsClippedAtTwiceTheTextSize) {
  const QFont before = QApplication::font();
  QFont large = before;
  large.setPointSizeF(before.pointSizeF() * 2);
  QApplication::setFont(large);
  {
    Workbench bench;
    MainWindow window(bench);
    window.resize(1900, 1100);
    window.show();
    open(bench, kJumpStart);
    expect_nothing_clipped(window);
  }
  QApplication::setFont(before);
}

}  // namespace
}  // namespace plimsoll::gui
