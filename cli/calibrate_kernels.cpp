// SPDX-License-Identifier: Apache-2.0
#include "cli/verb_parts.h"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>

#include "calibration/kernel_calibrate.h"
#include "calibration/kernel_compare.h"
#include "cli/commands.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

void write_files(const std::vector<calibration::FittedAccelerator>& fitted, const configs::Catalogue& catalogue,
                 const std::string& folder) {
  study::make_folder(folder + "/accelerators");
  study::make_folder(folder + "/interconnects");
  for (const calibration::FittedAccelerator& one : fitted) {
    for (const auto& [name, bytes] : calibration::calibrated_files(one, catalogue))
      study::write_file(folder + "/" + name, bytes);
  }
}

// Removes all rows but the held-out ones.
std::vector<calibration::KernelRows> held_out(std::vector<calibration::KernelRows> files, int hold_out) {
  for (calibration::KernelRows& file : files) {
    std::erase_if(file.kernels, [&](const auto& row) { return !calibration::is_held_out(row, hold_out); });
    std::erase_if(file.all_reduces, [&](const auto& row) { return !calibration::is_held_out(row, hold_out); });
    file.not_modelled.clear();
  }
  return files;
}

// Returns the command as given, without local folders: "plimsoll calibrate --from kernels/*.csv.gz (30 tables)".
std::string command_of(const std::vector<std::string>& files, int hold_out) {
  const std::filesystem::path first(files.front());
  const std::string folder = std::filesystem::absolute(first).parent_path().filename().string();
  const std::string what =
      files.size() == 1 ? first.filename().string() : fmt::format("{}/... ({} tables)", folder, files.size());
  return fmt::format("plimsoll calibrate --from {}{}", what,
                     hold_out > 0 ? fmt::format(" --hold-out {}", hold_out) : "");
}

}  // namespace

void add_kernel_options(po::options_description& options) {
  auto add = options.add_options();
  add("from", po::value<std::vector<std::string>>()->multitoken()->value_name("FILE..."),
      "tables of measured kernels (docs/kernel-tables.md); writes accelerators and links under --out. With --engine: "
      "serving runs, of points.csv or anything that import reads");
  add("hold-out", po::value<std::string>()->value_name("N"),
      "with --from: leave one configuration in N out of the fit and print its error");
  add("source", po::value<std::string>()->value_name("TEXT"), "with --from: where the tables come from, for the files");
  add("export", po::value<std::string>()->value_name("FILE.kernels"), "print a file of measured kernels as text");
}

int calibrate_from(const Parsed& parsed, Console& console, const std::string& date) {
  if (parsed.common.out.empty())
    throw InputError("--from: needs --out DIR, a folder for the files of accelerators and links");
  calibration::CalibrateSettings settings;
  settings.date = date;
  if (parsed.values.count("source") > 0) settings.source = parsed.values["source"].as<std::string>();
  if (settings.source.find_first_of("\"\\\n") != std::string::npos)
    throw InputError("--source: quotes, backslashes and line breaks are not allowed");
  settings.hold_out = static_cast<int>(whole_option(parsed, "hold-out", {2, 1000}, 0));
  const auto names = parsed.values["from"].as<std::vector<std::string>>();
  settings.command = command_of(names, settings.hold_out);
  if (settings.command.find_first_of("\"\\\n") != std::string::npos)
    throw InputError("--from: quotes, backslashes and line breaks are not allowed in names");
  std::vector<calibration::KernelRows> files;
  for (const std::string& file : names) files.push_back(calibration::read_kernel_rows(file));
  std::mutex mutex;
  settings.progress = [&](double done, std::size_t total) {
    const std::scoped_lock lock(mutex);
    console.progress(done, total);
  };
  configs::Catalogue catalogue;
  catalogue.leave_kernels_out();  // so that damaged files can be replaced
  const std::vector<calibration::FittedAccelerator> fitted = calibration::fit_kernels(files, catalogue, settings);
  write_files(fitted, catalogue, parsed.common.out);
  console.print(calibration::fit_text(fitted) + fmt::format("written to {}\n", parsed.common.out));
  if (settings.hold_out > 0) {
    configs::Catalogue calibrated;
    calibrated.set_calibration(parsed.common.out);
    console.print("\nconfigurations that were kept out of the fit:\n" +
                  calibration::kernel_report_text(
                      calibration::compare_kernels(held_out(std::move(files), settings.hold_out), calibrated)));
  }
  return kDone;
}

int export_kernels(const Parsed& parsed, Console& console) {
  const model::KernelFile file(parsed.values["export"].as<std::string>());
  console.print(calibration::kernel_file_text(file));
  return kDone;
}

}  // namespace plimsoll::cli
