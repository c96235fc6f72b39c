// SPDX-License-Identifier: Apache-2.0
// Trace files. Each is read only once, however many points use it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "model/error.h"
#include "traces/reader.h"

namespace plimsoll::study {

/// Returns a copy in which every row's lengths are multiplied and rounded (at least 1 token). Shared prefixes grow with
/// the prompts.
[[nodiscard]] std::shared_ptr<const traces::Trace> with_scaled_lengths(const traces::Trace& trace, double input,
                                                                       double output);

class TraceStore {
 public:
  explicit TraceStore(std::string folder) : folder_(std::move(folder)) {}
  /// Returns the trace `file`, named at `where` in the study, relative to `folder`. Throws InputError with that place.
  /// Thread-safe.
  [[nodiscard]] std::shared_ptr<const traces::Trace> get(const std::string& file, const std::string& format,
                                                         const Where& where);
  /// Calls with_scaled_lengths() once for every pair of factors.
  [[nodiscard]] std::shared_ptr<const traces::Trace> scaled(const std::shared_ptr<const traces::Trace>& trace,
                                                            double input, double output);
  /// Returns the file's full path.
  [[nodiscard]] std::string path_of(const std::string& file) const;

 private:
  using Key = std::pair<std::string, std::string>;  // path, format
  std::string folder_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const traces::Trace>> traces_;
  std::map<std::tuple<const traces::Trace*, double, double>, std::shared_ptr<const traces::Trace>>
      scaled_;  // of traces_, which stay
};

}  // namespace plimsoll::study
