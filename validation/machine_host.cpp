// SPDX-License-Identifier: Apache-2.0
#include "validation/machine_host.h"

#include <fmt/format.h>

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "exec/serve.h"
#include "study/resolve.h"
#include "study/study.h"

namespace plimsoll::validation {

namespace {

// A device that answers at once: what is left of a step is the host's.
class InstantDevice final : public exec::ForwardDevice {
 public:
  void start(const exec::ForwardInput& input) override {
    std::size_t answers = input.decode.size();
    for (const exec::PrefillRows& span : input.prefill) answers += span.emits ? 1 : 0;
    answers_.push_back(answers);
  }
  void finish(exec::ForwardOutput& output) override {
    output.tokens.assign(answers_.front(), 1);
    output.logits.clear();
    answers_.erase(answers_.begin());
  }
  [[nodiscard]] std::int64_t bytes_per_block() const override { return 1; }
  void read_block(std::int32_t, std::span<std::byte>) override {}
  void write_block(std::int32_t, std::span<const std::byte>) override {}

 private:
  std::vector<std::size_t> answers_;
};

struct Load { std::int32_t users, input, output; };

// What the host's time is a sum over (model/engine_profile.h), and the time.
struct HostSample { double steps, rows, tokens, prompts, seconds; };

traces::Scenario scenario_of(const Load& load, std::shared_ptr<const configs::Catalogue> catalogue) {
  const std::string text = fmt::format(
      "model: demo-llama-40m\nhardware: {{accelerator: generic-cpu, count: 1}}\nengine: plimsoll-cpu\nscheduler: {{kv_blocks: 20000}}\n"
      "workload:\n  load: {{closed_loop: {{concurrency: {}}}}}\n  lengths: {{input: {}, output: {}}}\n  requests: {}\n",
      load.users, load.input, load.output, std::max(4 * load.users, 16));
  const study::Study study(configs::Document::from_text(text, "host benchmark"), "host benchmark", {}, std::move(catalogue));
  return *study::resolve_point(study, 0).scenario;
}

HostSample measure(const Load& load, const std::shared_ptr<const configs::Catalogue>& catalogue) {
  const traces::Scenario scenario = scenario_of(load, catalogue);
  InstantDevice device;
  const exec::LiveReplicas replicas{.devices = {&device}, .sequences = 256, .sampling = {}};
  const exec::PromptSource prompts(1, 32000);
  HostSample best{0, 0, 0, 0, 1e9};
  for (int repeat = 0; repeat < 5; ++repeat) {   // neighbours only ever slow down
    const exec::MeasuredRun run = exec::measure_point(scenario, replicas, prompts, {});
    const auto requests = static_cast<double>(run.run.metrics.requests_completed);
    if (run.run.metrics.duration_s < best.seconds)
      best = {static_cast<double>(run.run.steps_run), requests * load.output,
              requests * (load.input + load.output - 1), requests, run.run.metrics.duration_s};
  }
  return best;
}

}  // namespace

model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings&) {
  constexpr std::array kLoads = {Load{1, 16, 200}, Load{4, 16, 200}, Load{16, 16, 200}, Load{48, 16, 200}, Load{8, 16, 2},
                                 Load{32, 16, 2},  Load{1, 256, 8},  Load{8, 256, 8},   Load{1, 400, 2}};
  const auto own = std::make_shared<const configs::Catalogue>(catalogue.root());
  Eigen::MatrixXd a(static_cast<Eigen::Index>(kLoads.size()), 4);
  Eigen::VectorXd b(a.rows());
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    const HostSample s = measure(kLoads[static_cast<std::size_t>(i)], own);
    a.row(i) << s.steps / s.seconds, s.rows / s.seconds, s.tokens / s.seconds, s.prompts / s.seconds;
    b[i] = 1;
  }
  const Eigen::VectorXd x = (a.transpose() * a + 1e-12 * Eigen::MatrixXd::Identity(4, 4)).ldlt().solve(a.transpose() * b).cwiseMax(0.0);
  model::EngineProfile engine = *own->engine("plimsoll-cpu")->profile;
  engine.host_step = Seconds(x[0]);
  engine.host_sequence = Seconds(x[1]);
  engine.host_token = Seconds(x[2]);
  engine.host_prefill = Seconds(x[3]);
  engine.overlap = model::HostOverlap::none;
  engine.calibrated = true;
  engine.calibrated_on = "this machine: the live loop around a device that answers at once";
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

}  // namespace plimsoll::validation
