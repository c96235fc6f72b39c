// SPDX-License-Identifier: Apache-2.0
// The key under which a point's result is stored: a digest of everything that the result depends on. A key that changes
// too often costs a simulation; one that changes too seldom gives a wrong result.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "study/file/study.h"
#include "study/run/digest.h"

namespace plimsoll::study {

class PointKeys {
 public:
  /// `options`: everything else from the command line that affects the results.
  PointKeys(const Study& study, std::string options);

  /// Returns the digest of the point's own file, the files that it names, the catalogue, the program and the options.
  /// `extra` is added by the caller. Thread-safe.
  [[nodiscard]] Digest of_point(std::size_t index, const std::string& extra = {},
                                std::span<const Setting> settings = {}) const;

 private:
  [[nodiscard]] Digest of_file(const std::string& path) const;
  const Study& study_;
  std::string common_;  // common to all points
  mutable std::mutex mutex_;
  mutable std::map<std::string, Digest> files_;
};

}  // namespace plimsoll::study
