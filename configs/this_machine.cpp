// SPDX-License-Identifier: Apache-2.0
#include "configs/this_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "configs/catalogue.h"

namespace plimsoll::configs {

namespace {

// Returns the value of the first line of /proc/cpuinfo or /proc/meminfo with this key; empty if there is none.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

// Returns the widest instruction set that the kernels use. It is part of the fingerprint, because kernels depend on it.
std::string instruction_sets() {
  const std::string flags = " " + proc_value("/proc/cpuinfo", "flags") + " ";
  for (const char* flag : {"avx512f", "avx2"})
    if (flags.find(" " + std::string(flag) + " ") != std::string::npos) return flag;
  return "base";
}

std::string as_file_name(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter)
      out += c;
    else if (c >= 'A' && c <= 'Z')
      out += static_cast<char>(c - 'A' + 'a');
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out;
}

// Returns a rank's part of a machine whose ranks share its compute, memory and cache equally.
model::Accelerator divided(const model::Accelerator& whole, double parts) {
  model::Accelerator part = whole;
  for (FlopsPerSecond* peak : {&part.fp16, &part.bf16, &part.fp8, &part.int8, &part.fp32}) peak->value /= parts;
  part.memory_bandwidth.value /= parts;
  part.memory.value /= parts;
  part.memory_visible.value /= parts;
  part.last_level_cache.value /= parts;
  return part;
}

model::DType read_share_type(const Node& node) {
  const std::string& text = node.as_string();
  for (const model::DType dtype : {model::DType::bf16, model::DType::fp32, model::DType::int8, model::DType::int4})
    if (text == model::name(dtype)) return dtype;
  node.fail(fmt::format("found '{}', allowed: bf16, fp32, int8, int4", text));
}

ThisMachine::Share read_share(const Node& node) {
  static constexpr std::array<std::string_view, 4> kKeys = {"ranks", "dtype", "accelerator", "interconnect"};
  node.require_known_keys(kKeys);
  ThisMachine::Share share;
  share.ranks = static_cast<std::int32_t>(node.at("ranks").as_integer(1, 4096));
  share.dtype = read_share_type(node.at("dtype"));
  share.accelerator =
      std::make_shared<const model::Accelerator>(read_accelerator(node.at("accelerator"), "this-machine"));
  if (const auto link = node.find("interconnect"))
    share.interconnect = std::make_shared<const model::Interconnect>(read_interconnect(*link, "this-machine"));
  return share;
}

// Checks the order: by dtype, each starting with one rank and ascending.
bool in_order(const std::vector<ThisMachine::Share>& shares) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool first = i == 0 || shares[i].dtype != shares[i - 1].dtype;
    if (first ? shares[i].ranks != 1 : shares[i].ranks <= shares[i - 1].ranks) return false;
  }
  return !shares.empty();
}

void read_probes(const Node& node, ThisMachine& machine) {
  static constexpr std::array<std::string_view, 3> kKeys = {"read_bandwidth", "multiply_add", "spread"};
  node.require_known_keys(kKeys);
  machine.read_bandwidth = node.at("read_bandwidth").as_bytes_per_second(1).value;
  machine.multiply_add = node.at("multiply_add").as_flops_per_second(1).value;
}

}  // namespace

ThisMachine::Share share_of(const ThisMachine& machine, std::int32_t ranks, model::DType dtype) {
  // Both are stored in 16 bits and computed in fp32.
  if (dtype == model::DType::fp16) dtype = model::DType::bf16;
  const ThisMachine::Share* nearest = nullptr;
  for (const ThisMachine::Share& share : machine.shares)
    if (share.dtype == dtype && share.ranks <= ranks) nearest = &share;
  // For a missing type, another type at a similar number of ranks is the best substitute.
  const bool other_type = nearest == nullptr;
  for (const ThisMachine::Share& share : machine.shares)
    if (other_type && share.ranks <= ranks && (nearest == nullptr || share.ranks > nearest->ranks)) nearest = &share;
  if (nearest->ranks == ranks && !other_type) return *nearest;
  ThisMachine::Share share = *nearest;
  model::Accelerator derived = divided(*nearest->accelerator, static_cast<double>(ranks) / nearest->ranks);
  // An uncalibrated share already states its source; keep it.
  if (derived.calibrated) {
    derived.fit_source =
        nearest->ranks == ranks
            ? fmt::format("calibrated in {}, not in {}", model::name(nearest->dtype), model::name(dtype))
            : fmt::format("calibrated for {} ranks at once; derived for {} by division", nearest->ranks, ranks);
  }
  derived.calibrated = false;
  share.ranks = ranks;
  share.dtype = dtype;
  share.accelerator = std::make_shared<const model::Accelerator>(std::move(derived));
  return share;
}

std::string machine_fingerprint() {
  const std::string memory = proc_value("/proc/meminfo", "MemTotal");
  const long gib = std::atol(memory.c_str()) / (1024 * 1024);
  std::string name = proc_value("/proc/cpuinfo", "model name");
  if (name.empty()) name = "cpu";
  return as_file_name(fmt::format("{} {} {} threads {} gib", name, instruction_sets(),
                                  std::max(1U, std::thread::hardware_concurrency()), gib));
}

std::string data_folder() {
  const char* named = std::getenv("XDG_DATA_HOME");
  std::string folder =
      named != nullptr && *named == '/' ? named : "";  // the specification says to ignore relative paths
  if (folder.empty()) {
    const char* home = std::getenv("HOME");
    folder = (home != nullptr ? std::string(home) : std::string("/root")) + "/.local/share";
  }
  return folder + "/plimsoll";
}

std::string machine_file(const std::string& device) {
  return data_folder() + "/" + machine_fingerprint() + "-" + device + ".yaml";
}

ThisMachine read_this_machine(const Document& document) {
  static constexpr std::array<std::string_view, 13> kKeys = {"plimsoll_calibration",
                                                             "fingerprint",
                                                             "machine",
                                                             "cores",
                                                             "device",
                                                             "date",
                                                             "command",
                                                             "probes",
                                                             "kernels",
                                                             "shares",
                                                             "interconnect",
                                                             "engine",
                                                             "fit"};
  const Node root = document.root();
  // Check the version first, because other versions may have other keys.
  const Node version = root.at("plimsoll_calibration");
  if (version.as_integer(0, 1'000'000) != kMachineFileVersion)
    version.fail(fmt::format("found version {}, expected {}: run `plimsoll calibrate` again", version.to_text(),
                             kMachineFileVersion));
  root.require_known_keys(kKeys);
  const Node fingerprint = root.at("fingerprint");
  // The file may be another machine's: several machines may share a home directory.
  if (fingerprint.as_string() != machine_fingerprint())
    fingerprint.fail(fmt::format(
        "this calibration is of another machine: found '{}', this one is '{}'; run `plimsoll calibrate` here",
        fingerprint.as_string(), machine_fingerprint()));
  ThisMachine machine;
  machine.description = root.at("machine").as_string();
  machine.cores = static_cast<std::int32_t>(root.at("cores").as_integer(1, 100'000));
  for (const Item& item : root.at("shares").items()) machine.shares.push_back(read_share(item.value));
  if (!in_order(machine.shares))
    root.at("shares").fail("expected shares by dtype and ascending ranks, beginning with 1");
  if (const auto probes = root.find("probes")) read_probes(*probes, machine);
  if (const auto kernels = root.find("kernels")) (void)read_tuning(*kernels);  // calibrated_tuning() returns it
  if (const auto link = root.find("interconnect"))
    machine.interconnect = std::make_shared<const model::Interconnect>(read_interconnect(*link, "this-machine"));
  if (const auto engine = root.find("engine")) {
    const std::string id = "plimsoll-" + root.at("device").as_string();
    machine.engine = read_engine(*engine, id).profile;
  }
  return machine;
}

}  // namespace plimsoll::configs
