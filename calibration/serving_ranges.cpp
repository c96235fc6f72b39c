// SPDX-License-Identifier: Apache-2.0
#include "calibration/serving_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

#include "model/llm_shape.h"

namespace plimsoll::calibration {
namespace {

using model::CalibratedRange;
using model::Interval;

void widen(Interval& interval, double value) {
  interval.low = interval.is_stated() ? std::min(interval.low, value) : value;
  interval.high = std::max(interval.high, value);
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

CalibratedRange& group_of(std::vector<CalibratedRange>& groups, const study::PointSpec& spec) {
  const auto family = spec.shape->moe ? model::ModelFamily::moe : model::ModelFamily::dense;
  for (CalibratedRange& group : groups)
    if (std::tie(group.family, group.weights, group.cache) == std::tie(family, spec.weight_dtype, spec.kv_dtype))
      return group;
  CalibratedRange& group = groups.emplace_back();
  group.family = family;
  group.weights = spec.weight_dtype;
  group.cache = spec.kv_dtype;
  return group;
}

void add_run(CalibratedRange& group, const FittedRun& run) {
  const validation::MeasuredPoint& row = *run.row;
  add_name(group.models, run.spec->shape->id);
  add_name(group.accelerators, run.spec->hardware.accelerator->id);
  widen(group.parameters, model::weight_count(*run.spec->shape));
  widen(group.tp, row.tp);
  widen(group.batch, std::max(1.0, row.load_value / row.replicas));  // a replica in use has at least one user
  for (const auto& [interval, tokens] :
       {std::pair(&group.input, row.input_tokens), {&group.output, row.output_tokens}}) {
    widen(*interval, static_cast<double>(validation::shortest(tokens, row)));
    widen(*interval, static_cast<double>(tokens));
  }
  group.context = std::max(group.context, static_cast<double>(row.input_tokens + row.output_tokens));
}

std::string interval_text(const Interval& interval) {
  return fmt::format("[{:.5g}, {:.5g}]", interval.low, interval.high);
}

// Returns a word of a YAML list, quoted if necessary.
std::string word_text(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  };
  return !word.empty() && std::all_of(word.begin(), word.end(), is_plain) ? word : quoted_yaml(word);
}

std::string list_text(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  std::transform(words.begin(), words.end(), std::back_inserter(texts), word_text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string group_text(const CalibratedRange& g) {
  return fmt::format(
      "{{family: {}, types: [{}, {}], models: [{}], parameters: {}, accelerators: [{}], tp: {}, batch: {}, input: {}, "
      "output: {}, context: {:g}}}",
      g.family == model::ModelFamily::moe ? "moe" : "dense", model::name(g.weights), model::name(g.cache),
      list_text(g.models), interval_text(g.parameters), list_text(g.accelerators), interval_text(g.tp),
      interval_text(g.batch), interval_text(g.input), interval_text(g.output), g.context);
}

}  // namespace

std::string quoted_yaml(std::string text) {
  for (char& c : text)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '\'';
  return '"' + text + '"';
}

std::string version_of(const std::string& source) {
  std::string version;
  for (std::istringstream words(source); words >> std::ws && !words.eof();) {
    std::string word;
    words >> word;
    if (word.front() >= '0' && word.front() <= '9' && word.find('.') != std::string::npos) version = word;
  }
  return version;
}

std::string ranges_text(const std::vector<FittedRun>& runs) {
  std::vector<CalibratedRange> groups;
  std::set<std::string> versions;
  for (const FittedRun& run : runs) {
    // The first tokens of a burst measure its queue, so bursts do not count as calibrated loads.
    if (run.row->load_kind == "burst") continue;
    add_run(group_of(groups, *run.spec), run);
    if (const std::string version = version_of(run.row->source); !version.empty())
      versions.insert(quoted_yaml(version));
  }
  std::vector<std::string> texts;
  for (const CalibratedRange& group : groups) texts.push_back(group_text(group));
  return fmt::format("{{versions: [{}], groups: [{}]}}", fmt::join(versions, ", "), fmt::join(texts, ", "));
}

}  // namespace plimsoll::calibration
