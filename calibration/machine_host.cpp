// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_steps.h"

#include <fmt/format.h>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "exec/brief_wait.h"
#include "exec/cpu/thread_pool.h"
#include "exec/live/measure_point.h"
#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll::calibration {

namespace {

using Clock = std::chrono::steady_clock;

// A device whose forwards take a fixed time, during which all cores compute as in the executor. The rest of a run is
// then host time. If the device answered immediately, the control thread would never sleep, and the cost of waking it,
// which exceeds its work, would not be measured.
class PacedDevice final : public exec::ForwardDevice {
 public:
  explicit PacedDevice(int threads) : team_(threads) {}
  void start(const exec::ForwardInput& input) override {
    const auto begin = Clock::now();
    std::size_t answers = input.decode.size();
    for (const exec::PrefillRows& span : input.prefill) answers += span.emits ? 1 : 0;
    answers_.push_back(answers);
    team_.for_each(team_.threads(), [&](int, std::int64_t) {
      while (Clock::now() < begin + kForward) exec::pause_briefly();
    });
    spent_ += Clock::now() - begin;
  }
  void finish(exec::ForwardOutput& output) override {
    output.tokens.assign(answers_.front(), 1);
    output.logits.clear();
    answers_.pop_front();
  }
  [[nodiscard]] std::int64_t bytes_per_block() const override { return 1; }
  void read_block(std::int32_t, std::span<std::byte>) override {}
  void write_block(std::int32_t, std::span<const std::byte>) override {}

  /// Returns the seconds of forwards since the last call.
  [[nodiscard]] double take_spent() { return std::chrono::duration<double>(std::exchange(spent_, {})).count(); }

 private:
  static constexpr auto kForward = std::chrono::microseconds(150);  // long enough for the control thread to go to sleep
  exec::ThreadPool team_;
  std::deque<std::size_t> answers_;
  Clock::duration spent_{};
};

struct Load {
  std::int32_t users, input, output;
};

load::Scenario scenario_of(const Load& load, std::shared_ptr<const configs::Catalogue> catalogue) {
  const std::string text = fmt::format(
      "model: demo-llama-40m\nhardware: {{accelerator: generic-cpu, count: 1}}\nengine: plimsoll-cpu\nscheduler: "
      "{{kv_blocks: 20000}}\n"
      "workload:\n  load: {{closed_loop: {{concurrency: {}}}}}\n  lengths: {{input: {}, output: {}}}\n  requests: {}\n",
      load.users, load.input, load.output, std::max(2 * load.users, 6));
  const study::Study study(configs::Document::from_text(text, "host benchmark"), "host benchmark", {},
                           std::move(catalogue));
  return *study::resolve_point(study, 0).scenario;
}

HostSample measure(const Load& load, const std::shared_ptr<const configs::Catalogue>& catalogue, PacedDevice& device) {
  const load::Scenario scenario = scenario_of(load, catalogue);
  const exec::LiveReplicas replicas{.devices = {&device}, .sequences = 256, .sampling = {}};
  const exec::PromptSource prompts(1, 32000);
  HostSample best{0, 0, 0, 0, 1e9};
  static_cast<void>(device.take_spent());
  for (int repeat = 0; repeat < 3; ++repeat) {  // keep the fastest: neighbours can only slow a run down
    const sched::RunResult run = exec::measure_point(scenario, replicas, prompts, {});
    const double seconds = run.metrics.duration_s - device.take_spent();
    const auto requests = static_cast<double>(run.metrics.requests_completed);
    if (seconds < best.seconds)
      best = {static_cast<double>(run.steps_run), requests * load.output, requests * (load.input + load.output - 1),
              requests, seconds};
  }
  return best;
}

}  // namespace

// Least squares on relative errors with non-negative terms: tries every subset of the terms, and keeps the best one
// whose solution has no negative term.
std::array<double, 4> fit_host(const std::vector<HostSample>& samples) {
  const auto count = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd a(count, 4);
  for (Eigen::Index i = 0; i < count; ++i) {
    const HostSample& s = samples[static_cast<std::size_t>(i)];
    // Each row is divided by its measured time, so that the sum of squares is that of relative errors.
    a.row(i) << s.steps / s.seconds, s.rows / s.seconds, s.tokens / s.seconds, s.prompts / s.seconds;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(count);
  std::array<double, 4> best{};
  double least = ones.squaredNorm();
  for (unsigned terms = 1; terms < 16; ++terms) {
    Eigen::MatrixXd chosen = a;
    for (Eigen::Index j = 0; j < 4; ++j)
      if ((terms >> static_cast<unsigned>(j) & 1U) == 0) chosen.col(j).setZero();
    const Eigen::VectorXd x = chosen.completeOrthogonalDecomposition().solve(ones);
    const double error = (chosen * x - ones).squaredNorm();
    if (x.minCoeff() < 0 || error >= least) continue;
    least = error;
    for (Eigen::Index j = 0; j < 4; ++j) best[static_cast<std::size_t>(j)] = x[j];
  }
  return best;
}

model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings&) {
  constexpr std::array kLoads = {Load{1, 16, 200}, Load{4, 16, 100}, Load{16, 16, 60}, Load{48, 16, 40}, Load{8, 16, 2},
                                 Load{32, 16, 2},  Load{1, 256, 8},  Load{8, 256, 8},  Load{1, 400, 2}};
  const auto own = std::make_shared<const configs::Catalogue>(catalogue.root());
  PacedDevice device(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  std::vector<HostSample> samples;
  for (const Load& load : kLoads) samples.push_back(measure(load, own, device));
  const std::array<double, 4> x = fit_host(samples);
  model::EngineProfile engine = *own->engine("plimsoll-cpu")->profile;
  engine.host_step = Seconds(x[0]);
  engine.host_sequence = Seconds(x[1]);
  engine.host_token = Seconds(x[2]);
  engine.host_prefill = Seconds(x[3]);
  engine.overlap = model::HostOverlap::none;
  engine.calibrated = true;
  engine.calibrated_on = "this machine: the live loop around a device whose forwards take a set time";
  return engine;
}

double host_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  double kib = 0;
  while (file >> key >> kib && std::getline(file, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return 16e9;
}

}  // namespace plimsoll::calibration
