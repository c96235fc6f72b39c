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

// The value of the first line of /proc/cpuinfo or /proc/meminfo with this key; empty if there is none.
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
    if (letter) out += c;
    else if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else if (!out.empty() && out.back() != '-') out += '-';
  }
  return out;
}

model::Accelerator divided(const model::Accelerator& whole, double parts) {
  model::Accelerator part = whole;
  for (FlopsPerSecond* peak : {&part.fp16, &part.bf16, &part.fp8, &part.int8, &part.fp32}) peak->value /= parts;
  part.memory_bandwidth.value /= parts;
  part.memory.value /= parts;
  part.memory_visible.value /= parts;
  part.last_level_cache.value /= parts;
  return part;
}

ThisMachine::Share read_share(const Node& node) {
  static constexpr std::array<std::string_view, 2> kKeys = {"ranks", "accelerator"};
  node.require_known_keys(kKeys);
  ThisMachine::Share share;
  share.ranks = static_cast<std::int32_t>(node.at("ranks").as_integer(1, 4096));
  share.accelerator = std::make_shared<const model::Accelerator>(read_accelerator(node.at("accelerator"), "this-machine"));
  return share;
}

}  // namespace

std::shared_ptr<const model::Accelerator> share_of(const ThisMachine& machine, std::int32_t ranks) {
  const ThisMachine::Share* nearest = &machine.shares.front();
  for (const ThisMachine::Share& share : machine.shares)
    if (share.ranks <= ranks) nearest = &share;
  if (nearest->ranks == ranks) return nearest->accelerator;
  model::Accelerator derived = divided(*nearest->accelerator, static_cast<double>(ranks) / nearest->ranks);
  if (derived.calibrated)
    derived.fit_source = fmt::format("calibrated for {} ranks at once and divided for {}", nearest->ranks, ranks);
  derived.calibrated = false;
  return std::make_shared<const model::Accelerator>(std::move(derived));
}

std::string machine_fingerprint() {
  const std::string memory = proc_value("/proc/meminfo", "MemTotal");
  const long gib = std::atol(memory.c_str()) / (1024 * 1024);
  std::string name = proc_value("/proc/cpuinfo", "model name");
  if (name.empty()) name = "cpu";
  return as_file_name(fmt::format("{} {} {} threads {} gib", name, instruction_sets(),
                                  std::max(1U, std::thread::hardware_concurrency()), gib));
}

std::string machine_file(const std::string& device) {
  const char* named = std::getenv("XDG_DATA_HOME");
  std::string folder = named != nullptr && *named == '/' ? named : "";   // the specification ignores relative ones
  if (folder.empty()) {
    const char* home = std::getenv("HOME");
    folder = (home != nullptr ? std::string(home) : std::string("/root")) + "/.local/share";
  }
  return folder + "/plimsoll/" + machine_fingerprint() + "-" + device + ".yaml";
}

ThisMachine read_this_machine(const Document& document) {
  static constexpr std::array<std::string_view, 12> kKeys = {
      "plimsoll_calibration", "fingerprint", "machine", "cores", "device", "date", "command", "probes", "shares",
      "interconnect", "engine", "fit"};
  const Node root = document.root();
  const Node version = root.at("plimsoll_calibration");
  if (version.as_integer(0, 1'000'000) != kMachineFileVersion)
    version.fail(fmt::format("found version {}, expected {}: run `plimsoll calibrate` again", version.to_text(), kMachineFileVersion));
  root.require_known_keys(kKeys);
  const Node fingerprint = root.at("fingerprint");
  if (fingerprint.as_string() != machine_fingerprint())
    fingerprint.fail(fmt::format("this calibration is of another machine: found '{}', this one is '{}'; run `plimsoll calibrate` here",
                                 fingerprint.as_string(), machine_fingerprint()));
  ThisMachine machine;
  machine.description = root.at("machine").as_string();
  machine.cores = static_cast<std::int32_t>(root.at("cores").as_integer(1, 100'000));
  for (const Item& item : root.at("shares").items()) machine.shares.push_back(read_share(item.value));
  const auto ascending = [](const auto& a, const auto& b) { return a.ranks < b.ranks; };
  if (machine.shares.empty() || machine.shares.front().ranks != 1 ||
      !std::is_sorted(machine.shares.begin(), machine.shares.end(), ascending))
    root.at("shares").fail("expected shares by ascending ranks, beginning with 1");
  if (const auto link = root.find("interconnect"))
    machine.interconnect = std::make_shared<const model::Interconnect>(read_interconnect(*link, "this-machine"));
  if (const auto engine = root.find("engine")) {
    const std::string id = "plimsoll-" + root.at("device").as_string();
    machine.engine = read_engine(*engine, id).profile;
  }
  return machine;
}

}  // namespace plimsoll::configs
