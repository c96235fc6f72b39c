// SPDX-License-Identifier: Apache-2.0
#include "calibration/sample_store.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "model/error.h"

namespace plimsoll::calibration {

namespace {

constexpr const char* kHeading = "plimsoll calibration samples, version 1: ";
constexpr const char* kEndOfGroup = "end ";
constexpr const char* kComplete = "complete";

std::string_view name_in_file(const OpSample& sample) {
  return sample.op.id != model::OpId::none ? model::name(sample.op.id) : std::string_view(sample.time_of);
}

}  // namespace

// Times, FLOPs and bytes have 17 digits, which restore a double exactly.
std::string sample_line(const OpSample& s) {
  const model::Op& op = s.op;
  return fmt::format("{} {} {} {} {} {:g} {:g} {:.17g} {:.17g} {:.17g} {:.17g} {} {:.17g} {:.9g} {}",
                     static_cast<int>(op.kind), name_in_file(s), op.m, op.n, op.k, op.count, op.launches, op.flops,
                     op.weight_bytes, op.kv_bytes, op.other_bytes, op.quantised ? 1 : 0, op.context, s.seconds,
                     s.repeats);
}

bool read_sample_line(const std::string& line, OpSample& s) {
  std::istringstream in(line);
  int kind = 0, quantised = 0;
  std::string name, rest;
  model::Op& op = s.op;
  in >> kind >> name >> op.m >> op.n >> op.k >> op.count >> op.launches >> op.flops >> op.weight_bytes >> op.kv_bytes >>
      op.other_bytes >> quantised >> op.context >> s.seconds >> s.repeats;
  if (!in || (in >> rest) || kind < 0 || kind >= static_cast<int>(model::kOpKinds)) return false;
  if (!(s.seconds > 0) || !std::isfinite(s.seconds)) return false;
  op.kind = static_cast<model::OpKind>(kind);
  op.id = model::op_id(name).value_or(model::OpId::none);
  s.time_of = op.id == model::OpId::none ? name : std::string();
  op.quantised = quantised != 0;
  return true;
}

SampleStore::SampleStore(std::string file, const std::string& settings) : file_(std::move(file)) {
  const std::string heading = kHeading + settings;
  const bool goes_on = load(heading);
  recalled_ = groups_.size();
  out_.open(file_, goes_on ? std::ios::app : std::ios::trunc);
  // End a line that was cut off; it is then not read as a sample.
  out_ << (goes_on ? "" : heading) << std::endl;
  if (!out_) throw DeviceError(fmt::format("{}: cannot write the samples of the calibration", file_));
}

bool SampleStore::load(const std::string& heading) {
  std::ifstream in(file_);
  std::string line;
  if (!std::getline(in, line) || line != heading) return false;
  std::vector<OpSample> group;
  while (std::getline(in, line)) {
    OpSample sample;
    // The previous calibration finished, so its samples are not used again.
    if (line == kComplete) {
      groups_.clear();
      return false;
    }
    if (line.starts_with(kEndOfGroup))
      groups_[line.substr(4)] = std::exchange(group, {});
    else if (read_sample_line(line, sample))
      group.push_back(sample);
    else
      group.clear();  // a line was cut off, so its group is incomplete
  }
  return true;
}

const std::vector<OpSample>* SampleStore::find(const std::string& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

void SampleStore::add(const std::string& group, std::vector<OpSample> samples) {
  if (out_.is_open()) {
    for (const OpSample& sample : samples) out_ << sample_line(sample) << '\n';
    // std::endl flushes, so a group survives if the process is killed during the next one.
    out_ << kEndOfGroup << group << std::endl;
    if (!out_) throw DeviceError(fmt::format("{}: cannot write the samples of the calibration", file_));
  }
  groups_[group] = std::move(samples);
}

std::optional<double> SampleStore::find_time(const std::string& group) const {
  const std::vector<OpSample>* const samples = find(group);
  return samples != nullptr && samples->size() == 1 ? std::optional(samples->front().seconds) : std::nullopt;
}

void SampleStore::add_time(const std::string& group, const std::string& name, double seconds) {
  OpSample sample;
  sample.op.kind = model::OpKind::send;
  sample.time_of = name;
  sample.seconds = seconds;
  sample.repeats = 1;
  add(group, {sample});
}

void SampleStore::finish() {
  if (out_.is_open()) out_ << kComplete << std::endl;
}

}  // namespace plimsoll::calibration
