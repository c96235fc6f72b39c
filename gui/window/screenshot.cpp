// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/export.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QImage>
#include <QPixmap>

#include "gui/core/text.h"
#include "gui/window/decision_dock.h"
#include "model/error.h"

namespace plimsoll::gui {

void write_screenshot(Workbench& bench, MainWindow& window, const Screenshot& shot) {
  const auto& [view, file, size, timeout_ms] = shot;
  window.resize(size);
  window.show();
  window.show_view(view);
  if (view == QLatin1String(kDecisionView)) window.decision().plan();
  QElapsedTimer clock;
  clock.start();
  const auto ready = [&] {
    return !bench.is_busy() && !bench.tasks().busy() && window.current_view()->is_ready() &&
           window.decision().run().state() == ChildRun::State::idle;
  };
  int quiet = 0;  // count several idle turns, because results may start further work
  while (quiet < 5) {
    QApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
    quiet = ready() ? quiet + 1 : 0;
    if (clock.elapsed() > timeout_ms) throw DeviceError("the view '" + utf8(view) + "' was not complete in time");
  }
  window.current_view()->refresh();
  window.current_view()->complete();
  QApplication::processEvents();
  constexpr int kSmall = 0;  // quality 0: the strongest lossless compression
  if (!window.grab().toImage().convertToFormat(QImage::Format_RGB32).save(file, "PNG", kSmall))
    throw DeviceError(utf8(file) + " cannot be written");
}

}  // namespace plimsoll::gui
