// SPDX-License-Identifier: Apache-2.0
// Writes fitted values into the catalogue's YAML line by line, so that comments and values that are not fitted stay as
// they are.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "calibration/kernel_calibrate.h"
#include "configs/quantity.h"

namespace plimsoll::calibration {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

bool is_inside(const std::string& line) { return line.empty() || line[0] == ' ' || line[0] == '-'; }

// Returns the lines [first, last) of a top-level key; both equal `lines.size()` if the key is missing.
std::pair<std::size_t, std::size_t> block_of(const Lines& lines, const std::string& key) {
  const auto first =
      std::find_if(lines.begin(), lines.end(), [&](const std::string& l) { return l.starts_with(key + ":"); });
  auto last = first == lines.end() ? first : std::find_if_not(first + 1, lines.end(), is_inside);
  return {static_cast<std::size_t>(first - lines.begin()), static_cast<std::size_t>(last - lines.begin())};
}

// Replaces the key's lines by `block`. A new key goes before the first existing key of `before`, or to the end.
void replace_block(Lines& lines, const std::string& key, const Lines& block, const std::vector<std::string>& before) {
  auto [first, last] = block_of(lines, key);
  if (first == lines.size()) {
    for (const std::string& next : before) {
      first = block_of(lines, next).first;
      if (first != lines.size()) break;
    }
    last = first;
  }
  const auto at = lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(first),
                              lines.begin() + static_cast<std::ptrdiff_t>(last));
  lines.insert(at, block.begin(), block.end());
}

// Returns an op's default table, for types that have none: the 16-bit table with the most points.
const model::KernelTable* first_table(const FittedAccelerator& fitted, model::KernelOp op) {
  const model::KernelTable* best = nullptr;
  for (const model::KernelTable& t : fitted.tables) {
    if (t.op != op || t.dtype != "bfloat16" || (!t.kv_dtype.empty() && t.kv_dtype != "bfloat16")) continue;
    if (best == nullptr || t.points > best->points) best = &t;
  }
  return best;
}

std::string coefficient_line(std::string_view key, const model::OpCoefficients& c) {
  return fmt::format("  {}: {{compute: {:.4f}, memory: {:.4f}, p: {:.3f}, t0: {:.3f} us}}", key,
                     std::clamp(c.compute_efficiency, 0.001, 1.0), std::clamp(c.memory_efficiency, 0.001, 1.0), c.p,
                     c.t0.count() * 1e6);
}

void replace_efficiency(Lines& lines, const FittedAccelerator& fitted) {
  static constexpr std::pair<std::string_view, model::KernelOp> kClasses[] = {
      {"gemm", model::KernelOp::gemm},
      {"moe_gemm", model::KernelOp::moe},
      {"prefill_attention", model::KernelOp::prefill_attention},
      {"decode_attention", model::KernelOp::decode_attention}};
  const auto [first, last] = block_of(lines, "efficiency");
  for (std::size_t i = first; i < last; ++i) {
    for (const auto& [key, op] : kClasses) {
      const model::KernelTable* table = first_table(fitted, op);
      if (table != nullptr && lines[i].starts_with(fmt::format("  {}:", key)))
        lines[i] = coefficient_line(key, table->coefficients);
    }
    if (lines[i].starts_with("  source:")) {
      lines[i] =
          "  source: \"where a type has no table below: the 16-bit rooflines of the measured kernels; pointwise and "
          "kernel gap estimated\"";
    }
  }
}

// Returns "gemm 3.6 %, moe 6.1 %": for each op the mean over all measurements of all types and kernels.
std::string error_list(const FittedAccelerator& fitted, double model::KernelTable::*error) {
  std::string text;
  for (std::size_t i = 0; i < model::kKernelOps; ++i) {
    const auto op = static_cast<model::KernelOp>(i);
    double sum = 0, points = 0;
    for (const model::KernelTable& t : fitted.tables) {
      if (t.op != op) continue;
      sum += t.*error * static_cast<double>(t.points);
      points += static_cast<double>(t.points);
    }
    if (points > 0) text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", model::name(op), 100 * sum / points);
  }
  return text;
}

Lines kernels_block(const FittedAccelerator& fitted) {
  Lines block{
      "# Written by plimsoll calibrate --from. Errors are means of |predicted / measured - 1| over all types and "
      "kernels; by",
      "# table: plimsoll calibrate --export.",
      "kernels:",
      fmt::format("  file: {}.kernels", fitted.id),
      fmt::format("  date: \"{}\"", fitted.head.date),
      fmt::format("  source: \"{}\"", fitted.head.source)};
  if (!fitted.command.empty()) block.push_back(fmt::format("  command: \"{}\"", fitted.command));
  std::string ops;
  for (std::size_t op = 0; op < model::kKernelOps; ++op) {
    const bool has = std::any_of(fitted.tables.begin(), fitted.tables.end(),
                                 [&](const auto& t) { return t.op == static_cast<model::KernelOp>(op); });
    if (has) ops += (ops.empty() ? "" : ", ") + std::string(model::name(static_cast<model::KernelOp>(op)));
  }
  block.push_back(fmt::format("  ops: [{}]", ops));
  block.push_back("  roofline_error: " + error_list(fitted, &model::KernelTable::roofline_error));
  block.push_back("  in_fit_error: " + error_list(fitted, &model::KernelTable::in_fit));
  block.push_back("  out_of_fit_error: " + error_list(fitted, &model::KernelTable::out_of_fit));
  return block;
}

// Removes the comments that an earlier run wrote above a block.
void drop_own_comments(Lines& lines) {
  std::erase_if(lines, [](const std::string& l) {
    return l.starts_with("# Written by plimsoll calibrate") || l.starts_with("# table: plimsoll calibrate --export") ||
           l.starts_with("# configuration left out (docs/kernel-tables.md)");
  });
}

// Returns "512 6.05, 1024 6.01": bytes and microseconds.
std::string points_text(const std::vector<model::AllReducePoint>& points) {
  std::string text;
  for (const model::AllReducePoint& p : points) {
    text += fmt::format("{}{:.0f} {:.4g}", text.empty() ? "" : ", ", p.bytes.value, p.time.count() * 1e6);
  }
  return text;
}

}  // namespace

std::string accelerator_text(const std::string& text, const FittedAccelerator& fitted) {
  Lines lines = lines_of(text);
  drop_own_comments(lines);
  replace_efficiency(lines, fitted);
  replace_block(lines, "kernels", kernels_block(fitted), {"calibrated", "note", "source"});
  const bool whole = first_table(fitted, model::KernelOp::gemm) != nullptr &&
                     first_table(fitted, model::KernelOp::prefill_attention) != nullptr &&
                     first_table(fitted, model::KernelOp::decode_attention) != nullptr;
  replace_block(lines, "calibrated", {fmt::format("calibrated: {}", whole)}, {"note", "source"});
  return text_of(lines);
}

namespace {

std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw InputError(Where{path, 0, 0}, "cannot be read");
  return text.str();
}

std::string catalogue_file(const configs::Catalogue& catalogue, const std::string& kind, const std::string& id) {
  return content_of(catalogue.root() + "/" + kind + "/" + id + ".yaml");
}

// Returns the accelerator and the boards with the same chip, which refer to its kernels and are calibrated by them.
// Other accelerators may use its kernels with their own peaks, but remain estimates.
std::vector<std::string> sharing_accelerators(const FittedAccelerator& fitted, const configs::Catalogue& catalogue) {
  std::vector<std::string> ids{fitted.id};
  for (const configs::Listing& listing : catalogue.list("accelerators")) {
    if (listing.name == fitted.id || !catalogue.accelerator(listing.name)->calibrated) continue;
    const Lines lines = lines_of(catalogue_file(catalogue, "accelerators", listing.name));
    if (std::find(lines.begin(), lines.end(), "  file: " + fitted.id + ".kernels") != lines.end())
      ids.push_back(listing.name);
  }
  return ids;
}

// Copies the kernel files of servers that have their own, unchanged, because the written files refer to them.
void add_own_kernels(const std::vector<std::string>& accelerators, const configs::Catalogue& catalogue,
                     std::vector<std::pair<std::string, std::string>>& files) {
  std::set<std::string> names;
  for (const std::string& id : accelerators) {
    const configs::Document document = configs::Document::from_text(catalogue_file(catalogue, "accelerators", id), id);
    const std::optional<configs::Node> own = document.root().find("own_kernels");
    if (!own) continue;
    for (const configs::Item& item : own->items()) names.insert("accelerators/" + item.value.at("file").as_string());
  }
  for (const std::string& name : names) files.emplace_back(name, content_of(catalogue.root() + "/" + name));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> calibrated_files(const FittedAccelerator& fitted,
                                                                  const configs::Catalogue& catalogue) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!fitted.tables.empty()) {
    files.emplace_back("accelerators/" + fitted.id + ".kernels", model::kernel_file_bytes(fitted.head, fitted.tables));
    const std::vector<std::string> sharing = sharing_accelerators(fitted, catalogue);
    for (const std::string& id : sharing) {
      files.emplace_back("accelerators/" + id + ".yaml",
                         accelerator_text(catalogue_file(catalogue, "accelerators", id), fitted));
    }
    add_own_kernels(sharing, catalogue, files);
  }
  if (!fitted.all_reduce.empty() && !fitted.interconnect.empty()) {
    const std::string& link = fitted.interconnect;
    files.emplace_back("interconnects/" + link + ".yaml",
                       interconnect_text(catalogue_file(catalogue, "interconnects", link), fitted));
  }
  return files;
}

std::string interconnect_text(const std::string& text, const FittedAccelerator& fitted) {
  Lines lines = lines_of(text), block{"all_reduce:"};
  for (const model::AllReduceCurve& curve : fitted.all_reduce) {
    block.push_back(fmt::format("  - ranks: {}", curve.ranks));
    block.push_back(fmt::format("    kernel: \"{}\"", curve.kernel));
    block.emplace_back("    points: |");
    block.push_back("      " + points_text(curve.points));
  }
  replace_block(lines, "all_reduce", block, {"source"});
  replace_block(lines, "source",
                {fmt::format("source: \"all-reduce times as measured, {}: {}\"", fitted.head.date, fitted.head.source)},
                {});
  return text_of(lines);
}

}  // namespace plimsoll::calibration
