// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/run_files.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <algorithm>
#include <cmath>
#include <map>

#include "gui/core/text.h"
#include "model/error.h"
#include "study/output/run_files.h"

namespace plimsoll::gui {
namespace {

constexpr qint64 kMaxBytes = 256 << 20;

// Returns "requests-3.csv", or "requests.csv" for a run of a single point.
QString file_of(const std::string& folder, const char* stem, const char* ending, std::size_t index) {
  const QString many = qs(folder + "/" + study::point_file_name(stem, ending, 2, index));
  if (QFile::exists(many) || index > 0) return many;
  return qs(folder + "/" + study::point_file_name(stem, ending, 1, 0));
}

QByteArray read_bytes(const QString& file) {
  QFile in(file);
  if (!in.open(QIODevice::ReadOnly))
    throw InputError(Where{utf8(file), 0, 0}, "cannot be read: " + utf8(in.errorString()));
  if (in.size() > kMaxBytes) throw InputError(Where{utf8(file), 0, 0}, "is larger than 256 MiB");
  return in.readAll();
}

// Limits a value from a file to the range of its type.
double within(double value, double most) { return std::isfinite(value) ? std::clamp(value, -most, most) : 0; }
Nanos nanos(double value, double unit) { return static_cast<Nanos>(std::llround(within(value * unit, 9e18))); }

/// The fields of a line of requests.csv by column name.
class RequestFields {
 public:
  RequestFields(const QByteArray& heading, std::string file) : names_(heading.split(',')), file_(std::move(file)) {
    for (const char* const name : {"id", "arrival_s", "end_s", "generated_tokens"}) {
      if (!names_.contains(name)) throw InputError(Where{file_, 1, 0}, std::string("column '") + name + "' is missing");
    }
  }
  void read(const QByteArray& line, std::size_t number) {
    fields_ = line.split(',');
    number_ = number;
    if (fields_.size() != names_.size()) {
      throw InputError(Where{file_, number, 0}, "found " + std::to_string(fields_.size()) + " fields, expected " +
                                                    std::to_string(names_.size()));
    }
  }
  [[nodiscard]] bool has(const char* name) const { return names_.contains(name); }
  [[nodiscard]] QByteArray text(const char* name) const {
    const auto at = names_.indexOf(name);
    return at < 0 ? QByteArray() : fields_[at];
  }
  // Returns a field as a number; `blank` if the request does not have this value.
  [[nodiscard]] double value(const char* name, double blank) const {
    const QByteArray field = text(name);
    if (field.isEmpty()) return blank;
    bool ok = false;
    const double value = field.toDouble(&ok);
    if (!ok || !std::isfinite(value))
      throw InputError(Where{file_, number_, 0},
                       std::string(name) + ": found '" + field.left(40).toStdString() + "', expected a number");
    return value;
  }
  [[nodiscard]] Nanos time(const char* name) const { return text(name).isEmpty() ? -1 : nanos(value(name, 0), 1e9); }

 private:
  QList<QByteArray> names_, fields_;
  std::string file_;
  std::size_t number_ = 0;
};

sched::Outcome outcome_of(const QByteArray& text) {
  if (text == "rejected") return sched::Outcome::rejected;
  if (text == "timed_out") return sched::Outcome::timed_out;
  if (text == "cancelled") return sched::Outcome::cancelled;
  return sched::Outcome::completed;
}

sched::Stages stages_of(const RequestFields& fields) {
  sched::Stages stages;
  stages.prefill_replica = static_cast<std::int32_t>(within(fields.value("prefill_replica", -1), 1e6));
  stages.prefill_start = fields.time("prefill_start_s");
  stages.prefill_end = fields.time("prefill_end_s");
  stages.transfer_start = fields.time("transfer_start_s");
  stages.transfer_end = fields.time("transfer_end_s");
  stages.transferred = static_cast<sched::Tok>(within(fields.value("transferred_tokens", 0), 2e9));
  stages.decode_start = fields.time("decode_start_s");
  return stages;
}

sim::StepRow step_of(const QJsonObject& event) {
  const QJsonObject args = event.value(QStringLiteral("args")).toObject();
  const auto count = [&](const char* name) {
    return static_cast<std::int64_t>(within(args.value(QLatin1String(name)).toDouble(), 9e15));
  };
  sim::StepRow step;
  step.replica = event.value(QStringLiteral("tid")).toInt();
  step.start = nanos(event.value(QStringLiteral("ts")).toDouble(), 1e3);
  step.end = step.start + nanos(event.value(QStringLiteral("dur")).toDouble(), 1e3);
  step.steps = std::max<std::int64_t>(1, count("steps"));
  step.prefill_tokens = count("prefill_tokens");
  step.prefill_rows = count("prefill_rows");
  step.decode_rows = count("decode_rows");
  return step;
}

// Adds a counter such as "replica 0 kv_blocks" to the step at the same time.
void add_counter(const QJsonObject& event, std::map<std::pair<std::int32_t, Nanos>, sim::StepRow*>& steps) {
  const QStringList words = event.value(QStringLiteral("name")).toString().split(QChar(u' '));
  if (words.size() != 3) return;
  const auto found = steps.find({words[1].toInt(), nanos(event.value(QStringLiteral("ts")).toDouble(), 1e3)});
  if (found == steps.end()) return;
  const auto value = static_cast<std::int64_t>(
      within(event.value(QStringLiteral("args")).toObject().value(words[2]).toDouble(), 9e15));
  if (words[2] == QStringLiteral("kv_blocks")) found->second->kv_blocks = value;
  if (words[2] == QStringLiteral("queued")) found->second->queued = value;
}

}  // namespace

bool has_run_files(const std::string& folder, std::size_t index) {
  return !folder.empty() && QFile::exists(file_of(folder, "requests", ".csv", index));
}

RunFiles read_run_files(const std::string& folder, std::size_t index) {
  RunFiles files;
  const QString requests = file_of(folder, "requests", ".csv", index),
                timeline = file_of(folder, "timeline", ".json", index);
  files.requests = parse_requests(read_bytes(requests), utf8(requests));
  if (QFile::exists(timeline)) files.steps = parse_timeline(read_bytes(timeline), utf8(timeline));
  return files;
}

std::vector<sim::RequestRow> parse_requests(const QByteArray& text, const std::string& file) {
  const QList<QByteArray> lines = text.split('\n');
  RequestFields fields(lines.front().trimmed(), file);
  std::vector<sim::RequestRow> rows;
  for (qsizetype i = 1; i < lines.size(); ++i) {
    if (lines[i].trimmed().isEmpty()) continue;
    fields.read(lines[i], static_cast<std::size_t>(i) + 1);
    sim::RequestRow row;
    row.id = static_cast<std::uint64_t>(std::max(0.0, within(fields.value("id", 0), 9e15)));
    row.replica = static_cast<std::int32_t>(within(fields.value("replica", -1), 1e6));
    row.arrival = fields.time("arrival_s");
    row.dispatched = fields.time("dispatched_s");
    row.first_token = fields.time("first_token_s");
    row.end = fields.time("end_s");
    row.input = static_cast<sched::Tok>(within(fields.value("input_tokens", 0), 2e9));
    row.output = static_cast<sched::Tok>(within(fields.value("output_tokens", 0), 2e9));
    row.generated = static_cast<sched::Tok>(within(fields.value("generated_tokens", 0), 2e9));
    row.outcome = outcome_of(fields.text("outcome"));
    if (fields.has("decode_start_s")) row.stages = stages_of(fields);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw InputError(Where{file, 0, 0}, "holds no request");
  return rows;
}

std::vector<sim::StepRow> parse_timeline(const QByteArray& text, const std::string& file) {
  QJsonParseError problem;
  const QJsonDocument document = QJsonDocument::fromJson(text, &problem);
  if (!document.isObject()) throw InputError(Where{file, 0, 0}, "is not a timeline: " + utf8(problem.errorString()));
  const QJsonArray events = document.object().value(QStringLiteral("traceEvents")).toArray();
  std::vector<sim::StepRow> steps;
  for (const QJsonValue& event : events) {
    if (event.toObject().value(QStringLiteral("ph")) == QStringLiteral("X")) steps.push_back(step_of(event.toObject()));
  }
  // Counters are separate events: they belong to the step of the same replica that starts at their time.
  std::map<std::pair<std::int32_t, Nanos>, sim::StepRow*> places;
  for (sim::StepRow& step : steps) places[{step.replica, step.start}] = &step;
  for (const QJsonValue& event : events) {
    if (event.toObject().value(QStringLiteral("ph")) == QStringLiteral("C")) add_counter(event.toObject(), places);
  }
  return steps;
}

}  // namespace plimsoll::gui
