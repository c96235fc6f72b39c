// SPDX-License-Identifier: Apache-2.0
#include "study/plan/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "study/output/chart_axis.h"
#include "study/output/table_view.h"

namespace plimsoll::study::plan {
namespace {

struct Piece {  // one replica
  std::size_t finding = 0;
  std::int32_t gpus = 1;
};

const Candidate& candidate_of(const QuestionAnswer& finding, std::size_t candidate) {
  return finding.question.candidates[candidate];
}

std::string model_of(const QuestionAnswer& finding) {
  return finding.question.spec.shape ? finding.question.spec.shape->id : finding.question.study->title();
}

// Packs first-fit, largest first. TP degrees are powers of two in practice, and then no packing needs fewer instances.
std::vector<std::vector<std::int32_t>> pack(std::vector<Piece> pieces, std::int32_t size, std::size_t findings) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.gpus > b.gpus; });
  std::vector<std::vector<std::int32_t>> instances;
  std::vector<std::int32_t> left;
  for (const Piece& piece : pieces) {
    auto room = std::find_if(left.begin(), left.end(), [&](std::int32_t gpus) { return gpus >= piece.gpus; });
    if (room == left.end()) {
      left.push_back(size);
      instances.emplace_back(findings, 0);
      room = left.end() - 1;
    }
    *room -= piece.gpus;
    ++instances[static_cast<std::size_t>(room - left.begin())][piece.finding];
  }
  return instances;
}

// Returns why a model has no deployment on an instance type.
std::string why_not(const QuestionAnswer& finding, const std::string& hardware) {
  const std::vector<Candidate>& candidates = finding.question.candidates;
  const std::string* reason = nullptr;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (label_of(candidates[i]) != hardware) continue;
    if (candidates[i].excluded.empty()) return fmt::format("{} does not meet its SLO there", model_of(finding));
    if (reason == nullptr) reason = &candidates[i].excluded;
  }
  return reason == nullptr ? fmt::format("the search does not ask for {} there", model_of(finding))
                           : fmt::format("{} cannot be there: {}", model_of(finding), *reason);
}

void add_pieces(std::vector<Piece>& pieces, const PointSpec& spec, std::size_t finding) {
  const Deployment& d = spec.deployment;
  for (std::int32_t r = 0; r < d.most_replicas(); ++r) pieces.push_back({finding, d.tp * d.pp});
}

// Each model brings the deployment with the fewest GPUs that keeps its SLO on this type; the replicas are then packed.
SharedHost host_of(std::span<const QuestionAnswer> findings, const std::string& hardware) {
  SharedHost host;
  host.hardware = hardware;
  std::vector<Piece> pieces;
  std::int32_t size = 1;
  std::optional<double> price;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    const auto found = findings[f].answer.fewest_gpus.find(hardware);
    if (found == findings[f].answer.fewest_gpus.end()) {
      host.impossible = why_not(findings[f], hardware);
      return host;
    }
    const Candidate& candidate = candidate_of(findings[f], found->second);
    host.candidates.push_back(found->second);
    size = candidate.spec.hardware.count;
    price = candidate.spec.hardware.usd_per_hour;
    add_pieces(pieces, candidate.spec, f);
    if (candidate.spec.prefill) {
      if (candidate.spec.prefill->hardware.label != candidate.spec.hardware.label) {
        host.impossible = fmt::format("the pools of {} are on instances of different types", model_of(findings[f]));
        return host;
      }
      add_pieces(pieces, *candidate.spec.prefill, f);
    }
  }
  host.instances = pack(std::move(pieces), size, findings.size());
  if (price) host.usd_per_hour = *price * static_cast<double>(host.instances.size());
  return host;
}

std::string replicas_text(const QuestionAnswer& finding, std::size_t candidate) {
  const PointSpec& spec = candidate_of(finding, candidate).spec;
  const auto text = [](const Deployment& d) { return fmt::format("{} x tp {}", d.most_replicas(), d.tp); };
  return spec.prefill ? text(spec.prefill->deployment) + " + " + text(spec.deployment) : text(spec.deployment);
}

}  // namespace

std::vector<SharedHost> share_instances(std::span<const QuestionAnswer> findings) {
  // In the order in which the questions name them.
  std::vector<std::string> labels;
  for (const QuestionAnswer& finding : findings) {
    for (const Candidate& candidate : finding.question.candidates) {
      const std::string& label = label_of(candidate);
      if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
    }
  }
  std::vector<SharedHost> hosts;
  for (const std::string& label : labels) hosts.push_back(host_of(findings, label));
  std::stable_sort(hosts.begin(), hosts.end(), [](const SharedHost& a, const SharedHost& b) {
    if (a.impossible.empty() != b.impossible.empty()) return a.impossible.empty();
    constexpr double kNoPrice = std::numeric_limits<double>::infinity();
    return a.usd_per_hour.value_or(kNoPrice) < b.usd_per_hour.value_or(kNoPrice);
  });
  return hosts;
}

std::string shared_text(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts) {
  TextTable table{.header = {{"instances"}}, .rows = {}, .left = 1};
  for (const QuestionAnswer& finding : findings) table.header[0].push_back(model_of(finding));
  table.header[0].emplace_back("USD/h");
  for (const SharedHost& host : hosts) {
    if (!host.impossible.empty()) continue;
    std::vector<std::string> row = {fmt::format("{} x {}", host.hardware, host.instances.size())};
    for (std::size_t f = 0; f < findings.size(); ++f) row.push_back(replicas_text(findings[f], host.candidates[f]));
    row.push_back(host.usd_per_hour ? reader_number(*host.usd_per_hour, 4) : "-");
    table.rows.push_back(std::move(row));
  }
  std::string text = "\nAll models on the same instances\n";
  text += table.rows.empty() ? std::string() : text_table(table);
  for (const SharedHost& host : hosts) {
    if (!host.impossible.empty()) text += fmt::format("  {}: {}\n", host.hardware, host.impossible);
  }
  std::optional<double> apart = 0;  // none: some price is not known
  for (const QuestionAnswer& finding : findings) {
    if (!finding.answer.winner) return text + "  apart: some models have no deployment that meets the SLO\n";
    const std::optional<double> usd = candidate_of(finding, *finding.answer.winner).point.usd_per_hour;
    apart = apart && usd ? std::optional(*apart + *usd) : std::nullopt;
  }
  text += fmt::format("  apart, each on its own best: {} USD/h\n", apart ? reader_number(*apart, 4) : "-");
  if (table.rows.empty()) return text;
  const SharedHost& best = hosts.front();
  for (std::size_t i = 0; i < best.instances.size(); ++i) {
    text += fmt::format("  {} {}:", best.hardware, i + 1);
    for (std::size_t f = 0; f < findings.size(); ++f) {
      if (best.instances[i][f] > 0) text += fmt::format(" {} x {}", best.instances[i][f], model_of(findings[f]));
    }
    text += '\n';
  }
  return text;
}

std::string shared_csv(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts) {
  std::vector<std::string> columns = {"hardware", "instances", "usd_per_hour"};
  for (const QuestionAnswer& finding : findings) columns.push_back(model_of(finding));
  columns.emplace_back("verdict");
  std::string text = csv_header(columns);
  for (const SharedHost& host : hosts) {
    const bool possible = host.impossible.empty();
    std::vector<Cell> row = {Cell(host.hardware),
                             possible ? Cell(static_cast<std::int64_t>(host.instances.size())) : Cell(),
                             number_cell(host.usd_per_hour)};
    for (std::size_t f = 0; f < findings.size(); ++f)
      row.push_back(possible ? Cell(replicas_text(findings[f], host.candidates[f])) : Cell());
    row.push_back(possible ? Cell(std::string("hosts all")) : Cell(host.impossible));
    text += csv_line(row);
  }
  return text;
}

}  // namespace plimsoll::study::plan
