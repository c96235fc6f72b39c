// SPDX-License-Identifier: Apache-2.0
#include "exec/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace plimsoll::exec {
namespace {

namespace fs = std::filesystem;

class AvailableMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root);
    put("proc/meminfo", "MemTotal: 3000 kB\nMemAvailable:    2000 kB\nHugePages_Total: 0\n");
  }
  void TearDown() override { fs::remove_all(root); }
  void put(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }

  const fs::path root = fs::path(::testing::TempDir()) / ("plimsoll_memory_" + std::to_string(::getpid()));
};

TEST_F(AvailableMemory, is_what_the_kernel_says) { EXPECT_EQ(available_memory(root), 2000 * 1024.0); }

TEST_F(AvailableMemory, is_unknown_where_the_kernel_does_not_tell) {
  put("proc/meminfo", "MemTotal: 3000 kB\n");
  EXPECT_FALSE(available_memory(root).has_value());
}

TEST_F(AvailableMemory, is_bounded_by_every_group_around) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");  // it has no limit of its own
  put("sys/fs/cgroup/job/step/memory.current", "500000\n");
  put("sys/fs/cgroup/job/memory.max", "1000000\n");
  put("sys/fs/cgroup/job/memory.current", "900000\n");
  put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 300000\n");
  EXPECT_EQ(available_memory(root), 1'000'000 - 900'000 + 300'000.0);
}

TEST_F(AvailableMemory, knows_the_first_version_of_groups) {
  put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "800000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n");  // above the limit, while memory is being reclaimed
  EXPECT_EQ(available_memory(root), 0);
}

TEST_F(AvailableMemory, is_not_raised_by_a_group_with_more) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "9000000000\n");
  put("sys/fs/cgroup/memory.current", "1\n");
  EXPECT_EQ(available_memory(root), 2000 * 1024.0);
}

}  // namespace
}  // namespace plimsoll::exec
