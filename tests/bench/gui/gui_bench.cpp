// SPDX-License-Identifier: Apache-2.0
// Measures what the desktop program promises: the time from a slider's move to the complete curve, to its first points
// and to their picture. Also the time that the event loop is blocked during a drag, a cloud of a million points, and
// memory. Counters are in milliseconds (p50, p95, p99 of all moves) and MB.
#include <benchmark/benchmark.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QStyleFactory>
#include <QTest>
#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "gui/core/text.h"
#include "gui/plot/decimate.h"
#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"

namespace plimsoll::gui {
namespace {

const std::string kStudy = std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/jumpstart-7b-p4d.yaml";
constexpr int kMoves = 200;
constexpr double kIdleTurn = 0.05;  // ms; a shorter turn of the event loop had nothing to do

double ms(const QElapsedTimer& clock) { return static_cast<double>(clock.nsecsElapsed()) * 1e-6; }

double at(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

void report(benchmark::State& state, const std::string& name, const std::vector<double>& values) {
  state.counters[name + "_p50"] = at(values, 0.5);
  state.counters[name + "_p95"] = at(values, 0.95);
  state.counters[name + "_p99"] = at(values, 0.99);
}

void settle(Workbench& bench) {
  while (!QTest::qWaitFor([&] { return !bench.is_busy(); }, 60000)) {}
  QCoreApplication::processEvents();
}

struct Desk {
  /// Opens the study at TP 4, over `scenarios` - 1 copies with other TP degrees.
  explicit Desk(std::int64_t scenarios = 1) : window(bench) {
    window.resize(1320, 860);
    window.show();
    bench.open(qs(kStudy));
    constexpr std::array kDegrees = {1, 2, 8, 4};
    for (std::int64_t i = 1; i < scenarios; ++i) {
      bench.set_value(QStringLiteral("deployment.tp"), QString::number(kDegrees.at(static_cast<std::size_t>(i - 1))));
      bench.duplicate_scenario();
    }
    bench.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
    settle(bench);
  }
  /// Moves the batch limit, as its slider does, to a value that has not been simulated before: known curves are shown
  /// at once and would not be measured.
  void move(int number) {
    bench.set_value(QStringLiteral("scheduler.max_running"), QString::number(17 + (number * 37) % 480));
  }
  Workbench bench;
  MainWindow window;
};

/// Records that a widget was painted.
class PaintWatch final : public QObject {
 public:
  explicit PaintWatch(QWidget& widget) { widget.installEventFilter(this); }
  bool seen = false;

 protected:
  bool eventFilter(QObject* /*watched*/, QEvent* event) override {
    seen = seen || event->type() == QEvent::Paint;
    return false;
  }
};

// 200 single moves of the batch limit at TP 4 (ten points). `first`: the first points are in the model; `painted`: the
// window shows them; `curve`: the study's points are complete. The argument is the number of scenarios drawn.
void SliderToCurve(benchmark::State& state) {
  Desk desk(state.range(0));
  std::vector<double> first, painted, curve;
  QElapsedTimer clock;
  bool waiting_first = false, waiting_curve = false, begun = false;
  QObject::connect(&desk.bench, &Workbench::curves_changed, &desk.window, [&] {
    const auto& curves = desk.bench.curves().curves();
    // The first signal of a move comes while the model still has the curves of the last one.
    begun = begun || !desk.bench.curves().is_complete();
    if (!begun) return;
    if (waiting_first && !curves.empty() && !curves.front().points.empty()) {
      waiting_first = false;
      first.push_back(ms(clock));
    }
    if (waiting_curve && desk.bench.curves().is_complete()) {
      waiting_curve = false;
      curve.push_back(ms(clock));
    }
  });
  PaintWatch paint(*desk.window.curves().plot().findChild<QWidget*>(QStringLiteral("canvas")));
  for (auto _ : state) {
    for (int move = 0; move < kMoves; ++move) {
      clock.start();
      waiting_first = waiting_curve = true;
      begun = false;
      bool waiting_paint = true;
      desk.move(move);
      while (waiting_curve || waiting_paint) {
        // A paint shows the first points only if they arrived before it.
        const bool arrived = !waiting_first;
        paint.seen = false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
        if (waiting_paint && arrived && paint.seen) {
          waiting_paint = false;
          painted.push_back(ms(clock));
        }
      }
      settle(desk.bench);
    }
  }
  report(state, "first", first);
  report(state, "painted", painted);
  report(state, "curve", curve);
}
BENCHMARK(SliderToCurve)->Arg(1)->Arg(4)->Iterations(1)->Unit(benchmark::kMillisecond);

// A drag of 200 moves, 16 ms apart. `turn`: a turn of the event loop; `longest`: the longest turn between two moves,
// which short turns cannot hide. The last counter is the time from the last move to the complete curve.
void Drag(benchmark::State& state) {
  Desk desk(state.range(0));
  std::vector<double> turns, longest, after;
  for (auto _ : state) {
    QElapsedTimer total;
    total.start();
    for (int move = 0; move < kMoves; ++move) {
      QElapsedTimer turn;
      turn.start();
      desk.move(move);
      QCoreApplication::processEvents();
      const std::size_t first = turns.size();
      turns.push_back(ms(turn));
      while (ms(total) < 16.0 * (move + 1)) {
        turn.start();
        QCoreApplication::processEvents();
        turns.push_back(ms(turn));
        // A real loop sleeps until the next event; one that spins takes a core from the simulation.
        if (turns.back() < kIdleTurn) std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      longest.push_back(*std::max_element(turns.begin() + static_cast<std::ptrdiff_t>(first), turns.end()));
    }
    QElapsedTimer last;
    last.start();
    while (!desk.bench.curves().is_complete() || desk.bench.is_busy())
      QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 5);
    after.push_back(ms(last));
  }
  std::erase_if(turns, [](double turn) { return turn < kIdleTurn; });
  report(state, "turn", turns);
  report(state, "longest", longest);
  state.counters["turns"] = static_cast<double>(turns.size());
  state.counters["turn_max"] = at(turns, 1);
  report(state, "after_last", after);
}
BENCHMARK(Drag)->Arg(1)->Arg(4)->Iterations(1)->Unit(benchmark::kMillisecond);

void MillionPointCloud(benchmark::State& state) {
  const auto plot = make_plot_view();
  plot->resize(1000, 600);
  plot->show();
  std::mt19937_64 engine(1);
  PlotContent content;
  for (int i = 0; i < 1'000'000; ++i)
    content.cloud.emplace_back(static_cast<double>(engine() % 100000), static_cast<double>(engine() % 100000));
  plot->set_content(content);
  for (auto _ : state) {
    const QPixmap picture = plot->grab();
    benchmark::DoNotOptimize(picture.width());
  }
}
BENCHMARK(MillionPointCloud)->Unit(benchmark::kMillisecond);

// From the application object to a window that shows the whole study. Starting the process adds about 30 ms.
void StartUp(benchmark::State& state) {
  for (auto _ : state) {
    Workbench bench;
    MainWindow window(bench);
    window.resize(1320, 860);
    window.show();
    bench.open(qs(kStudy));
    settle(bench);
    const QPixmap picture = window.grab();
    benchmark::DoNotOptimize(picture.width());
  }
}
BENCHMARK(StartUp)->Unit(benchmark::kMillisecond);

void ResidentMemory(benchmark::State& state) {
  Desk desk(state.range(0));
  for (auto _ : state) {
    for (const View* view : desk.window.views()) {
      desk.window.show_view(view->id());
      settle(desk.bench);
      while (!QTest::qWaitFor([&] { return !desk.bench.tasks().busy(); }, 60000)) {}
      QCoreApplication::processEvents();
      benchmark::DoNotOptimize(desk.window.grab().width());
    }
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) state.counters["rss_MB"] = std::stod(line.substr(6)) / 1024;
  }
}
BENCHMARK(ResidentMemory)->Arg(1)->Arg(4)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::gui

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qInstallMessageHandler([](QtMsgType, const QMessageLogContext&, const QString&) {});
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const QApplication app(argc, argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
