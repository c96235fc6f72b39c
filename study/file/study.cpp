// SPDX-License-Identifier: Apache-2.0
#include "study/file/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "configs/hardware_name.h"
#include "load/load_kind.h"
#include "study/file/cell.h"
#include "study/file/read_point.h"
#include "study/file/scheduler_names.h"
#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using configs::Document;
using configs::Node;

constexpr std::string_view kModels = "models";
constexpr std::size_t kMaxPoints = 1'000'000;
constexpr std::size_t kMaxTried = 10'000;
constexpr std::string_view kLoad = "workload.load";
// Values that are file names, relative to the study's folder.
constexpr std::array<std::string_view, 5> kFileKeys = {"workload.load.trace.file", "workload.lengths.trace", "weights",
                                                       "prompts", "model"};

std::string folder_of(const std::string& file) { return std::filesystem::path(file).parent_path().string(); }

/// Returns the kind of load that the document states; empty if none.
std::string active_load(const Document& document) {
  const auto workload = document.root().find("workload");
  const auto load = workload && workload->is_map() ? workload->find("load") : std::nullopt;
  if (!load || !load->is_map()) return {};
  const auto items = load->items();
  return items.size() == 1 ? items.front().key : std::string();
}

// Resolves workload.concurrency and workload.rate to the field of the active load.
std::string full_path(const Document& document, const std::string& path, const Where& where) {
  constexpr std::string_view kPrefix = "workload.";
  const bool shortcut = path == "workload.concurrency" || path == "workload.rate";
  if (!shortcut) return path;
  const std::string word = path.substr(kPrefix.size());
  const std::string kind = active_load(document);
  if (kind.empty()) throw InputError(where, fmt::format("{} needs workload.load to state one load", path));
  const std::string field = load_field(kind, word);
  if (!field.empty()) return fmt::format("{}.{}.{}", kLoad, kind, field);
  throw InputError(where, fmt::format("the load is '{}', which has no {}; {} is for {}", kind, word, path,
                                      word == "rate" ? "poisson, gamma, constant and sessions"
                                                     : "closed_loop, jumpstart and sessions"));
}

// Removes other loads if a field of one load is set, and likewise other sources of lengths.
void make_room(Document& document, const std::string& path) {
  const std::string load_prefix = fmt::format("{}.", kLoad);
  if (path.starts_with(load_prefix)) {
    const std::string kind = path.substr(load_prefix.size(), path.find('.', load_prefix.size()) - load_prefix.size());
    const auto kinds = load::load_kind_names();
    const std::string active = active_load(document);
    if (!active.empty() && active != kind && std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) {
      document.remove(kLoad);
    }
  }
  if (path == "workload.lengths.trace") document.remove("workload.lengths");
  if (path == "workload.lengths.input" || path == "workload.lengths.output") document.remove("workload.lengths.trace");
}

void put(Document& document, const std::string& path, const Node& value) {
  constexpr std::string_view kScheduler = "scheduler.";
  if (path.starts_with(kScheduler)) {
    set_scheduler_key(document, path.substr(kScheduler.size()), value);
    return;
  }
  const std::string full = full_path(document, path, value.where());
  make_room(document, full);
  document.set(full, value);
}

// An entry of `models` is a map of paths and values; other keys are set at their path.
void put_swept(Document& document, const std::string& path, const Node& value) {
  if (path != kModels) {
    put(document, path, value);
    return;
  }
  for (const configs::Item& item : value.items()) put(document, item.key, item.value);
}

Node override_value(const std::string& path, const std::string& yaml) {
  constexpr std::size_t kShown = 60;
  const std::string shown = yaml.size() <= kShown ? yaml : yaml.substr(0, kShown) + "…";
  return setting_value(yaml, fmt::format("--set {}={}", path, shown));
}

// Nested maps under `sweep:` are another notation for dotted paths.
void collect_sweep(const Node& map, const std::string& prefix, std::vector<SweptKey>& out) {
  for (const configs::Item& item : map.items()) {
    const std::string path = prefix.empty() ? item.key : prefix + '.' + item.key;
    if (item.value.is_map()) {
      collect_sweep(item.value, path, out);
      continue;
    }
    if (path == "sweep" || path.starts_with("sweep.")) throw InputError(item.key_where, "a sweep cannot sweep itself");
    out.push_back({path, read_list(item.value)});
  }
}

// --set of a swept key removes it from the sweep.
void pin(Document& document, const std::string& path) {
  const auto sweep = document.root().find("sweep");
  if (!sweep || !sweep->is_map()) return;
  for (const configs::Item& item : sweep->items()) {
    if (item.key == path || full_path(document, item.key, item.key_where) == full_path(document, path, {})) {
      document.remove("sweep." + item.key);
    }
  }
}

Cell cell_of(const Node& value) {
  if (value.is_map() && value.has("model")) return value.at("model").as_string();
  const std::string text = value.to_text();
  const auto number = value.is_scalar() ? configs::parse_number(text) : std::nullopt;
  if (!number) return text;
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos && std::abs(*number) < 9e15;
  return whole ? Cell(static_cast<std::int64_t>(*number)) : Cell(*number);
}

/// Returns the file or folder that a value names, if it exists; else an empty text.
std::string existing_file(const Node& value, const std::string& folder) {
  if (!value.is_scalar()) return {};
  const std::filesystem::path file = std::filesystem::path(folder) / value.as_string();
  std::error_code error;
  return std::filesystem::exists(file, error) ? std::filesystem::absolute(file).lexically_normal().string()
                                              : std::string();
}

/// Returns the value as YAML, with file names made absolute. `path` is the key that the value would set.
std::string with_whole_paths(const Node& value, const std::string& path, const std::string& folder) {
  std::vector<std::string> parts;
  if (value.is_sequence()) {
    for (const configs::Item& item : value.items()) parts.push_back(with_whole_paths(item.value, path, folder));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (value.is_map()) {
    for (const configs::Item& item : value.items()) {
      parts.push_back(
          fmt::format("{}: {}", json_quoted(item.key),
                      with_whole_paths(item.value, path.empty() ? item.key : path + '.' + item.key, folder)));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  const bool names_file = std::find(kFileKeys.begin(), kFileKeys.end(), path) != kFileKeys.end();
  const std::string file = names_file ? existing_file(value, folder) : std::string();
  return file.empty() ? value.to_text() : json_quoted(file);
}

std::optional<Node> node_at(const Document& document, std::string_view path) {
  std::optional<Node> node = document.root();
  while (node && !path.empty()) {
    if (!node->is_map()) return {};
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

}  // namespace

Node setting_value(const std::string& yaml, const std::string& origin) {
  Document scratch = Document::from_text("{}", origin);
  scratch.set("value", yaml, Where{origin, 0, 0});
  return scratch.root().at("value");
}

Study::Study(const std::string& file, const Overrides& overrides, std::shared_ptr<const configs::Catalogue> catalogue)
    : Study(Document::from_file(file), file, overrides, std::move(catalogue)) {}

Study::Study(Document document, const std::string& file, const Overrides& overrides,
             std::shared_ptr<const configs::Catalogue> catalogue)
    : file_(file),
      catalogue_(std::move(catalogue)),
      traces_(std::make_shared<TraceStore>(folder_of(file))),
      document_(std::move(document)),
      base_(document_) {
  static_cast<void>(Section(document_.root(), study_keys()));
  settle_hardware();  // overrides may set a part of the hardware
  for (const auto& [path, yaml] : overrides) {
    pin(document_, path);
    put(document_, path, override_value(path, yaml));
  }
  // Overrides may have stated hardware in the short form again.
  settle_hardware();
  read_sweep();
  try_every_value();
}

// Expands "8xH100", also in `search.instances`, so that the written study states the resolved form.
void Study::settle_hardware() {
  const auto meant_by = [this](const Node& node) -> std::string {
    const auto found = node.is_scalar() ? configs::find_accelerators(*catalogue_, node.as_string()) : std::nullopt;
    if (!found) return node.to_text();
    notes_.push_back(fmt::format("hardware: {} is {}", node.as_string(), found->to_text()));
    return found->to_text();
  };
  const std::size_t before = notes_.size();
  const auto hardware = document_.root().find("hardware");
  if (hardware && hardware->is_scalar()) {
    const std::string text = meant_by(*hardware);
    if (notes_.size() > before) document_.set("hardware", text, hardware->where());
  }
  const auto instances = node_at(document_, "search.instances");
  if (!instances || instances->is_map()) return;
  const std::size_t known = notes_.size();
  std::vector<std::string> texts;
  for (const Node& item : read_list(*instances)) texts.push_back(meant_by(item));
  if (notes_.size() > known)
    document_.set("search.instances", fmt::format("[{}]", fmt::join(texts, ", ")), instances->where());
}

std::vector<std::string> Study::notes(bool of_load) const {
  std::vector<std::string> notes = notes_;
  const PointSpec first = point(0);
  notes.insert(notes.end(), first.notes.begin(), first.notes.end());
  if (of_load) notes.insert(notes.end(), first.load_notes.begin(), first.load_notes.end());
  return notes;
}

void Study::read_sweep() {
  base_ = document_;
  base_.remove("sweep");
  read_models();
  const auto sweep = document_.root().find("sweep");
  if (!sweep || sweep->is_null()) return;
  if (!sweep->is_map()) sweep->fail("expected a map of paths and lists of values, as in {deployment.tp: [1, 2]}");
  collect_sweep(*sweep, "", sweep_);
  for (const SweptKey& key : sweep_) {
    if (key.values.size() > kMaxPoints / points_) {
      sweep->fail(fmt::format("the sweep has more than {} points; expected fewer values", kMaxPoints));
    }
    points_ *= key.values.size();
  }
}

// Several models on the same machines: each entry of the list is merged into the study and gives points of its own.
void Study::read_models() {
  const auto models = document_.root().find(kModels);
  if (!models) return;
  base_.remove(std::string(kModels));
  std::vector<Node> entries = read_list(*models);
  for (const Node& entry : entries) {
    if (!entry.is_map() || !entry.has("model"))
      entry.fail("expected a map with a model, as in {model: llama-2-7b, workload.rate: 4 /s}");
  }
  points_ *= entries.size();
  sweep_.push_back({std::string(kModels), std::move(entries)});
}

// Reads each swept value together with the first values of the other keys. So errors show before anything runs, without
// reading every point. Values of a key beyond kMaxTried are checked only when they are used.
void Study::try_every_value() const {
  std::vector<std::size_t> choice(sweep_.size(), 0);
  static_cast<void>(point_with(choice));
  for (std::size_t key = 0; key < sweep_.size(); ++key) {
    for (std::size_t value = 1; value < std::min(sweep_[key].values.size(), kMaxTried); ++value) {
      choice[key] = value;
      static_cast<void>(point_with(choice));
    }
    choice[key] = 0;
  }
}

std::vector<std::size_t> Study::choice_of(std::size_t index) const {
  std::vector<std::size_t> choice(sweep_.size());
  // The last key varies fastest.
  for (std::size_t key = sweep_.size(); key-- > 0;) {
    choice[key] = index % sweep_[key].values.size();
    index /= sweep_[key].values.size();
  }
  return choice;
}

Document Study::document_with(const std::vector<std::size_t>& choice, std::span<const Setting> settings) const {
  Document document = base_;
  for (std::size_t key = 0; key < sweep_.size(); ++key)
    put_swept(document, sweep_[key].path, sweep_[key].values[choice[key]]);
  for (const auto& [path, value] : settings) put(document, path, value);
  return document;
}

PointSpec Study::point_with(const std::vector<std::size_t>& choice) const {
  return read_point(document_with(choice).root(), *catalogue_, *traces_);
}

bool Study::states(std::size_t index, std::string_view path) const {
  return node_at(document_with(choice_of(index)), path).has_value();
}

PointFile Study::point_file(std::size_t index, std::span<const Setting> settings) const {
  const Document document = document_with(choice_of(index), settings);
  PointFile point{document.dump(), {}};
  for (const std::string_view key : kFileKeys) {
    const auto value = node_at(document, key);
    const std::string file = value ? existing_file(*value, folder_of(file_)) : std::string();
    if (!file.empty()) point.files.push_back(file);
  }
  return point;
}

PointSpec Study::point(std::size_t index, std::span<const Setting> settings) const {
  return read_point(document_with(choice_of(index), settings).root(), *catalogue_, *traces_);
}

std::string Study::title() const {
  const auto name = document_.root().find("study");
  return name && name->is_scalar() ? name->as_string() : std::filesystem::path(file_).stem().string();
}

std::vector<std::string> Study::swept_keys() const {
  std::vector<std::string> keys;
  for (const SweptKey& key : sweep_) keys.push_back(key.path);
  return keys;
}

std::vector<Cell> Study::swept_values(std::size_t index) const {
  const std::vector<std::size_t> choice = choice_of(index);
  std::vector<Cell> cells;
  for (std::size_t key = 0; key < sweep_.size(); ++key) cells.push_back(cell_of(sweep_[key].values[choice[key]]));
  return cells;
}

// Returns the drift that all points have in common; nullopt if they differ. Tries each swept value with the first
// values of the other keys, as try_every_value() does.
std::optional<double> Study::common_drift() const {
  std::optional<double> common;
  bool same = true;
  const auto look = [&](const std::vector<std::size_t>& choice) {
    const PointSpec spec = point_with(choice);
    const auto* const closed = std::get_if<load::ClosedLoop>(&spec.workload.load);
    if (closed != nullptr && closed->concurrency == 1) return;  // a single client cannot drift, whatever is stated
    const double drift = closed == nullptr ? 0 : closed->drift;
    same = same && common.value_or(drift) == drift;
    common = drift;
  };
  std::vector<std::size_t> choice(sweep_.size(), 0);
  look(choice);
  for (std::size_t key = 0; key < sweep_.size() && same; ++key) {
    for (std::size_t value = 1; value < std::min(sweep_[key].values.size(), kMaxTried) && same; ++value) {
      choice[key] = value;
      look(choice);
    }
    choice[key] = 0;
  }
  return same ? common : std::nullopt;
}

std::string Study::resolved_yaml() const {
  Document document = document_;
  // States the drift that the points have in common, even if it comes from the engine's profile.
  if (const auto drift = common_drift(); drift.value_or(0) > 0)
    document.set("workload.load.closed_loop.drift", configs::number_text(*drift), document.root().where());
  const auto engine = node_at(document, "engine");
  if (engine && engine->is_scalar() && !node_at(document, "engine_front_end"))
    document.set("engine_front_end", std::string(model::kFrontEndNames.front()), engine->where());
  const std::string folder = folder_of(file_);
  for (const std::string_view key : kFileKeys) {
    const auto value = node_at(document, key);
    const std::string file = value ? existing_file(*value, folder) : std::string();
    if (!file.empty()) document.set(key, json_quoted(file), value->where());
  }
  for (const std::string_view key : {std::string_view("sweep"), kModels}) {
    const auto value = node_at(document, key);
    if (value && !value->is_scalar() && !value->is_null())
      document.set(key, with_whole_paths(*value, "", folder), value->where());
  }
  return "# SPDX-License-Identifier: Apache-2.0\n" + document.dump();
}

}  // namespace plimsoll::study
