// SPDX-License-Identifier: Apache-2.0
#include "exec/engine.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace plimsoll::exec {

namespace {

namespace fs = std::filesystem;

// Reads a file that holds one number. Returns nullopt for "max", which means no limit.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value) return value;
  return {};
}

// Returns the number that follows `word` at the beginning of a line.
std::optional<double> number_after(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  std::string key, rest;
  double value = 0;
  while (in >> key >> value && std::getline(in, rest)) {
    if (key == word) return value;
  }
  return {};
}

struct GroupFiles {
  const char *limit, *used, *cached;  // cached: the key in memory.stat
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// Returns the memory left within the limits of a control group and of all groups around it.
std::optional<double> left_in_groups(const fs::path& top, std::string path, const GroupFiles& files) {
  std::optional<double> least;
  while (true) {
    const fs::path group = top / fs::path(path).relative_path();
    const auto limit = number_in(group / files.limit), used = number_in(group / files.used);
    if (limit && used) {
      const double left = std::max(0.0, *limit - *used + number_after(group / "memory.stat", files.cached).value_or(0));
      least = std::min(least.value_or(left), left);
    }
    if (path.empty() || path == "/") return least;
    path = fs::path(path).parent_path().string();
  }
}

// Lines of /proc/self/cgroup are "number:controllers:path". In version 2, the controllers are empty.
std::optional<double> left_by_groups(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  std::optional<double> least;
  const auto take = [&](const std::optional<double>& left) {
    if (left) least = std::min(least.value_or(*left), *left);
  };
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      path = line.substr(second + 1);
    if (controllers == ",,") take(left_in_groups(root / "sys/fs/cgroup", path, kVersion2));
    if (controllers.find(",memory,") != std::string::npos)
      take(left_in_groups(root / "sys/fs/cgroup/memory", path, kVersion1));
  }
  return least;
}

}  // namespace

std::optional<double> available_memory(const fs::path& root) {
  std::optional<double> there = number_after(root / "proc/meminfo", "MemAvailable:");
  if (!there) return {};
  *there *= 1024;  // KiB
  if (const std::optional<double> left = left_by_groups(root)) there = std::min(*there, *left);
  return there;
}

}  // namespace plimsoll::exec
