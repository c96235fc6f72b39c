// SPDX-License-Identifier: Apache-2.0
#include "cli/stated_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "model/error.h"
#include "model/memory_plan.h"
#include "study/file/cell.h"
#include "study/file/read_point.h"
#include "study/file/study.h"

namespace plimsoll::cli {
namespace {

using configs::Document;

struct Option {
  std::string_view name, value, help;
};
constexpr std::array<Option, 17> kOptions = {{
    {"model", "NAME", "a model of the catalogue, or a Hugging Face config.json"},
    {"hardware", "NAME", "GPUs such as 8xh100, or an instance type such as p5.48xlarge"},
    {"engine", "NAME", "an engine profile; a product's name (vllm) is its newest one (default: vllm)"},
    {"dtype", "TYPE", "type of the weights: bf16, fp16, fp8, int4 ..."},
    {"tp", "N", "GPUs per replica (default: all GPUs divided by --replicas; plan searches)"},
    {"pp", "N", "pipeline stages per replica (default: 1)"},
    {"replicas", "N", "copies of the model (default: 1; plan searches)"},
    {"rate", "R", "requests per second, arriving at random (Poisson): 4, 4/s, 240/min"},
    {"users", "N", "users that send their next request when the last one is answered"},
    {"concurrency", "N", "the same as --users"},
    {"trace", "FILE", "replay a recorded trace; with --rate or --users only its lengths are used"},
    {"input", "TOKENS", "tokens of a prompt (default: 1000)"},
    {"output", "TOKENS", "tokens of an answer (default: 300)"},
    {"slo", "LIMITS", "limits that a deployment must meet: p99_ttft=1s,p99_tpot=50ms"},
    {"requests", "N", "number of requests to simulate (default: 1000)"},
    {"objective", "NAME", "cost (default), gpus, latency, throughput, capacity or cost_per_token"},
    {"name", "NAME", "title of the study"},
}};

bool takes(StudyOptions kind, const Option& option) {
  if (option.name == "objective") return kind == StudyOptions::search || kind == StudyOptions::file_of_its_own;
  if (option.name == "name") return kind == StudyOptions::file_of_its_own;
  return option.name != "requests" || kind != StudyOptions::points;  // simulate has its own --requests
}

constexpr std::string_view kTraceLoad = "workload.load.trace.file", kTraceLengths = "workload.lengths.trace";
constexpr std::string_view kDefaultEngine = "vllm";
constexpr std::string_view kExample = "--model llama-3.1-8b --hardware h100 --rate 4 --input 1000 --output 300";

bool is_flow(const std::string& text) { return text.starts_with('{') || text.starts_with('['); }

// Formats a YAML scalar: plain where that is safe.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && text.front() != ' ' && text.back() != ' ' && text.front() != '-' &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                              c == '/' || c == '_' || c == '-' || c == '+' || c == ' ';
                     });
  return plain ? text : study::json_quoted(text);
}

std::vector<std::string> items_of(const std::string& text) {
  if (is_flow(text)) return {text};
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::size_t first = begin, last = end;
    while (first < last && text[first] == ' ') ++first;
    while (last > first && text[last - 1] == ' ') --last;
    items.push_back(text.substr(first, last - first));
    begin = end + 1;
  }
  return items;
}

// "4" becomes "4 /s" with the unit "/s"; "1s" becomes "1 s".
std::string with_unit(const std::string& text, const char* unit_of_a_bare_number) {
  if (is_flow(text)) return text;
  if (configs::parse_number(text)) return *unit_of_a_bare_number == '\0' ? text : text + ' ' + unit_of_a_bare_number;
  const std::size_t digits = std::min(text.find_first_not_of("+-.0123456789"), text.size());
  const bool joined =
      digits > 0 && digits < text.size() && text[digits] != ' ' && text[digits] != 'e' && text[digits] != 'E';
  return joined ? text.substr(0, digits) + ' ' + text.substr(digits) : text;
}

/// The options as given; an option may have a list of values.
class Given {
 public:
  explicit Given(const Parsed& parsed) : parsed_(parsed) {
    if (has("users") && has("concurrency"))
      throw InputError("--users and --concurrency are the same option; state one");
  }
  [[nodiscard]] bool has(std::string_view name) const { return !text(name).empty(); }
  [[nodiscard]] bool any() const {
    return std::any_of(kOptions.begin(), kOptions.end(), [&](const Option& option) { return has(option.name); });
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    if (name == "requests" && !parsed_.requests.empty()) return parsed_.requests;
    const auto found = parsed_.values.find(std::string(name));
    if (found == parsed_.values.end()) return {};
    const auto* const text = boost::any_cast<std::string>(&found->second.value());
    if (text == nullptr) return {};
    if (text->empty()) throw InputError(fmt::format("--{}: found nothing, expected a value", name));
    return *text;
  }
  [[nodiscard]] std::string option(std::string_view name) const { return fmt::format("--{} {}", name, text(name)); }
  /// Returns the name of the option that was used: --users or its synonym --concurrency.
  [[nodiscard]] std::string_view users() const { return has("concurrency") ? "concurrency" : "users"; }

 private:
  const Parsed& parsed_;
};

// Resolves the name of a product, such as "vllm". Returns its newest profile by the numbers after the hyphen; if any of
// its profiles has fitted times, only those are considered.
std::string newest_engine(const std::string& name, const configs::Catalogue& catalogue,
                          std::vector<std::string>& notes) {
  const std::string product = configs::canonical_name(name) + '-';
  std::string newest;
  bool newest_is_fitted = false;
  std::vector<std::string> all;
  const auto version = [&](const std::string& id) {
    std::vector<int> parts;
    for (std::size_t i = product.size(); i < id.size(); ++i) {
      if (id[i] < '0' || id[i] > '9') continue;
      if (i == product.size() || id[i - 1] < '0' || id[i - 1] > '9') parts.push_back(0);
      parts.back() = std::min(parts.back() * 10 + (id[i] - '0'), 1'000'000);
    }
    return parts;
  };
  for (const configs::Listing& engine : catalogue.list("engines")) {
    const std::string& id = engine.name;
    if (!id.starts_with(product) || id.size() == product.size() || id[product.size()] < '0' || id[product.size()] > '9')
      continue;
    all.push_back(id);
    const model::EngineProfile& profile = *catalogue.engine(id)->profile;
    const bool fitted = profile.calibrated && profile.like.empty();
    if (!newest.empty() && std::pair(fitted, version(id)) < std::pair(newest_is_fitted, version(newest))) continue;
    newest = id;
    newest_is_fitted = fitted;
  }
  if (newest.empty()) return name;
  const std::string others =
      all.size() > 1
          ? fmt::format(" (the newest{} of {})", newest_is_fitted ? " with fitted times" : "", fmt::join(all, ", "))
          : std::string();
  notes.push_back(fmt::format("engine {} is {}{}", name, newest, others));
  return newest;
}

/// Collects values in the order of a study file.
class Builder {
 public:
  Builder(const Parsed& parsed, std::shared_ptr<const configs::Catalogue> catalogue)
      : given_(parsed), kind_(parsed.study_options), catalogue_(std::move(catalogue)) {}

  // Returns only the options' values, for a study file that has the rest.
  StatedStudy given_alone() {
    name();
    machine();
    deployment();
    load();
    lengths();
    rest();
    return finish();
  }

  StatedStudy whole() {
    fills_up_ = true;
    if (const std::vector<std::string> absent = missing(); !absent.empty()) {
      throw InputError(fmt::format("without a STUDY file, {} {} required; for example: {}", fmt::join(absent, ", "),
                                   absent.size() == 1 ? "is" : "are", kExample));
    }
    name();
    if (!given_.has("name")) put("study", scalar(title()), "", "");
    machine();
    const std::size_t before = stated_.values.size();
    deployment();
    load();
    lengths();
    rest();
    if (!given_.has("tp") && kind_ != StudyOptions::search) {
      take_degree(before);
      if (kind_ == StudyOptions::file_of_its_own) offer_degrees();
    }
    return finish();
  }

 private:
  [[nodiscard]] bool searches() const { return kind_ == StudyOptions::search || given_.has("objective"); }

  // Sets a value in the study. A list becomes a sweep, or for `plan` an axis of the search if the key has one.
  struct Key {
    std::string path, axis = {};
  };
  void add(std::string_view option, const Key& key, const std::string& comment,
           const std::function<std::string(const std::string&)>& yaml = scalar) {
    if (!given_.has(option)) return;
    const std::vector<std::string> items = items_of(given_.text(option));
    put(key.path, yaml(items.front()), given_.option(option), comment);
    if (items.size() == 1) return;
    std::vector<std::string> all;
    for (const std::string& item : items) all.push_back(yaml(item));
    const bool axis = searches() && !key.axis.empty();
    lists_.push_back({axis ? "search." + key.axis : "sweep." + key.path, fmt::format("[{}]", fmt::join(all, ", ")),
                      given_.option(option), axis ? "plan tries each" : "a point for each"});
  }

  void put(const std::string& path, const std::string& yaml, const std::string& option, const std::string& comment) {
    stated_.values.push_back({path, yaml, option, comment});
  }

  void name() {
    if (given_.has("name")) put("study", scalar(given_.text("name")), given_.option("name"), "");
  }

  void machine() {
    constexpr const char* kModels = "plimsoll list models, or a Hugging Face config.json";
    constexpr const char* kMachines = "GPUs, or an instance type (plimsoll list instances)";
    add("model", {"model"}, kModels);
    if (fills_up_ && !given_.has("model")) take("model", "model", "llama-3.1-8b", kModels);
    add("hardware", {"hardware", "instances"}, kMachines,
        [](const std::string& text) { return is_flow(text) ? text : scalar(text); });
    if (fills_up_ && !given_.has("hardware")) take("hardware", "hardware", "1xh100", kMachines);
    if (given_.has("engine") && items_of(given_.text("engine")).size() == 1) {
      put("engine", scalar(newest_engine(given_.text("engine"), *catalogue_, stated_.notes)), given_.option("engine"),
          "plimsoll list engines");
    } else if (given_.has("engine")) {
      add("engine", {"engine"}, "plimsoll list engines",
          [&](const std::string& text) { return scalar(newest_engine(text, *catalogue_, stated_.notes)); });
    } else if (fills_up_) {
      put("engine", newest_engine(std::string(kDefaultEngine), *catalogue_, stated_.notes), "",
          "plimsoll list engines");
    }
    add("dtype", {"dtype", "dtype"}, "type of the weights: bf16, fp16, fp8, int4, nvfp4, mxfp4");
  }

  void deployment() {
    add("tp", {"deployment.tp", "tp"}, "GPUs per replica");
    add("pp", {"deployment.pp", "pp"}, "pipeline stages per replica");
    add("replicas", {"deployment.replicas", "replicas"}, "copies of the model");
  }

  void load() {
    const bool rate = given_.has("rate"), users = given_.has(given_.users());
    if (rate && users)
      throw InputError(fmt::format(
          "--rate and --{} exclude each other: requests either arrive on their own, or users wait for answers",
          given_.users()));
    if (rate) {
      add("rate", {load_path("rate", "poisson")}, "requests at random times",
          [](const std::string& text) { return with_unit(text, "/s"); });
    } else if (users) {
      add(given_.users(), {load_path("concurrency", "closed_loop")},
          "users that send their next request when the last is answered");
    } else if (given_.has("trace")) {
      put(std::string(kTraceLoad), study::json_quoted(given_.text("trace")), given_.option("trace"),
          "arrivals and lengths as recorded");
    } else if (kind_ == StudyOptions::memory && fills_up_) {
      put("workload.load.closed_loop.concurrency", "1", "", "");
    } else if (fills_up_) {
      take("rate", load_path("rate", "poisson"), "4 /s", "requests at random times");
    }
    for (StatedValue& list : lists_) {  // in a sweep this key has another name
      if (list.path == "sweep.workload.load.poisson.rate") list.path = "sweep.workload.rate";
      if (list.path == "sweep.workload.load.closed_loop.concurrency") list.path = "sweep.workload.concurrency";
    }
  }

  [[nodiscard]] static std::string load_path(const char* field, const char* kind) {
    return fmt::format("workload.load.{}.{}", kind, field);
  }

  void lengths() {
    const bool other_load = given_.has("rate") || given_.has(given_.users());
    if (given_.has("trace") && other_load) {
      if (given_.has("input") || given_.has("output"))
        throw InputError("--trace states the lengths: it excludes --input and --output");
      put(std::string(kTraceLengths), study::json_quoted(given_.text("trace")), given_.option("trace"),
          "lengths as recorded");
    }
    add("input", {"workload.lengths.input"}, "tokens of a prompt; or {lognormal: {mean: 1000, cv: 1}}");
    add("output", {"workload.lengths.output"}, "tokens of an answer");
    if (fills_up_ && !given_.has("trace")) {
      constexpr const char* kInput = "1000";
      constexpr const char* kOutput = "300";
      if (!given_.has("input"))
        take("input", "workload.lengths.input", kInput, "tokens of a prompt; or {lognormal: {mean: 1000, cv: 1}}");
      if (!given_.has("output")) take("output", "workload.lengths.output", kOutput, "tokens of an answer");
    }
  }

  void take(const char* option, const std::string& path, const char* yaml, const char* comment) {
    put(path, yaml, "", comment);
    stated_.notes.push_back(fmt::format("--{} not stated: using {}", option, yaml));
  }

  void rest() {
    add("requests", {"workload.requests"}, "number of requests; default 1000");
    if (given_.has("slo")) {
      for (const std::string& limit : items_of(given_.text("slo"))) slo(limit);
    }
    if (given_.has("objective"))
      put("search.objective", scalar(given_.text("objective")), given_.option("objective"), "what plan optimises");
  }

  // Parses "p99_ttft=1s", also with <, <= or a colon between.
  void slo(const std::string& text) {
    const std::size_t end = text.find_first_of("=<>: ");
    const std::size_t value = text.find_first_not_of("=<>: ", end);
    if (end == 0 || end == std::string::npos || value == std::string::npos) {
      throw InputError(fmt::format("--slo: found '{}', expected limits such as p99_ttft=1s,p99_tpot=50ms", text));
    }
    put("slo." + text.substr(0, end), scalar(with_unit(text.substr(value), "")), "--slo " + text, "");
  }

  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> absent;
    if (kind_ == StudyOptions::file_of_its_own) return absent;
    if (!given_.has("model")) absent.emplace_back("--model");
    if (!given_.has("hardware")) absent.emplace_back("--hardware");
    if (kind_ == StudyOptions::memory) return absent;
    const bool loads = given_.has("rate") || given_.has(given_.users()) || given_.has("trace");
    if (!loads) absent.emplace_back("--rate (or --users, or --trace)");
    return absent;
  }

  [[nodiscard]] std::string title() const {
    if (is_flow(given_.text("hardware"))) return configs::canonical_name(given_.text("model"));
    if (!given_.has("model") || !given_.has("hardware")) return "my-study";
    return fmt::format("{} on {}",
                       std::filesystem::path(given_.text("model")).stem() == "config"
                           ? "own model"
                           : fmt::format("{}", fmt::join(items_of(given_.text("model")), ", ")),
                       fmt::join(items_of(given_.text("hardware")), ", "));
  }

  // By default one replica uses all GPUs, or as many as the model can be split over.
  void take_degree(std::size_t place) {
    const auto insert = [&](const std::string& yaml) {
      stated_.values.insert(stated_.values.begin() + static_cast<std::ptrdiff_t>(place),
                            StatedValue{"deployment.tp", yaml, "", "GPUs per replica"});
    };
    const auto several = [&](const char* option) {
      return given_.has(option) && items_of(given_.text(option)).size() > 1;
    };
    if (several("hardware") || several("model") || several("replicas")) {
      insert("max");
      return;
    }
    insert("1");
    const study::Study study(document_of(finish()), kCommandLine, {}, catalogue_);
    const study::PointSpec spec = study.point(0);
    std::int32_t stages = 1;
    for (std::size_t i = 0; i < study.point_count(); ++i) stages = std::max(stages, study.point(i).deployment.pp);
    std::int32_t tp = std::max(1, spec.hardware.count / stages / std::max(1, spec.deployment.replicas));
    while (tp > 1 && spec.shape && (spec.hardware.count % tp != 0 || !model::tp_problem(*spec.shape, tp).empty())) --tp;
    stated_.values[place].yaml = fmt::format("{}", tp);
    if (spec.hardware.count > 1) {
      stated_.notes.push_back(fmt::format("--tp not stated: using {} of {} GPUs per replica{}", tp * stages,
                                          spec.hardware.count, stages > 1 ? fmt::format(", tp {}", tp) : ""));
    }
  }

  // The new file states a default TP degree for `simulate`. `plan` would keep it, so the file adds an axis of the
  // search.
  void offer_degrees() {
    const study::Study study(document_of(finish()), kCommandLine, {}, catalogue_);
    std::int32_t most = 1;
    for (std::size_t i = 0; i < study.point_count(); ++i) most = std::max(most, study.point(i).hardware.count);
    if (most == 1) return;
    std::vector<std::int32_t> degrees;
    for (std::int32_t tp = 1; tp <= most; tp *= 2) degrees.push_back(tp);
    lists_.push_back({"search.tp", fmt::format("[{}]", fmt::join(degrees, ", ")), "", "plan tries each"});
  }

  [[nodiscard]] StatedStudy finish() const {
    StatedStudy all = stated_;
    all.values.insert(all.values.end(), lists_.begin(), lists_.end());
    // The keys of a map must be adjacent.
    std::stable_sort(all.values.begin(), all.values.end(),
                     [](const StatedValue& a, const StatedValue& b) { return rank(a) < rank(b); });
    return all;
  }

  static std::size_t rank(const StatedValue& value) {
    constexpr std::array<std::string_view, 10> kOrder = {"study",      "model",    "hardware", "engine", "dtype",
                                                         "deployment", "workload", "slo",      "sweep",  "search"};
    const std::string top = value.path.substr(0, value.path.find('.'));
    return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), top) - kOrder.begin());
  }

  Given given_;
  StudyOptions kind_;
  std::shared_ptr<const configs::Catalogue> catalogue_;
  bool fills_up_ = false;
  StatedStudy stated_;
  std::vector<StatedValue> lists_;
};

}  // namespace

void add_study_options(po::options_description& options, StudyOptions kind) {
  for (const Option& option : kOptions) {
    if (!takes(kind, option)) continue;
    options.add_options()(std::string(option.name).c_str(),
                          po::value<std::string>()->value_name(std::string(option.value)),
                          std::string(option.help).c_str());
  }
}

bool names_trace(const StatedValue& value) { return value.path == kTraceLoad || value.path == kTraceLengths; }

bool states_study(const Parsed& parsed) { return Given(parsed).any(); }

StatedStudy stated_study(const Parsed& parsed, const std::shared_ptr<const configs::Catalogue>& catalogue) {
  return Builder(parsed, catalogue).whole();
}

configs::Document document_of(const StatedStudy& stated) {
  Document document = Document::from_text("{}", kCommandLine);
  for (const StatedValue& value : stated.values)
    document.set(value.path, value.yaml, {value.option.empty() ? kCommandLine : value.option, 0, 0});
  return document;
}

namespace {

// Removes keys that would contradict or override the value at `path`.
void make_room(Document& document, const std::string& path) {
  const auto remove_all = [&](std::initializer_list<const char*> paths) {
    for (const char* const other : paths) document.remove(other);
  };
  document.remove("sweep." + path);
  if (path == "hardware") document.remove("search.instances");
  if (path == "dtype") document.remove("search.dtype");
  if (path == "deployment.tp") document.remove("search.tp");
  if (path == "deployment.pp") document.remove("search.pp");
  if (path == "deployment.replicas")
    remove_all({"search.replicas", "search.replicas_per_instance", "search.instance_count"});
  if (path.starts_with("workload.load."))
    remove_all({"workload.load", "sweep.workload.load", "sweep.workload.rate", "sweep.workload.concurrency"});
  if (path == "workload.lengths.trace") document.remove("workload.lengths");
  if (path == "workload.lengths.input" || path == "workload.lengths.output") document.remove("workload.lengths.trace");
}

}  // namespace

configs::Document document_with_options(const std::string& file, const Parsed& parsed,
                                        const std::shared_ptr<const configs::Catalogue>& catalogue,
                                        std::vector<std::string>& notes) {
  return with_options(Document::from_file(file), parsed, catalogue, notes);
}

configs::Document with_options(configs::Document document, const Parsed& parsed,
                               const std::shared_ptr<const configs::Catalogue>& catalogue,
                               std::vector<std::string>& notes) {
  StatedStudy stated = Builder(parsed, catalogue).given_alone();
  if (!stated.values.empty() && !document.root().is_map()) document.root().fail("expected a map of a study's keys");
  if (Given(parsed).has("slo")) document.remove("slo");
  for (const StatedValue& value : stated.values) make_room(document, value.path);
  for (const StatedValue& value : stated.values) {
    // A file name on the command line is relative to the current folder, not to the study.
    const std::string yaml = names_trace(value)
                                 ? study::json_quoted(std::filesystem::absolute(Given(parsed).text("trace")).string())
                                 : value.yaml;
    document.set(value.path, yaml, {value.option, 0, 0});
  }
  notes = std::move(stated.notes);
  return document;
}

namespace {

using Parts = std::vector<std::string>;

// Splits a path. "sweep.workload.rate" keeps its path in one key, as in study files.
Parts parts_of(const std::string& path) {
  if (path.starts_with("sweep.")) return {"sweep", path.substr(6)};
  Parts parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string with_comment(const std::string& line, const std::string& comment, std::size_t column = 38) {
  return comment.empty() ? line + '\n' : fmt::format("{:<{}} # {}\n", line, column, comment);
}

bool states(const StatedStudy& stated, std::string_view prefix) {
  return std::any_of(stated.values.begin(), stated.values.end(),
                     [&](const StatedValue& value) { return value.path.starts_with(prefix); });
}

// Lists keys that a reader may want next, commented out.
std::string further_keys(const StatedStudy& stated) {
  std::string text;
  const auto offer = [&](const char* key, const std::string& line, const char* comment) {
    if (!states(stated, key)) text += with_comment("# " + line, comment, 50);
  };
  offer("dtype", "dtype: fp8", "type of the weights; default: the checkpoint's, else fp16");
  offer("limits", "limits: {timeout: 60 s}", "clients give up after this time");
  offer("slo", "slo: {p99_ttft: 1 s, p99_tpot: 50 ms}", "limits for tables and plan");
  if (states(stated, "workload.load.closed_loop"))
    offer("sweep", "sweep: {workload.concurrency: [1, 8, 32, 128]}", "a curve over the load");
  else if (!states(stated, "workload.load.trace"))
    offer("sweep", "sweep: {workload.rate: [1 /s, 2 /s, 4 /s, 8 /s]}", "a curve over the load");
  offer("search", "search: {tp: [1, 2, 4, 8], max_gpus: 16}", "what plan may vary; left out: tp and replicas");
  return text.empty() ? text : "\n# Further keys (docs/study-file.md has all):\n" + text;
}

}  // namespace

std::string commented_study(const StatedStudy& stated, const std::string& file) {
  std::string text = fmt::format(
      "# A study: which model on which hardware, under which load. Written by `plimsoll init`.\n"
      "#   plimsoll simulate {0}    latency and throughput\n"
      "#   plimsoll memory {0}      what fits\n"
      "#   plimsoll plan {0}        the cheapest deployment that meets the SLO\n",
      file);
  Parts open;  // the maps that contain the last line
  for (const StatedValue& value : stated.values) {
    Parts parts = parts_of(value.path);
    const std::string key = parts.back();
    parts.pop_back();
    std::size_t common = 0;
    while (common < std::min(open.size(), parts.size()) && open[common] == parts[common]) ++common;
    for (std::size_t i = common; i < parts.size(); ++i) text += fmt::format("{:{}}{}:\n", "", 2 * i, parts[i]);
    text += with_comment(fmt::format("{:{}}{}: {}", "", 2 * parts.size(), key, value.yaml), value.comment);
    open = std::move(parts);
  }
  return text + further_keys(stated);
}

}  // namespace plimsoll::cli
