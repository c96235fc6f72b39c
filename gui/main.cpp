// SPDX-License-Identifier: GPL-3.0-or-later
// plimsoll-gui, the desktop program; `plimsoll gui` starts it.
#include <QApplication>
#include <QCommandLineParser>
#include <QSettings>
#include <QStandardPaths>
#include <QStyleFactory>
#include <QTimer>
#include <algorithm>
#include <cstdio>

#include "gui/core/text.h"
#include "gui/window/export.h"
#include "gui/window/main_window.h"
#include "model/error.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::gui;

constexpr int kBadInput = 2, kDeviceFailed = 3;
constexpr int kKeepMs = 3000;  // after a crash, at most this much work is lost

void add_options(QCommandLineParser& parser) {
  parser.setApplicationDescription(QStringLiteral(
      "Simulated and measured latency-throughput curves, live. Opens studies, sessions, measured points (CSV),\n"
      "points.csv of a run and Hugging Face config.json files."));
  parser.addPositionalArgument(QStringLiteral("FILE"), QStringLiteral("studies, sessions, tables of measured points"),
                               QStringLiteral("[FILE…]"));
  parser.addHelpOption();
  parser.addOption({QStringLiteral("screenshot"), QStringLiteral("write a picture and end; needs no display"),
                    QStringLiteral("OUT.png")});
  parser.addOption(
      {QStringLiteral("view"), QStringLiteral("the view to show, one of --list-views"), QStringLiteral("NAME")});
  parser.addOption({QStringLiteral("list-views"), QStringLiteral("print the names of the views")});
  parser.addOption({QStringLiteral("size"), QStringLiteral("of the window, 1320x860"), QStringLiteral("WxH"),
                    QStringLiteral("1320x860")});
  parser.addOption({QStringLiteral("scale"), QStringLiteral("device pixels a pixel, 1 to 4; else QT_SCALE_FACTOR"),
                    QStringLiteral("N"), QStringLiteral("1")});
  parser.addOption(
      {QStringLiteral("theme"), QStringLiteral("light or dark"), QStringLiteral("NAME"), QStringLiteral("light")});
}

QSize read_size(const QString& text) {
  const QStringList parts = text.split(QChar(u'x'));
  const QSize size = parts.size() == 2 ? QSize(parts[0].toInt(), parts[1].toInt()) : QSize();
  if (size.width() < 400 || size.height() < 300 || size.width() > 8000 || size.height() > 8000) {
    throw InputError("--size: found '" + utf8(text) + "', expected WIDTHxHEIGHT from 400x300 to 8000x8000");
  }
  return size;
}

double read_scale(const QString& text) {
  bool is_number = false;
  const double scale = text.toDouble(&is_number);
  if (!is_number || !(scale >= 1) || scale > 4)
    throw InputError("--scale: found '" + utf8(text) + "', expected a number from 1 to 4");
  return scale;
}

QString read_theme(const QString& text) {
  if (text == QStringLiteral("light") || text == QStringLiteral("dark")) return text;
  throw InputError("--theme: found '" + utf8(text) + "', expected light or dark");
}

int list_views(MainWindow& window) {
  for (const View* view : window.views())
    std::printf("%-10s %s\n", utf8(view->id()).c_str(), utf8(view->title()).c_str());
  std::printf("%-10s %s\n", kDecisionView, "Curves, and what the planner finds");
  return 0;
}

// Checks all options before a window is shown, so that a mistake ends the program with a message.
int run(const QCommandLineParser& parser) {
  const bool headless = parser.isSet(QStringLiteral("screenshot")) || parser.isSet(QStringLiteral("list-views"));
  const bool dark = headless || parser.isSet(QStringLiteral("theme"))
                        ? read_theme(parser.value(QStringLiteral("theme"))) == QStringLiteral("dark")
                        : QSettings().value(QStringLiteral("dark")).toBool();
  Workbench bench;
  MainWindow window(bench, dark);
  if (parser.isSet(QStringLiteral("list-views"))) return list_views(window);
  const QString view =
      parser.isSet(QStringLiteral("view")) ? parser.value(QStringLiteral("view")) : QStringLiteral("curves");
  if (window.view(view) == nullptr && view != QLatin1String(kDecisionView))
    throw InputError("--view: found '" + utf8(view) + "'; --list-views names them");
  const QSize size = read_size(parser.value(QStringLiteral("size")));
  const QStringList files = parser.positionalArguments();
  if (parser.isSet(QStringLiteral("screenshot"))) {
    // Headless: an error ends the program. Studies after the first are added to it.
    for (qsizetype i = 0; i < files.size(); ++i) i == 0 ? bench.open(files[i]) : bench.add(files[i]);
    if (files.isEmpty()) bench.begin(default_session());
    write_screenshot(bench, window, {view, parser.value(QStringLiteral("screenshot")), size});
    return 0;
  }
  window.restore_layout();
  if (parser.isSet(QStringLiteral("size"))) window.resize(size);
  window.show_view(view);
  // Before the first paint, because the strip moves everything below it.
  if (files.isEmpty()) window.welcome();
  window.show();
  // Open files after the first paint, so that the window appears immediately.
  QTimer::singleShot(0, &window, [&] {
    window.start_with(files);
    window.guard(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation), kKeepMs);
  });
  return QApplication::exec();
}

// Drops the warnings of Qt's offscreen platform about functions it lacks, and passes all others on.
void pass_on(QtMsgType type, const QMessageLogContext& /*context*/, const QString& text) {
  if (text.contains(QStringLiteral("propagateSizeHints")) || text.contains(QStringLiteral("runtime directory")) ||
      text.contains(QStringLiteral("XDG_RUNTIME_DIR")))
    return;
  if (type != QtDebugMsg && type != QtInfoMsg) std::fprintf(stderr, "plimsoll: %s\n", utf8(text).c_str());
}

// Runs before the application object exists: platform and scale cannot be changed afterwards.
void prepare(const QCommandLineParser& parser) {
  constexpr double kMaxPixels = 16384;  // per side
  const QSize size = read_size(parser.value(QStringLiteral("size")));
  const QString scale_option = QStringLiteral("scale");
  const double scale = read_scale(parser.value(scale_option));
  static_cast<void>(read_theme(parser.value(QStringLiteral("theme"))));
  if (scale * std::max(size.width(), size.height()) > kMaxPixels)
    throw InputError("--size times --scale: expected at most 16384 pixels a side");
  // Without the option, the desktop's own factor applies.
  if (parser.isSet(scale_option)) qputenv("QT_SCALE_FACTOR", QByteArray::number(scale));
  const bool headless = parser.isSet(QStringLiteral("screenshot")) || parser.isSet(QStringLiteral("list-views"));
  if (headless) qputenv("QT_QPA_PLATFORM", "offscreen");
  const bool has_display = qEnvironmentVariableIsSet("DISPLAY") || qEnvironmentVariableIsSet("WAYLAND_DISPLAY") ||
                           qEnvironmentVariableIsSet("QT_QPA_PLATFORM");
  if (!has_display)
    throw DeviceError("no display: neither DISPLAY nor WAYLAND_DISPLAY is set; `--screenshot OUT.png` needs none");
}

int begin(int argc, char** argv) {
  QStringList words;
  for (int i = 0; i < argc; ++i) words.append(QString::fromLocal8Bit(argv[i]));
  QCommandLineParser parser;
  add_options(parser);
  if (!parser.parse(words)) throw InputError(utf8(parser.errorText()));
  const bool help = parser.isSet(QStringLiteral("help"));
  // Help must also work where there is no display.
  if (help)
    qputenv("QT_QPA_PLATFORM", "offscreen");
  else
    prepare(parser);
  qInstallMessageHandler(pass_on);
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const QApplication app(argc, argv);
  QCoreApplication::setOrganizationName(QStringLiteral("plimsoll"));
  QCoreApplication::setApplicationName(QStringLiteral("plimsoll-gui"));
  if (!help) return run(parser);
  std::fputs(utf8(parser.helpText()
                      .replace(QCoreApplication::applicationFilePath(), QStringLiteral("plimsoll gui"))
                      .replace(QStringLiteral("plimsoll-gui"), QStringLiteral("plimsoll gui")))
                 .c_str(),
             stdout);
  std::fputs(
      "\nexample:\n  plimsoll gui configs/studies/jumpstart-7b-p4d.yaml\n"
      "  plimsoll gui --screenshot curves.png configs/studies/jumpstart-7b-p4d.yaml\n",
      stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return begin(argc, argv);
  } catch (const InputError& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return kDeviceFailed;
  }
}
