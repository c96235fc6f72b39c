// SPDX-License-Identifier: Apache-2.0
// Keeps the samples of a calibration on disk, so that an interrupted calibration can continue. The file has one line
// per sample, and a line at the end of each group. A group without that line is ignored.
#pragma once

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/op_list.h"

namespace plimsoll::calibration {

/// The median time of one op with one shape, or a time that belongs to no op (SampleStore::add_time).
struct OpSample {
  model::Op op;
  double seconds = 0;
  std::int64_t repeats = 0;
  std::string time_of = {};  // the name given to add_time; empty for the sample of an op
};

/// For one thread. A time that belongs to no op (add_time) is stored as an op of kind `send` without identity.
class SampleStore {
 public:
  SampleStore() = default;  // stores nothing on disk
  /// Opens or creates the file. `settings` is a single line with everything that samples depend on, including the
  /// machine. A file with other settings or of a finished calibration is replaced. Throws DeviceError if the file
  /// cannot be written.
  SampleStore(std::string file, const std::string& settings);

  [[nodiscard]] const std::vector<OpSample>* find(const std::string& group) const;
  void add(const std::string& group, std::vector<OpSample> samples);
  /// Find or add a group that is a single time, of a whole forward, a host loop or a live load. The file shows `name`.
  [[nodiscard]] std::optional<double> find_time(const std::string& group) const;
  void add_time(const std::string& group, const std::string& name, double seconds);
  /// Returns the number of groups that the file held when it was opened.
  [[nodiscard]] std::size_t recalled() const { return recalled_; }
  /// Marks the calibration as complete: the next one measures again.
  void finish();

 private:
  [[nodiscard]] bool load(const std::string& heading);

  std::string file_;
  std::ofstream out_;
  std::map<std::string, std::vector<OpSample>> groups_;
  std::size_t recalled_ = 0;
};

/// Formats a sample as a line, and parses one. read_sample_line returns false for a line that is not a sample.
[[nodiscard]] std::string sample_line(const OpSample& sample);
[[nodiscard]] bool read_sample_line(const std::string& line, OpSample& sample);

}  // namespace plimsoll::calibration
