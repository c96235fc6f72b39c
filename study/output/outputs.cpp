// SPDX-License-Identifier: Apache-2.0
#include "study/output/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "study/file/cell.h"
#include "study/output/metrics_record.h"
#include "study/output/points_page.h"
#include "study/output/run_files.h"
#include "study/output/write_file.h"

namespace plimsoll::study {

namespace {

// A stored point has one line for each of its files, with the digest of the file's bytes.
constexpr std::string_view kFileLine = "file: ";

std::string file_line(const std::string& name, const Digest& digest) {
  return fmt::format("\n{}{} {}", kFileLine, hex(digest), name);
}

}  // namespace

Outputs::Outputs(const Study& study, OutputChoice choice) : study_(study), choice_(std::move(choice)) {
  if (choice_.folder.empty()) return;
  make_folder(choice_.folder);
  if (choice_.resumable) {
    store_ = std::make_unique<ResultStore>(path("results.sqlite"));
    remove_leftovers();  // this run holds the store's lock, so no other process writes these files
    keys_ = std::make_unique<PointKeys>(study, choice_.stepwise ? "stepwise" : choice_.measured_on);
  }
  write_file(path("study.yaml"), study.resolved_yaml());
}

// Removes the temporary files (write_file.h) of a run that was killed.
void Outputs::remove_leftovers() const {
  namespace fs = std::filesystem;
  constexpr std::array<std::string_view, 10> kStems = {"study.yaml.", "points.csv.", "report.html.", "infeasible.csv.",
                                                       "requests",    "timeline",    "decisions",    "events",
                                                       "ops",         "fleet"};
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(choice_.folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool ours =
        std::any_of(kStems.begin(), kStems.end(), [&](std::string_view stem) { return name.starts_with(stem); });
    if (ours && name.ends_with(".tmp")) found.push_back(at->path());
  }
  for (const fs::path& file : found) fs::remove(file, error);
}

// A point's files are named after its place in the sweep, so the key includes the place as well as the point.
Digest Outputs::key_of(std::size_t index) const {
  if (!choice_.requests && !choice_.decisions && !choice_.timeline) return keys_->of_point(index);
  return keys_->of_point(index, fmt::format("files {} {} {} of point {} of {}", choice_.requests, choice_.decisions,
                                            choice_.timeline, index, study_.point_count()));
}

// The user may have removed a file, and the run of another study may have replaced it.
bool Outputs::has_file(std::string_view line) const {
  const std::string digest(line.substr(kFileLine.size(), 2 * Digest().size()));
  const std::string name = path(std::string(line.substr(kFileLine.size() + digest.size() + 1)));
  std::error_code error;
  return std::filesystem::exists(name, error) && hex(digest_of_file(name)) == digest;
}

// Reads a stored point: its metrics, then one line each for why it is estimated, for each of its files and, if replicas
// come and go, for the fleet.
std::optional<sched::PointMetrics> Outputs::recall(PointResult& point) {
  if (!store_) return {};
  const std::optional<std::string> text = store_->find(key_of(point.index));
  if (!text) return {};
  const std::size_t end = std::min(text->find('\n'), text->size());
  std::vector<std::string> reasons;
  std::vector<sched::FleetRow> fleet;
  for (std::size_t begin = end + 1; begin < text->size();) {
    const std::size_t next = std::min(text->find('\n', begin), text->size());
    const std::string line = text->substr(begin, next - begin);
    begin = next + 1;
    if (line.starts_with(kFileLine)) {
      if (!has_file(line)) return {};
    } else if (std::optional<std::vector<sched::FleetRow>> read = read_fleet_record(line)) {
      fleet = std::move(*read);
    } else {
      reasons.push_back(line);
    }
  }
  if (!fleet.empty()) point.fleet = std::move(fleet);
  for (const std::string& reason : reasons) add_extrapolation(point, reason);
  ++recalled_;
  write_fleet(point);  // its place in the sweep may have changed
  return read_metrics_record(std::string_view(*text).substr(0, end));
}

void Outputs::add(const FinishedPoint& point) {
  if (choice_.folder.empty()) return;
  if (!point.result.metrics) return;             // the reason why a point is impossible is quickly found again
  const std::string files = write_files(point);  // before the store records the point as finished
  if (!store_) return;
  std::string text = metrics_record(*point.result.metrics);
  for (const std::string& why : point.run.beyond_measured) text += '\n' + why;
  if (!point.result.fleet.empty()) text += '\n' + fleet_record(point.result.fleet);
  text += files;
  store_->put(key_of(point.result.index), text);
}

void Outputs::tick() {
  if (store_) store_->tick();
}

void Outputs::add_unfinished(const FinishedPoint& point) const {
  if (!choice_.folder.empty()) (void)write_files(point);
}

void Outputs::write_fleet(const PointResult& point) const {
  if (point.fleet.empty()) return;
  const std::size_t points = study_.point_count();
  write_file(path(point_file_name("fleet", ".csv", points, point.index)), fleet_csv(point));
  write_file(path(point_file_name("fleet", ".svg", points, point.index)), fleet_svg(study_.title(), point));
  write_file(path(point_file_name("fleet-cost", ".svg", points, point.index)), fleet_cost_svg(study_.title(), point));
}

// Returns a file_line() for each file, except those of the fleet, which recall() writes again.
std::string Outputs::write_files(const FinishedPoint& point) const {
  const std::size_t points = study_.point_count(), index = point.result.index;
  std::string lines;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file(path(name), text);
    if (store_) lines += file_line(name, digest_of(text));
  };
  if (choice_.requests) write(point_file_name("requests", ".csv", points, index), requests_csv(point.run.requests));
  if (choice_.timeline)
    write(point_file_name("timeline", ".json", points, index), timeline_json(point.run.steps, study_.title()));
  write_fleet(point.result);
  if (!choice_.decisions) return lines;
  if (!point.run.events.empty()) write(point_file_name("events", ".jsonl", points, index), point.run.events);
  const std::size_t replicas = point.run.logs.size();
  for (std::size_t r = 0; r < replicas; ++r) write(decisions_file_name(points, index, replicas, r), point.run.logs[r]);
  return lines;
}

void Outputs::finish(const StudyResult& result) {
  if (choice_.folder.empty()) return;
  if (store_) store_->commit();
  const std::vector<std::string> keys = study_.swept_keys();
  write_file(path("points.csv"), points_csv(keys, result.points));
  std::vector<std::string> columns = keys;
  columns.emplace_back("reason");
  std::string text = csv_header(columns);
  bool any = false;
  for (const PointResult& point : result.points) {
    if (point.metrics) continue;
    std::vector<Cell> row = point.swept;
    row.emplace_back(point.infeasible);
    text += csv_line(row);
    any = true;
  }
  infeasible_ = any;
  if (any) {
    write_file(path("infeasible.csv"), text);
  } else {
    std::remove(path("infeasible.csv").c_str());  // left by an earlier run
  }
  write_file(path("report.html"), points_html(study_, result.points));
}

std::string Outputs::written_text() const {
  if (choice_.folder.empty()) return {};
  const bool several = study_.point_count() > 1;
  std::string text =
      fmt::format("written to {}: report.html (open it in a browser), points.csv, study.yaml", choice_.folder);
  if (infeasible_) text += ", infeasible.csv";
  const auto add = [&](bool chosen, const char* one, const char* many) {
    if (chosen) text += std::string(", ") + (several ? many : one);
  };
  add(choice_.requests, "requests.csv", "requests-*.csv");
  add(choice_.decisions, "decisions*.txt", "decisions-*.txt");
  add(choice_.timeline, "timeline.json", "timeline-*.json");
  return text;
}

}  // namespace plimsoll::study
