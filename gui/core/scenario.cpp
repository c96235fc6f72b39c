// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/scenario.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <array>
#include <filesystem>

#include "gui/core/text.h"
#include "model/error.h"
#include "study/file/cell.h"
#include "study/file/read_point.h"
#include "study/file/scheduler_names.h"
#include "traces/reader.h"

namespace plimsoll::gui {
namespace {

using configs::Document;
using configs::Node;

constexpr const char* kDefaultStudy = R"(study: Example
model: llama-2-7b
dtype: fp16
hardware: ml.p4d.24xlarge
engine: tgi-1.1
deployment: {tp: 4, replicas: 1}
scheduler: {max_concurrent: 512, max_input: 4095, max_total: 4096, max_batch_prefill_tokens: 4096}
workload:
  load: {jumpstart: {concurrency: 1}}
  lengths: {input: 256, output: 256}
sweep:
  workload.concurrency: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
)";

// States only settings that the form shows.
constexpr const char* kNewStudy = R"(study: New study
model: llama-3.1-8b
hardware: p5.48xlarge
engine: vllm-0.12
deployment: {tp: 1, replicas: 1}
workload:
  load: {closed_loop: {concurrency: 1}}
  lengths: {input: 512, output: 256}
  requests: 500
sweep:
  workload.concurrency: [1, 2, 4, 8, 16, 32, 64, 128, 256]
)";

// The scheduler's settings that have a field in the form. All but the policy mean the same for every engine.
constexpr std::array<std::string_view, 5> kSchedulerFields = {"max_running", "step_token_budget", "mem_fraction",
                                                              "prefix_caching", "policy"};
constexpr std::string_view kScheduler = "scheduler.";

// Parts of a study that edits replace as a whole.
constexpr std::array<std::string_view, 7> kWholeParts = {"workload.load", "workload.lengths", "scheduler", "sweep",
                                                         "deployment",    "workload",         "limits"};

bool is_shown(std::string_view key) {
  return std::find(kSchedulerFields.begin(), kSchedulerFields.end(), key) != kSchedulerFields.end();
}

// Finds a value by its path, or nothing.
std::optional<Node> node_at(const Node& root, std::string_view path) {
  if (path.empty()) return root;
  if (!root.is_map()) return {};
  if (const auto whole = root.find(path)) return whole;  // a key that itself contains dots
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {};
  const auto child = root.find(path.substr(0, dot));
  return child ? node_at(*child, path.substr(dot + 1)) : std::nullopt;
}

const std::string* edit_of(const Scenario& scenario, const std::string& path) {
  const auto found =
      std::find_if(scenario.edits.begin(), scenario.edits.end(), [&](const auto& e) { return e.first == path; });
  return found == scenario.edits.end() ? nullptr : &found->second;
}

std::string list_text(const Node& list) {
  if (!list.is_sequence()) return list.to_text();
  std::string text;
  for (const configs::Item& item : list.items()) text += (text.empty() ? "" : ", ") + item.value.to_text();
  return text;
}

// Returns the file's document after the edits that replace whole parts. The form reads its fields from it.
Document edited_document(const Scenario& scenario) {
  Document document = scenario.document;
  for (const auto& [path, yaml] : scenario.edits) {
    if (std::find(kWholeParts.begin(), kWholeParts.end(), path) == kWholeParts.end()) continue;
    // Replace instead of merge: a load of another kind must not keep keys of the old one.
    document.remove(path);
    document.set(path, yaml, Where{"edit", 0, 0});
  }
  return document;
}

bool is_load_key(const std::string& key) {
  return key == "workload.concurrency" || key == "workload.rate" || key.starts_with("workload.load");
}

// Returns what the scenario sweeps besides its load, as the inside of a YAML map.
std::string other_sweeps(const Scenario& scenario) {
  std::string sweep;
  const Document document = edited_document(scenario);
  if (const auto swept = document.root().find("sweep"); swept && swept->is_map()) {
    for (const configs::Item& item : swept->items()) {
      if (!is_load_key(item.key)) sweep += (sweep.empty() ? "" : ", ") + item.key + ": " + item.value.to_text();
    }
  }
  return sweep;
}

// Returns what the load states besides `key`, such as the variation of its gaps, as the end of a YAML map. Another kind
// of load keeps nothing.
std::string kept_of_load(const Scenario& scenario, const std::string& kind, const std::string& key) {
  std::string kept;
  const Document document = edited_study(scenario);
  const auto load = node_at(document.root(), "workload.load." + kind);
  if (!load || !load->is_map()) return kept;
  for (const configs::Item& item : load->items()) {
    if (item.key != key) kept += ", " + item.key + ": " + item.value.to_text();
  }
  return kept;
}

// The sweep goes first, so that values pinned by other edits leave the sweep. It is emptied before the load changes,
// because a rate sweep is an error if the load has no rate.
void replace_load(Scenario& scenario, const std::string& load, const std::string& sweep) {
  std::erase_if(scenario.edits,
                [](const auto& edit) { return edit.first == "sweep" || edit.first == "workload.load"; });
  scenario.edits.insert(scenario.edits.begin(),
                        {{"sweep", "{}"}, {"workload.load", load}, {"sweep", "{" + sweep + "}"}});
}

std::string with_unit(const QString& number, bool rate) { return utf8(number) + (rate ? " /s" : ""); }

QString without_unit(QString text) { return text.remove(QRegularExpression(QStringLiteral("\\s*/s"))); }

}  // namespace

Scenario open_scenario(const std::string& file) {
  Scenario scenario;
  scenario.document = Document::from_file(file);
  scenario.file = std::filesystem::absolute(file).lexically_normal().string();
  scenario.name = qs(std::filesystem::path(file).stem().string());
  return scenario;
}

Scenario default_scenario() {
  Scenario scenario;
  scenario.document = Document::from_text(kDefaultStudy, "example");
  scenario.file = "example.yaml";
  scenario.name = tr("example");
  return scenario;
}

Scenario new_scenario() {
  Scenario scenario;
  scenario.document = Document::from_text(kNewStudy, "untitled");
  scenario.file = "untitled.yaml";
  scenario.name = tr("untitled");
  return scenario;
}

void set_edit(Scenario& scenario, const std::string& path, const std::string& yaml) {
  for (auto& [known, value] : scenario.edits) {
    if (known != path) continue;
    value = yaml;
    return;
  }
  scenario.edits.emplace_back(path, yaml);
}

void clear_edit(Scenario& scenario, const std::string& path) {
  std::erase_if(scenario.edits, [&](const auto& edit) { return edit.first == path; });
}

void set_field(Scenario& scenario, const std::string& path, const QString& text) {
  const QString value = text.trimmed();
  // "1, 2, 4" is a list to sweep; a comma inside a map or a list belongs to a single value.
  const bool list = value.contains(QChar(u',')) && !value.startsWith(QChar(u'{')) && !value.startsWith(QChar(u'['));
  // A field is either set or swept, never both.
  if (value.isEmpty() || list) clear_edit(scenario, path);
  if (value.isEmpty() || !list) clear_edit(scenario, "sweep." + path);
  if (value.isEmpty()) return;
  if (list)
    set_edit(scenario, "sweep." + path, "[" + utf8(value) + "]");
  else
    set_edit(scenario, path, utf8(value));
}

FieldValue field_value(const Scenario& scenario, const std::string& path) { return FieldReader(scenario).value(path); }

FieldReader::FieldReader(const Scenario& scenario) : scenario_(scenario), document_(edited_document(scenario)) {}

FieldValue FieldReader::value(const std::string& path) const {
  FieldValue value;
  // Sources in order of precedence: an edit that sweeps, an edit that sets, the file's sweep, the file's value.
  if (const std::string* list = edit_of(scenario_, "sweep." + path)) {
    value.text = qs(list->substr(1, list->size() - 2));
    value.swept = value.edited = true;
    return value;
  }
  if (const std::string* edit = edit_of(scenario_, path)) {
    value.text = qs(*edit);
    value.edited = true;
    return value;
  }
  const Node root = document_.root();
  if (const auto swept = node_at(root, "sweep." + path)) {
    value.text = qs(list_text(*swept));
    value.swept = true;
  } else if (const auto node = node_at(root, path)) {
    value.text = qs(node->to_text());
  }
  return value;
}

std::vector<HiddenSetting> hidden_settings(const Scenario& scenario) {
  std::vector<HiddenSetting> out;
  const Document document = edited_document(scenario);
  if (const auto stated = node_at(document.root(), "scheduler"); stated && stated->is_map()) {
    for (const configs::Item& item : stated->items()) {
      const bool edited = edit_of(scenario, std::string(kScheduler) + item.key) != nullptr;
      if (!is_shown(item.key) && !edited) out.push_back({item.key, item.value.to_text()});
    }
  }
  for (const auto& [path, yaml] : scenario.edits) {
    if (path.starts_with(kScheduler) && !is_shown(path.substr(kScheduler.size())))
      out.push_back({path.substr(kScheduler.size()), yaml});
  }
  return out;
}

void keep_settings(Scenario& scenario, const std::function<bool(const std::string&)>& kept) {
  std::string map;
  const Document document = edited_document(scenario);
  bool drops = false;
  if (const auto stated = node_at(document.root(), "scheduler"); stated && stated->is_map()) {
    for (const configs::Item& item : stated->items()) {
      drops = drops || !kept(item.key);
      if (kept(item.key)) map += (map.empty() ? "" : ", ") + item.key + ": " + item.value.to_text();
    }
  }
  std::erase_if(scenario.edits, [&](const auto& edit) {
    return edit.first.starts_with(kScheduler) && !kept(edit.first.substr(kScheduler.size()));
  });
  if (!drops) return;
  // An edit of the whole map comes before edits of its keys, which it would otherwise replace.
  clear_edit(scenario, "scheduler");
  scenario.edits.insert(scenario.edits.begin(), {"scheduler", "{" + map + "}"});
}

void set_engine(Scenario& scenario, const QString& text) {
  const QString before = field_value(scenario, "engine").text;
  set_field(scenario, "engine", text);
  if (field_value(scenario, "engine").text == before) return;
  // The file's engine is restored, and with it the file's settings.
  if (text.trimmed().isEmpty()) {
    clear_edit(scenario, "scheduler");
    return;
  }
  keep_settings(scenario, [](const std::string& key) { return is_shown(key) && key != "policy"; });
}

std::map<std::string, std::string> other_spellings(const Scenario& scenario) {
  std::map<std::string, std::string> out;
  const auto note = [&](const std::string& key) {
    const auto alias = study::scheduler_alias(key, false);
    if (!alias || alias->ours.empty() || alias->ours == key) return;
    const bool degree = alias->form == study::AliasForm::degree;
    out[(degree ? "deployment." : "scheduler.") + std::string(alias->ours)] = key;
  };
  const Document document = edited_document(scenario);
  if (const auto stated = node_at(document.root(), "scheduler"); stated && stated->is_map()) {
    for (const configs::Item& item : stated->items()) note(item.key);
  }
  constexpr std::string_view kSection = "scheduler.";
  for (const auto& [path, yaml] : scenario.edits) {
    if (path.starts_with(kSection)) note(path.substr(kSection.size()));
  }
  return out;
}

std::vector<std::string> editable_load_kinds() {
  return {"jumpstart", "closed_loop", "poisson", "constant", "gamma", "burst"};
}

LoadField load_field(const Scenario& scenario) {
  LoadField field;
  const Document document = edited_document(scenario);
  const auto load = node_at(document.root(), "workload.load");
  // If the load is invalid, the form shows an empty field, and the simulation reports the error.
  if (!load || !load->is_map() || load->items().size() != 1) return field;
  const configs::Item item = load->items().front();
  field.kind = qs(item.key);
  field.rate = !study::load_field(item.key, "rate").empty();
  for (const char* const key : {"workload.concurrency", "workload.rate"}) {
    if (const auto swept = node_at(document.root(), std::string("sweep.") + key))
      field.values = without_unit(qs(list_text(*swept)));
  }
  if (!field.values.isEmpty() || !item.value.is_map()) return field;
  for (const char* const key : {"concurrency", "rate", "count"}) {
    if (const auto one = item.value.find(key)) field.values = without_unit(qs(one->to_text()));
  }
  return field;
}

void set_load(Scenario& scenario, const QString& kind, const QString& values) {
  const QStringList numbers = QString(values).replace(QChar(u','), QChar(u' ')).split(QChar(u' '), Qt::SkipEmptyParts);
  if (numbers.isEmpty()) throw InputError("the load needs at least one value, as in 1, 2, 4");
  for (const QString& number : numbers) {
    const auto value = configs::parse_number(utf8(number));
    // Check here, so that the error names the field and not the generated YAML.
    if (!value || !(*value > 0))
      throw InputError("'" + utf8(number) + "' is not a load: expected numbers above 0, as in 1, 2, 4");
  }
  const std::string name = utf8(kind);
  const bool rate = !study::load_field(name, "rate").empty();
  const bool concurrency = !study::load_field(name, "concurrency").empty();
  const std::string key = rate ? "rate" : concurrency ? "concurrency" : "count";
  std::string sweep = other_sweeps(scenario);
  if (numbers.size() > 1) {
    std::string list;
    for (const QString& number : numbers) list += (list.empty() ? "" : ", ") + with_unit(number, rate);
    sweep += (sweep.empty() ? "" : ", ") + (key == "count" ? "workload.load.burst.count" : "workload." + key) + ": [" +
             list + "]";
  }
  replace_load(
      scenario,
      "{" + name + ": {" + key + ": " + with_unit(numbers.front(), rate) + kept_of_load(scenario, name, key) + "}}",
      sweep);
}

void set_trace(Scenario& scenario, const std::string& file) {
  const std::string path = std::filesystem::absolute(file).lexically_normal().string();
  const traces::ReadResult read = traces::read_trace(path);
  const std::string quoted = study::json_quoted(path);
  // A trace without times does not determine the load.
  if (read.trace->has_arrivals()) {
    std::string sweep = other_sweeps(scenario);
    sweep += (sweep.empty() ? "" : ", ") + std::string("workload.load.trace.rate_scale: [0.5, 1, 2, 4]");
    replace_load(scenario, "{trace: {file: " + quoted + ", rate_scale: 1}}", sweep);
  }
  for (const char* const part : {"workload.lengths.input", "workload.lengths.output"}) {
    clear_edit(scenario, part);
    clear_edit(scenario, std::string("sweep.") + part);
  }
  set_edit(scenario, "workload.lengths", "{trace: " + quoted + "}");
}

Document edited_study(const Scenario& scenario) {
  Document document = edited_document(scenario);
  for (const auto& [path, yaml] : scenario.edits) {
    try {
      document.set(path, yaml, Where{"edit", 0, 0});
    } catch (const std::exception&) {
      continue;  // the form shows this edit with its error
    }
  }
  return document;
}

std::string edited_yaml(const Scenario& scenario) { return edited_study(scenario).dump(); }

study::Study make_study(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue) {
  return {scenario.document, scenario.file, scenario.edits, catalogue};
}

QString shell_quoted(const QString& word) {
  // Words that consist of these characters need no quotes and stay readable.
  static const QRegularExpression safe(QStringLiteral("^[A-Za-z0-9_./=:@%+,-]+$"));
  if (safe.match(word).hasMatch()) return word;
  return QChar(u'\'') + QString(word).replace(QStringLiteral("'"), QStringLiteral("'\\''")) + QChar(u'\'');
}

QString command_line(const Scenario& scenario, const QString& verb) {
  QString line = QStringLiteral("plimsoll %1 %2").arg(verb, shell_quoted(qs(scenario.file)));
  for (const auto& [path, yaml] : scenario.edits)
    line += QStringLiteral(" --set ") + shell_quoted(qs(path + "=" + yaml));
  return line;
}

}  // namespace plimsoll::gui
