// SPDX-License-Identifier: Apache-2.0
// Studies for tests: written into the test's own folder, read with the shipped catalogue.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "configs/catalogue.h"
#include "study/file/study.h"

namespace plimsoll::study {

/// Returns the shipped catalogue; on every machine that runs the tests, `this-machine` is the generic CPU.
inline std::shared_ptr<const configs::Catalogue> shipped_catalogue() {
  static const auto kCatalogue = [] {
    ::setenv("XDG_DATA_HOME", "/nowhere", 1);  // hides a calibration of the user
    const std::string root = std::string(PLIMSOLL_SOURCE_DIR) + "/configs";
    auto catalogue = std::make_shared<configs::Catalogue>(root);
    catalogue->set_machine_probe([root](const std::string&) {
      configs::ThisMachine machine;
      machine.cores = 2;
      machine.interconnect = configs::Catalogue(root).interconnect("shared-memory");
      machine.shares.push_back({.accelerator = configs::Catalogue(root).accelerator("generic-cpu")});
      return machine;
    });
    return std::shared_ptr<const configs::Catalogue>(std::move(catalogue));
  }();
  return kCatalogue;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder that is removed with the test.
class StudyFolder : public ::testing::Test {
 protected:
  StudyFolder()
      : path_(std::filesystem::temp_directory_path() / ("plimsoll-study-test-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~StudyFolder() override { std::filesystem::remove_all(path_); }
  StudyFolder(const StudyFolder&) = delete;
  StudyFolder& operator=(const StudyFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  [[nodiscard]] Study read(const std::string& yaml, const Overrides& overrides = {}) const {
    return Study(write("study.yaml", yaml), overrides, shipped_catalogue());
  }

 private:
  std::filesystem::path path_;
};

/// A queueing study that runs in microseconds: each output token takes 10 ms.
inline constexpr const char* kTinyStudy =
    "study: tiny\n"
    "engine: {constant: {prefill: 0 s, decode: 10 ms}}\n"
    "scheduler: {policy: vllm_v1, block_size: 16}\n"
    "workload:\n"
    "  load: {closed_loop: {concurrency: 2}}\n"
    "  lengths: {input: 10, output: 5}\n"
    "  requests: 20\n";

/// A study with the same structure on real hardware.
inline constexpr const char* kSmallStudy =
    "study: small\n"
    "model: llama-2-7b\n"
    "hardware: ml.p4d.24xlarge\n"
    "engine: tgi-1.1\n"
    "deployment: {tp: 1}\n"
    "workload:\n"
    "  load: {closed_loop: {concurrency: 4}}\n"
    "  lengths: {input: 32, output: 8}\n"
    "  requests: 20\n";

}  // namespace plimsoll::study
