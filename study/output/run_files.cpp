// SPDX-License-Identifier: Apache-2.0
#include "study/output/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "study/file/cell.h"

namespace plimsoll::study {
namespace {

double in_seconds(Nanos time) { return static_cast<double>(time) / 1e9; }
double micros(Nanos time) { return static_cast<double>(time) / 1e3; }

std::string time_text(Nanos time) { return time < 0 ? std::string() : number_text(in_seconds(time)); }

const char* outcome_name(sched::Outcome outcome) {
  switch (outcome) {
    case sched::Outcome::completed: return "completed";
    case sched::Outcome::rejected: return "rejected";
    case sched::Outcome::timed_out: return "timed_out";
    case sched::Outcome::cancelled: return "cancelled";
  }
  return "";
}

// Returns the HTTP status of a refusal, or its name if the product refuses without a status.
std::string code_text(const sim::RequestRow& row) {
  if (row.http != 0) return fmt::format("{}", row.http);
  return row.code != nullptr ? row.code : "";
}

// Perfetto colours a slice by its name: prefill, decode or mixed.
const char* step_name(const sim::StepRow& step) {
  if (step.prefill_rows > 0 && step.decode_rows > 0) return "mixed";
  return step.prefill_rows > 0 ? "prefill" : "decode";
}

void append_step(std::string& out, const sim::StepRow& step) {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":0,\"tid\":{},\"args\":{{\"steps\":{},"
                 "\"prefill_tokens\":{},\"prefill_rows\":{},\"decode_rows\":{}}}}}",
                 step_name(step), micros(step.start), micros(step.end - step.start), step.replica, step.steps,
                 step.prefill_tokens, step.prefill_rows, step.decode_rows);
}

void append_counter(std::string& out, const sim::StepRow& step, const char* name, std::int64_t value) {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"name\":\"replica {} {}\",\"ph\":\"C\",\"ts\":{},\"pid\":0,\"args\":{{\"{}\":{}}}}}",
                 step.replica, name, micros(step.start), name, value);
}

void append_stages(std::string& out, const std::optional<sched::Stages>& stages) {
  const sched::Stages s = stages.value_or(sched::Stages{});
  fmt::format_to(std::back_inserter(out), ",{},{},{},{},{},{},{}",
                 s.local() ? std::string() : fmt::format("{}", s.prefill_replica), time_text(s.prefill_start),
                 time_text(s.prefill_end), time_text(s.transfer_start), time_text(s.transfer_end),
                 s.local() ? std::string() : fmt::format("{}", s.transferred), time_text(s.decode_start));
}

}  // namespace

std::string requests_csv(const std::vector<sim::RequestRow>& requests) {
  const bool sessions = std::any_of(requests.begin(), requests.end(), [](const auto& row) { return row.session != 0; });
  std::string text =
      "id,name,replica,arrival_s,dispatched_s,first_token_s,end_s,input_tokens,output_tokens,generated_tokens,outcome,"
      "code,preemptions,priority";
  if (sessions) text += ",session";
  const bool pools = std::any_of(requests.begin(), requests.end(), [](const auto& row) { return row.stages; });
  if (pools)
    text +=
        ",prefill_replica,prefill_start_s,prefill_end_s,transfer_start_s,transfer_end_s,transferred_tokens,"
        "decode_start_s";
  text += '\n';
  for (const sim::RequestRow& row : requests) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{},{}", row.id, row.name,
                   row.replica < 0 ? std::string() : fmt::format("{}", row.replica), time_text(row.arrival),
                   time_text(row.dispatched), time_text(row.first_token), time_text(row.end), row.input, row.output,
                   row.generated, outcome_name(row.outcome), code_text(row), row.preemptions, row.priority);
    if (sessions) fmt::format_to(std::back_inserter(text), ",{}", row.session);
    if (pools) append_stages(text, row.stages);
    text += '\n';
  }
  return text;
}

std::string timeline_json(const std::vector<sim::StepRow>& steps, const std::string& title) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  out += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":" + json_quoted(title) + "}}";
  // Names come first in the file, so that a viewer shows them from the beginning.
  std::set<std::int32_t> replicas;
  for (const sim::StepRow& step : steps) replicas.insert(step.replica);
  for (const std::int32_t replica : replicas) {
    fmt::format_to(
        std::back_inserter(out),
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":{0},\"args\":{{\"name\":\"replica {0}\"}}}}",
        replica);
  }
  for (const sim::StepRow& step : steps) {
    append_step(out, step);
    append_counter(out, step, "kv_blocks", step.kv_blocks);
    append_counter(out, step, "running", step.prefill_rows + step.decode_rows);
    append_counter(out, step, "queued", step.queued);
  }
  return out + "\n]}\n";
}

std::string point_file_name(const std::string& stem, const std::string& extension, std::size_t points,
                            std::size_t point) {
  return points == 1 ? stem + extension : fmt::format("{}-{}{}", stem, point, extension);
}

std::string decisions_file_name(std::size_t points, std::size_t point, std::size_t replicas, std::size_t replica) {
  if (points == 1 && replicas == 1) return "decisions.txt";
  return fmt::format("decisions-{}-r{}.txt", point, replica);
}

}  // namespace plimsoll::study
