// SPDX-License-Identifier: Apache-2.0
// Exports, the palette, big text and long words.
#include <QAbstractButton>
#include <QAction>
#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QDate>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QTimer>
#include <QTranslator>
#include <set>

#include "gui/window/curves_view.h"
#include "gui/window/export.h"
#include "gui/window/import_dialog.h"
#include "gui/window/main_window.h"
#include "gui/window/palette.h"
#include "gui/window/scenario_dock.h"
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

// Open and drop always offered it; Add from files only complained.
TEST_F(FilesTest, AForeignTableIsOfferedForImportHoweverItCame) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  const QString file = qs(write("mine.csv", "threads;per_token_ms\n64;31\n"));
  for (const bool added : {false, true}) {
    added ? window.add_files({file}) : window.open_files({file});
    auto* dialog = window.findChild<ImportDialog*>();
    ASSERT_NE(dialog, nullptr) << added;
    dialog->reject();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    EXPECT_EQ(window.findChild<ImportDialog*>(), nullptr);
  }
}

// The window used to show the example's form beside an empty plot.
TEST_F(FilesTest, AStartWithAnUnreadableFileShowsTheExample) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  window.start_with({folder_.filePath(QStringLiteral("missing.yaml"))});
  settle(bench);
  EXPECT_FALSE(window.problem().isEmpty());
  EXPECT_EQ(bench.curves().results().size(), 10U) << "the example's loads";
  EXPECT_EQ(bench.session().scenario().name, default_session().scenarios[0].name);
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

// The curves' load, degree and band belong to their figures: x and y alone would not say what was simulated.
TEST_F(FilesTest, ACurvesCsvStatesLoadDegreeAndBand) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  window.show_view(QStringLiteral("curves"));
  const TableData table = window.current_view()->table();
  const auto column = [&](const char* header) { return table.headers.indexOf(qs(header)); };
  const auto load = column("load"), tp = column("TP"), y = column("p90 latency per output token (ms)"),
             low = column("90 % band from: p90 latency per output token (ms)"),
             high = column("90 % band to: p90 latency per output token (ms)");
  for (const auto at : {load, tp, y, low, high}) ASSERT_GE(at, 0);
  std::set<QString> degrees, kinds;
  int banded = 0;
  for (const QStringList& row : table.rows) {
    ASSERT_EQ(row.size(), table.headers.size());
    EXPECT_GT(row[load].toDouble(), 0);
    degrees.insert(row[tp]);
    kinds.insert(row[column("kind")]);
    if (row[low].isEmpty()) continue;
    ++banded;
    EXPECT_LE(row[low].toDouble(), row[y].toDouble());
    EXPECT_GE(row[high].toDouble(), row[y].toDouble());
  }
  EXPECT_EQ(degrees,
            (std::set<QString>{QStringLiteral("1"), QStringLiteral("2"), QStringLiteral("4"), QStringLiteral("8")}));
  EXPECT_EQ(banded, 40) << "four degrees, ten loads; refined points have no band";
  EXPECT_TRUE(kinds.contains(QStringLiteral("published")));
}

TEST_F(FilesTest, APictureSaysWhatItShowsAndHasNoControls) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  settle(bench);
  for (View* view : window.views()) {
    window.show_view(view->id());
    settle(bench);
    const QString texts = Picture(*view).texts().join(QChar(u'\n'));
    for (const QString& part : {view->title(), QStringLiteral("llama-2-7b"), QStringLiteral("8 × A100"),
                                QStringLiteral("tgi-1.1"), QDate::currentDate().toString(Qt::ISODate)})
      EXPECT_TRUE(texts.contains(part)) << utf8(view->id()) << ": " << utf8(part) << " in " << utf8(texts);
    for (const QWidget* chart : view->picture().charts) {
      EXPECT_TRUE(chart->findChildren<QComboBox*>().empty()) << utf8(view->id());
      EXPECT_TRUE(chart->findChildren<QCheckBox*>().empty()) << utf8(view->id());
    }
  }
}

// Each answer of the user would be one too many: a file that cannot be opened replaces nothing.
TEST_F(FilesTest, AFileThatCannotBeReadAsksNothing) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  ASSERT_TRUE(bench.session().is_modified());
  int asked = 0;
  QTimer watch;
  QObject::connect(&watch, &QTimer::timeout, &watch, [&] {
    auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
    if (box == nullptr) return;
    ++asked;
    box->reject();
  });
  watch.start(0);
  const std::string study = write("broken.yaml", "study: broken\nmodel: no-such-model\n");
  const std::string picture = write("broken.png", "not a picture");
  for (const std::string& file : {study, picture}) {
    window.open_files({qs(file)});
    EXPECT_NE(window.problem(), QString()) << file;
  }
  EXPECT_EQ(asked, 0);
  window.open_files({qs(kJumpStart)});
  EXPECT_EQ(asked, 1) << "this one would replace the session";
}

// Otherwise Ctrl+S would overwrite the session that was open before.
TEST_F(FilesTest, ANewSessionHasNoFile) {
  Workbench bench;
  MainWindow window(bench);
  open(bench, kJumpStart);
  const QString file = folder_.filePath(QStringLiteral("kept.plimsoll-session.yaml"));
  window.save_to(file);
  EXPECT_EQ(bench.session_file(), file);
  EXPECT_TRUE(window.windowTitle().contains(QStringLiteral("kept.plimsoll-session.yaml")))
      << utf8(window.windowTitle());
  for (QAction* action : window.actions_of_menus()) {
    if (action->text() == QStringLiteral("&New")) action->trigger();
  }
  EXPECT_EQ(bench.session_file(), QString());
  EXPECT_FALSE(window.windowTitle().contains(QStringLiteral("kept")));
  settle(bench);
}

TEST_F(FilesTest, ACopiedCommandNamesAFileThatHoldsTheStudy) {
  Workbench bench;
  const QString folder = folder_.filePath(QStringLiteral("studies"));
  const auto study_of = [&](const QString& command) {
    EXPECT_TRUE(command.startsWith(QStringLiteral("plimsoll simulate "))) << utf8(command);
    return command.section(QChar(u' '), 2, 2);
  };
  open(bench, kJumpStart);
  EXPECT_EQ(study_of(bench.command(QStringLiteral("simulate"), folder)), qs(kJumpStart)) << "the file says the same";
  bench.begin(new_session());
  settle(bench);
  const QString first = study_of(bench.command(QStringLiteral("simulate"), folder));
  bench.set_value(QStringLiteral("deployment.replicas"), QStringLiteral("2"));
  settle(bench);
  const QString second = study_of(bench.command(QStringLiteral("simulate"), folder));
  EXPECT_NE(first, second) << "the first command keeps its study";
  EXPECT_EQ(make_study(open_scenario(utf8(first)), bench.catalogue()).point(0).deployment.replicas, 1);
  EXPECT_EQ(make_study(open_scenario(utf8(second)), bench.catalogue()).point(0).deployment.replicas, 2);
}

TEST_F(FilesTest, TheMenuShowsWhichPartsOfTheCurvesAreOn) {
  Workbench bench;
  MainWindow window(bench);
  open(bench, kJumpStart);
  QAction* bands = nullptr;
  for (QAction* action : window.actions_of_menus()) {
    if (action->text() == QStringLiteral("Bands")) bands = action;
  }
  ASSERT_NE(bands, nullptr);
  auto* menu = qobject_cast<QMenu*>(bands->parent());
  ASSERT_NE(menu, nullptr);
  for (const bool on : {true, false}) {
    bench.set_view({}, {}, [on](ViewState& view) { view.bands = on; });
    Q_EMIT menu->aboutToShow();
    EXPECT_TRUE(bands->isCheckable());
    EXPECT_EQ(bands->isChecked(), on);
  }
  settle(bench);
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

TEST_F(FilesTest, ThePaletteFindsAndSetsFields) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  open(bench, kJumpStart);
  QString gone;
  const auto fields = [&](const QString& typed) {
    return window.scenario().commands(typed, [&](const QString& path) { gone = path; });
  };
  Palette palette(commands_of(window.actions_of_menus()), fields, &window);
  const auto listed = [&](const char* typed) {
    palette.line().setText(qs(typed));
    return palette.listed();
  };
  EXPECT_EQ(listed("tp 2").value(0), QStringLiteral("Set Tensor-parallel degree (tp) to 2"));
  QTest::keyClick(&palette.line(), Qt::Key_Return);
  settle(bench);
  EXPECT_EQ(bench.curves().results().front().labels.tp, 2);
  EXPECT_EQ(listed("seed").value(0), QStringLiteral("Go to Seed (seed)"));
  QTest::keyClick(&palette.line(), Qt::Key_Return);
  EXPECT_EQ(gone, QStringLiteral("seed"));
  EXPECT_TRUE(listed("export").contains(QStringLiteral("Export the view…")));
  EXPECT_TRUE(listed("qqqq").empty());
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

// Two uses of one key would make it do nothing.
TEST_F(FilesTest, NoShortcutIsAlsoTheLetterOfAMenuOrAButton) {
  Workbench bench;
  MainWindow window(bench);
  window.show();
  window.show_view(QString::fromLatin1(kDecisionView));
  open(bench, kJumpStart);
  std::set<QString> keys;
  for (const QAction* action : window.actions_of_menus()) keys.insert(action->shortcut().toString());
  for (View* view : window.views()) {
    window.show_view(view->id());
    std::set<QString> letters = keys;
    const auto take = [&](const QString& text) {
      const QString letter = QKeySequence::mnemonic(text).toString();
      EXPECT_TRUE(letter.isEmpty() || letters.insert(letter).second) << utf8(view->id()) << ": " << utf8(text);
    };
    for (const QAction* menu : window.menuBar()->actions()) take(menu->text());
    for (const QWidget* widget : window.findChildren<QWidget*>()) {
      const auto* label = qobject_cast<const QLabel*>(widget);
      const auto* button = qobject_cast<const QAbstractButton*>(widget);
      if (!widget->isVisible()) continue;
      if (button != nullptr) take(button->text());
      if (label != nullptr && label->buddy() != nullptr) take(label->text());
    }
  }
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
