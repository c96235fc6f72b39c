// SPDX-License-Identifier: GPL-3.0-or-later
// plimsoll-gui, the desktop program; `plimsoll gui` starts it.
#include <QApplication>
#include <QCommandLineParser>
#include <QSettings>
#include <QStandardPaths>
#include <QStyleFactory>
#include <QTimer>
#include <cstdio>

#include "gui/core/text.h"
#include "gui/window/main_window.h"
#include "gui/window/screenshot.h"
#include "model/error.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::gui;

constexpr int kBadInput = 2, kDeviceFailed = 3;
constexpr int kKeepMs = 3000;          // what a crash may cost

void add_options(QCommandLineParser& parser) {
  parser.setApplicationDescription(QStringLiteral(
      "Simulated and measured latency-throughput curves, live. Opens studies, sessions, measured points (CSV),\n"
      "points.csv of a run and Hugging Face config.json files."));
  parser.addPositionalArgument(QStringLiteral("FILE"), QStringLiteral("studies, sessions, tables of measured points"), QStringLiteral("[FILE…]"));
  parser.addHelpOption();
  parser.addOption({QStringLiteral("screenshot"), QStringLiteral("write a picture and end; needs no display"), QStringLiteral("OUT.png")});
  parser.addOption({QStringLiteral("view"), QStringLiteral("the view to show, one of --list-views"), QStringLiteral("NAME")});
  parser.addOption({QStringLiteral("list-views"), QStringLiteral("print the names of the views")});
  parser.addOption({QStringLiteral("size"), QStringLiteral("of the window, 1320x860"), QStringLiteral("WxH"), QStringLiteral("1320x860")});
  parser.addOption({QStringLiteral("scale"), QStringLiteral("device pixels a pixel, 1 to 4"), QStringLiteral("N"), QStringLiteral("1")});
  parser.addOption({QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("NAME"), QStringLiteral("light")});
}

QSize read_size(const QString& text) {
  const QStringList parts = text.split(QChar(u'x'));
  const QSize size = parts.size() == 2 ? QSize(parts[0].toInt(), parts[1].toInt()) : QSize();
  if (size.width() < 400 || size.height() < 300 || size.width() > 8000 || size.height() > 8000) {
    throw InputError("--size: found '" + utf8(text) + "', expected WIDTHxHEIGHT from 400x300 to 8000x8000");
  }
  return size;
}

int list_views(MainWindow& window) {
  for (const View* view : window.views()) std::printf("%-10s %s\n", utf8(view->id()).c_str(), utf8(view->title()).c_str());
  std::printf("%-10s %s\n", kDecisionView, "Curves, and what the planner finds");
  return 0;
}

int run(const QCommandLineParser& parser) {
  Workbench bench;
  MainWindow window(bench);
  if (parser.isSet(QStringLiteral("list-views"))) return list_views(window);
  const QString theme = parser.value(QStringLiteral("theme"));
  if (theme != QStringLiteral("light") && theme != QStringLiteral("dark")) {
    throw InputError("--theme: found '" + utf8(theme) + "', expected light or dark");
  }
  const QString view = parser.isSet(QStringLiteral("view")) ? parser.value(QStringLiteral("view")) : QStringLiteral("curves");
  if (window.view(view) == nullptr && view != QLatin1String(kDecisionView)) throw InputError("--view: found '" + utf8(view) + "'; --list-views names them");
  const QSize size = read_size(parser.value(QStringLiteral("size")));
  window.set_dark(theme == QStringLiteral("dark"));
  const QStringList files = parser.positionalArguments();
  if (parser.isSet(QStringLiteral("screenshot"))) {
    for (const QString& file : files) bench.open(file);   // headless: what is wrong ends the program
    if (files.isEmpty()) bench.session().replace(default_session());
    write_screenshot(bench, window, view, parser.value(QStringLiteral("screenshot")), size);
    return 0;
  }
  window.restore_layout();
  if (parser.isSet(QStringLiteral("size"))) window.resize(size);
  if (!parser.isSet(QStringLiteral("theme"))) window.set_dark(QSettings().value(QStringLiteral("dark")).toBool());
  window.show_view(view);
  window.show();
  // After the first paint, so that the window is there at once.
  QTimer::singleShot(0, &window, [&] {
    if (files.isEmpty()) bench.session().replace(default_session());
    else window.open_files(files);
    window.guard(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation), kKeepMs);
  });
  return QApplication::exec();
}

// Qt's platform for running without a display apologises for what nobody asked of it.
void pass_on(QtMsgType type, const QMessageLogContext& /*context*/, const QString& text) {
  if (text.contains(QStringLiteral("propagateSizeHints")) || text.contains(QStringLiteral("runtime directory")) || text.contains(QStringLiteral("XDG_RUNTIME_DIR"))) return;
  if (type != QtDebugMsg && type != QtInfoMsg) std::fprintf(stderr, "plimsoll: %s\n", utf8(text).c_str());
}

// Before the application exists: the platform and the scale cannot be changed afterwards.
void prepare_environment(int argc, char** argv) {
  bool headless = false;
  for (int i = 1; i < argc; ++i) {
    const QByteArray word(argv[i]);
    headless = headless || word == "--list-views" || word == "--screenshot" || word.startsWith("--screenshot=") || word == "--help" || word == "-h";
    if (word == "--scale" && i + 1 < argc) qputenv("QT_SCALE_FACTOR", argv[i + 1]);
    if (word.startsWith("--scale=")) qputenv("QT_SCALE_FACTOR", word.mid(8));
  }
  if (headless) qputenv("QT_QPA_PLATFORM", "offscreen");
}

}  // namespace

int main(int argc, char** argv) {
  prepare_environment(argc, argv);
  qInstallMessageHandler(pass_on);
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const QApplication app(argc, argv);
  QCoreApplication::setOrganizationName(QStringLiteral("plimsoll"));
  QCoreApplication::setApplicationName(QStringLiteral("plimsoll-gui"));
  QCommandLineParser parser;
  add_options(parser);
  if (!parser.parse(QCoreApplication::arguments())) {
    std::fprintf(stderr, "plimsoll: %s\n", utf8(parser.errorText()).c_str());
    return kBadInput;
  }
  if (parser.isSet(QStringLiteral("help"))) {
    std::fputs(utf8(parser.helpText().replace(QStringLiteral("plimsoll-gui"), QStringLiteral("gui"))).c_str(), stdout);
    return 0;
  }
  try {
    return run(parser);
  } catch (const InputError& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return kDeviceFailed;
  }
}
