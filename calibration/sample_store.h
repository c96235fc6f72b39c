// SPDX-License-Identifier: Apache-2.0
// Samples of a calibration on disk, so that one that was interrupted goes on where it was: one line a sample, and a
// line that ends each group of samples which belong together. A group without its end does not count.
#pragma once

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/op_list.h"

namespace plimsoll::calibration {

/// The median time of one op at one shape, or a time that belongs to no op (SampleStore::add_time).
struct OpSample {
  model::Op op;
  double seconds = 0;
  std::int64_t repeats = 0;
  std::string time_of = {};  // what add_time named; empty for the sample of an op
};

/// One thread. A time that belongs to no op (add_time) is kept as an op of kind `send` without identity.
class SampleStore {
 public:
  SampleStore() = default;  // keeps nothing
  /// `settings` is everything that samples depend on, the machine included, on one line. A file of other settings is
  /// begun anew, as is one that was finished. Throws DeviceError when the file cannot be written.
  SampleStore(std::string file, const std::string& settings);

  [[nodiscard]] const std::vector<OpSample>* find(const std::string& group) const;
  void add(const std::string& group, std::vector<OpSample> samples);
  /// A group that is one time: of a whole forward, a host loop, a live load. `name` says what, in the file.
  [[nodiscard]] std::optional<double> find_time(const std::string& group) const;
  void add_time(const std::string& group, const std::string& name, double seconds);
  /// Groups that were there already.
  [[nodiscard]] std::size_t recalled() const { return recalled_; }
  /// The calibration is complete: the next one measures again.
  void finish();

 private:
  [[nodiscard]] bool load(const std::string& heading);

  std::string file_;
  std::ofstream out_;
  std::map<std::string, std::vector<OpSample>> groups_;
  std::size_t recalled_ = 0;
};

/// A line of the file, and back; false for a line that is no sample.
[[nodiscard]] std::string sample_line(const OpSample& sample);
[[nodiscard]] bool read_sample_line(const std::string& line, OpSample& sample);

}  // namespace plimsoll::calibration
