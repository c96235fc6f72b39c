// SPDX-License-Identifier: Apache-2.0
// Trace files, each read once however many points of a study use it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "model/error.h"
#include "traces/reader.h"

namespace plimsoll::study {

class TraceStore {
 public:
  explicit TraceStore(std::string folder) : folder_(std::move(folder)) {}
  /// `file` as the study writes it at `where`, relative to `folder`. Throws InputError there. Any number of threads at once.
  [[nodiscard]] std::shared_ptr<const traces::Trace> get(const std::string& file, const std::string& format, const Where& where);
  /// The file's full name.
  [[nodiscard]] std::string path_of(const std::string& file) const;

 private:
  using Key = std::pair<std::string, std::string>;   // path, format
  std::string folder_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const traces::Trace>> traces_;
};

}  // namespace plimsoll::study
