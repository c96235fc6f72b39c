// SPDX-License-Identifier: Apache-2.0
#include "cli/this_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "configs/catalogue.h"
#include "configs/hardware_name.h"
#include "exec/backend.h"
#include "exec/cpu/probes.h"
#include "model/error.h"

namespace plimsoll::cli {
namespace {

constexpr std::size_t kProbeBytes = std::size_t{256}
                                    << 20U;  // beyond most last-level caches, a second to read at 1 GB/s

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

double memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}

// Uses the generic CPU's efficiencies with this machine's own peaks.
configs::ThisMachine probe_cpu(const configs::Catalogue& catalogue) {
  model::Accelerator a = *catalogue.accelerator("generic-cpu");
  a.id = "this-machine";
  a.fp32 = a.fp16 = a.bf16 = FlopsPerSecond(exec::fma_peak(cores()));  // 16-bit weights are computed in 32 bits
  a.memory_bandwidth = BytesPerSecond(exec::read_bandwidth(cores(), kProbeBytes));
  a.memory = a.memory_visible = Bytes(memory_bytes());
  a.last_level_cache = Bytes(static_cast<double>(exec::last_level_cache()));
  a.calibrated = false;
  a.source = "probed: read bandwidth and multiply-adds of all cores";
  a.fit_source = "probed in two seconds; run `plimsoll calibrate`";
  configs::ThisMachine machine;
  machine.description = processor_name();
  machine.cores = cores();
  machine.shares.push_back({.accelerator = std::make_shared<const model::Accelerator>(std::move(a))});
  machine.interconnect = catalogue.interconnect("shared-memory");
  return machine;
}

configs::ThisMachine probe_gpu(const configs::Catalogue& catalogue) {
  configs::ThisMachine machine;
  machine.description = gpu_description(catalogue);
  for (const configs::Listing& listing : catalogue.list("accelerators")) {
    if (!configs::is_same_device(machine.description, listing.name)) continue;
    model::Accelerator a = *catalogue.accelerator(listing.name);
    machine.interconnect = catalogue.link(a, "");
    machine.shares.push_back({.accelerator = std::make_shared<const model::Accelerator>(std::move(a))});
    return machine;
  }
  throw InputError(fmt::format("the catalogue does not know this machine's {}; state hardware: {{accelerator, count}}",
                               machine.description));
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string name = "CPU";
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  return fmt::format("{} x {} threads", name, cores());
}

// Creating a backend for a small model identifies the GPU, or throws an error that says what is missing.
std::string gpu_description(const configs::Catalogue& catalogue) {
  exec::BackendConfig config;
  config.architecture = model::default_architecture(*catalogue.model("demo-llama-40m"));
  config.rank = model::rank_shape(config.architecture.shape, 1);
  config.kv_blocks = 1;
  config.sequences = 1;
  config.step_rows = 1;
  return exec::make_cuda_backend(config, nullptr, 0)->description();
}

configs::ThisMachine probe_machine(const std::string& device) {
  const configs::Catalogue catalogue;  // the caller's catalogue is in use by this call
  return device == "cuda" ? probe_gpu(catalogue) : probe_cpu(catalogue);
}

}  // namespace plimsoll::cli
