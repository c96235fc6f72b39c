// SPDX-License-Identifier: Apache-2.0
// Reads accelerators, links and instances (configs/README.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "configs/catalogue.h"
#include "configs/text_file.h"
#include "model/kernel_file.h"

namespace plimsoll::configs {

namespace {

using Names = std::span<const std::string_view>;

std::string text_or(const Node& node, std::string_view key, const std::string& fallback = {}) {
  const auto found = node.find(key);
  return found ? found->as_string() : fallback;
}

FlopsPerSecond peak(const Node& node, std::string_view key) {
  const auto found = node.find(key);
  return found ? found->as_flops_per_second(1e9) : FlopsPerSecond(0);
}

std::vector<double> read_numbers(const Node& node, double least, double most) {
  std::vector<double> numbers;
  for (const Item& item : node.items()) numbers.push_back(item.value.as_number(least, most));
  return numbers;
}

// Calibration writes this table; validate_coefficients() checks its grid.
std::shared_ptr<const model::ResidualTable> read_residual(const Node& node) {
  static constexpr std::array<std::string_view, 3> kKeys = {"x", "y", "log_ratio"};
  constexpr double kMaxLog2 = 64, kMaxLogRatio = 10;
  node.require_known_keys(kKeys);
  auto table = std::make_shared<model::ResidualTable>();
  table->x = read_numbers(node.at("x"), 0, kMaxLog2);
  table->y = read_numbers(node.at("y"), 0, kMaxLog2);
  table->log_ratio = read_numbers(node.at("log_ratio"), -kMaxLogRatio, kMaxLogRatio);
  return table;
}

// Only products have a kernel of their own for one row.
model::OpCoefficients read_coefficients(const Node& node, bool is_product = false) {
  static constexpr std::array<std::string_view, 6> kKeys = {"compute", "memory",   "p",
                                                            "t0",      "residual", "one_row_memory"};
  node.require_known_keys(Names(kKeys).first(is_product ? 6 : 5));
  node.require_keys(Names(kKeys).first(4));
  model::OpCoefficients c;
  c.compute_efficiency = node.at("compute").as_number(1e-3, 1);
  c.memory_efficiency = node.at("memory").as_number(1e-3, 1);
  c.p = node.at("p").as_number(1, 64);
  c.t0 = node.at("t0").as_seconds(0, 1);
  if (const auto residual = node.find("residual")) c.residual = read_residual(*residual);
  if (const auto memory = node.find("one_row_memory")) c.one_row_memory = memory->as_number(1e-3, 1);
  return c;
}

// Checks a date: "2026-07", later than the previous one.
void check_date(const Item& price, const std::vector<Price>& earlier) {
  const std::string& date = price.key;
  bool is_month = date.size() == 7 && date[4] == '-';
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U, 6U}) is_month = is_month && date[i] >= '0' && date[i] <= '9';
  if (!is_month)
    throw InputError(price.key_where, fmt::format("found '{}', expected a month, as in \"2026-07\"", date));
  if (!earlier.empty() && date <= earlier.back().date)
    throw InputError(price.key_where,
                     fmt::format("{} comes after {}; expected the oldest price first", date, earlier.back().date));
}

std::vector<Price> read_prices(const Node& node) {
  std::vector<Price> prices;
  for (const Item& item : node.items()) {
    check_date(item, prices);
    prices.push_back({item.key, item.value.as_usd().value});
  }
  return prices;
}

model::AllReduceSegment read_segment(const Node& node) {
  static constexpr std::array<std::string_view, 2> kSegment = {"latency", "bandwidth"};
  node.require_known_keys(kSegment);
  return {node.at("latency").as_seconds(0, 1), node.at("bandwidth").as_bytes_per_second(1)};
}

// Reads "512 6.05, 1024 6.01": bytes and microseconds. It is a single scalar because parsing a list of lists takes a
// millisecond.
std::vector<model::AllReducePoint> read_points(const Node& node) {
  constexpr double kMaxBytes = 1e12, kMaxMicroseconds = 1e8;
  std::string text = node.as_string();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::vector<model::AllReducePoint> points;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    begin = end + 1;
    // min() also converts npos to the end, so that a missing number is parsed as empty text.
    const std::size_t first = std::min(pair.find_first_not_of(' '), pair.size());
    const std::size_t space = std::min(pair.find(' ', first), pair.size());
    const std::optional<double> bytes = parse_number(std::string_view(pair).substr(first, space - first));
    const std::optional<double> time = parse_number(std::string_view(pair).substr(std::min(space + 1, pair.size())));
    if (!bytes || !time || !(*bytes > 0) || *bytes > kMaxBytes || !(*time > 0) || *time > kMaxMicroseconds) {
      node.fail(fmt::format("found '{}', expected bytes and microseconds, as in 512 6.05", shortened(pair)));
    }
    if (!points.empty() && *bytes <= points.back().bytes.value)
      node.fail(fmt::format("found {} bytes after {:.0f}, expected growing sizes", *bytes, points.back().bytes.value));
    points.push_back({Bytes(*bytes), Seconds(*time * 1e-6)});
  }
  return points;
}

// Reads either segments, or measured sizes with their times.
model::AllReduceCurve read_curve(const Node& node) {
  static constexpr std::array<std::string_view, 5> kCurve = {"ranks", "kernel", "segments", "points", "fuses_norm"};
  node.require_known_keys(kCurve);
  model::AllReduceCurve curve;
  curve.ranks = static_cast<std::int32_t>(node.at("ranks").as_integer(2, 4096));
  curve.kernel = text_or(node, "kernel");
  if (const auto fuses = node.find("fuses_norm")) curve.fuses_norm = fuses->as_bool();
  // If there are measured points, segments are not needed: points are more precise.
  if (const auto points = node.find("points")) {
    curve.points = read_points(*points);
    return curve;
  }
  for (const Item& segment : node.at("segments").items()) curve.segments.push_back(read_segment(segment.value));
  if (curve.segments.empty()) node.at("segments").fail("an all-reduce curve needs at least one segment");
  return curve;
}

model::GraphReplay read_graph(const Node& node) {
  static constexpr std::array<std::string_view, 3> kKeys = {"kernel_gap", "pointwise_t0", "source"};
  node.require_known_keys(kKeys);
  node.require_keys(kKeys);
  (void)node.at("source").as_string();  // required but not kept: figures without a source are refused
  return {node.at("kernel_gap").as_seconds(0, 1), node.at("pointwise_t0").as_seconds(0, 1)};
}

void read_efficiency(const Node& node, model::Accelerator& a) {
  static constexpr std::array<std::string_view, 9> kKeys = {"gemm",
                                                            "moe_gemm",
                                                            "prefill_attention",
                                                            "decode_attention",
                                                            "pointwise",
                                                            "kernel_gap",
                                                            "source",
                                                            "pointwise_kinds",
                                                            "graph"};
  node.require_known_keys(kKeys);
  // All but `graph`, which only GPUs have, and `pointwise_kinds`, which only calibrations of this machine write.
  node.require_keys(Names(kKeys).first(7));
  if (const auto kinds = node.find("pointwise_kinds")) {
    static constexpr std::array<std::string_view, 8> kKinds = {"embed",      "norm",  "residual_add", "rope_append",
                                                               "activation", "route", "combine",      "sample"};
    kinds->require_known_keys(kKinds);
    for (const Item& item : kinds->items()) a.pointwise_kinds.emplace(item.key, read_coefficients(item.value));
  }
  for (std::size_t i = 0; i < model::kOpClasses; ++i)
    a.coefficients[i] = read_coefficients(node.at(kKeys[i]), i == static_cast<std::size_t>(model::OpClass::gemm));
  a.kernel_gap = node.at("kernel_gap").as_seconds(0, 1);
  if (const auto graph = node.find("graph")) a.graph = read_graph(*graph);
  a.fit_source = node.at("source").as_string();
}

// A kernel file must be in the folder of the accelerator's file. It is a plain name, so that a catalogue folder can be
// moved as a whole.
std::shared_ptr<const model::KernelFile> open_kernels(const Node& node) {
  const std::string name = node.as_string();
  if (name.empty() || name.find('/') != std::string::npos) node.fail("expected the name of a file in this folder");
  const std::string here = node.where().file;
  const std::size_t slash = here.rfind('/');
  auto file =
      std::make_shared<const model::KernelFile>(slash == std::string::npos ? name : here.substr(0, slash + 1) + name);
  const std::string& accelerator = file->head().accelerator;
  if (!name.starts_with(accelerator + ".") || !name.ends_with(".kernels"))
    node.fail(fmt::format("{} holds kernels of another accelerator, {}", file->path(), accelerator));
  return file;
}

// The accelerator's file lists the ops that the kernel file must contain, so that a missing op is reported by name.
std::shared_ptr<const model::KernelFile> read_kernels(const Node& node) {
  static constexpr std::array<std::string_view, 8> kKeys = {
      "file", "date", "source", "command", "ops", "roofline_error", "in_fit_error", "out_of_fit_error"};
  static constexpr std::array<std::string_view, model::kKernelOps> kOps = {"gemm", "moe", "prefill_attention",
                                                                           "decode_attention"};
  node.require_known_keys(kKeys);
  auto file = open_kernels(node.at("file"));
  for (const Item& op : node.at("ops").items()) {
    const auto wanted = static_cast<model::KernelOp>(op.value.as_one_of(kOps));
    if (!file->has(wanted))
      op.value.fail(fmt::format("{} holds no measured {}: calibrate again", file->path(), model::name(wanted)));
  }
  return file;
}

void read_own_kernels(const Node& node, model::Accelerator& a) {
  static constexpr std::array<std::string_view, 4> kKeys = {"file", "date", "source", "command"};
  for (const Item& item : node.items()) {
    item.value.require_known_keys(kKeys);
    item.value.require_keys(Names(kKeys).first(3));
    a.own_kernels.emplace(item.key, open_kernels(item.value.at("file")));
  }
}

constexpr std::array<std::string_view, 6> kPeakTypes = {"fp32", "fp16", "bf16", "fp8", "int8", "fp4"};

// `bandwidth` and `peak` are short forms of other keys, allowed in files and in studies.
bool is_short(const Node& root) { return root.has("bandwidth") || root.has("peak"); }

// Returns the node with its keys in their long form. With `both_16_bit`, a single 16-bit peak applies to both types.
Document in_full(const Node& root, bool both_16_bit) {
  Document file = Document::from_text("{calibrated: false}", root.where().file);
  const auto set = [&file](const std::string& key, const Node& value) {
    if (key != "calibrated" && file.root().has(key)) value.fail(fmt::format("{} is stated twice", key));
    file.set(key, value);
  };
  for (const Item& item : root.items()) {
    if (item.key != "peak") {
      set(item.key == "bandwidth" ? "memory_bandwidth" : item.key, item.value);
    } else if (item.value.is_map()) {
      item.value.require_known_keys(kPeakTypes);
      for (const Item& type : item.value.items()) set(type.key, type.value);
    } else {
      set("bf16", item.value);
    }
  }
  const bool one_figure = root.has("peak") && !root.at("peak").is_map();
  if (!both_16_bit && !one_figure) return file;
  for (const auto& [given, other] : {std::pair{"bf16", "fp16"}, std::pair{"fp16", "bf16"}})
    if (file.root().has(given) && !file.root().has(other)) file.set(other, file.root().at(given));
  return file;
}

}  // namespace

model::Accelerator read_accelerator_alone(const Node& root, const std::string& id) {
  static constexpr std::array<std::string_view, 24> kKeys = {"bandwidth",
                                                             "peak",
                                                             "name",
                                                             "aliases",
                                                             "vendor",
                                                             "form",
                                                             "fp32",
                                                             "fp16",
                                                             "bf16",
                                                             "fp8",
                                                             "int8",
                                                             "fp4",
                                                             "memory",
                                                             "memory_visible",
                                                             "memory_bandwidth",
                                                             "last_level_cache",
                                                             "host_link",
                                                             "interconnect",
                                                             "efficiency",
                                                             "kernels",
                                                             "own_kernels",
                                                             "calibrated",
                                                             "note",
                                                             "source"};
  static constexpr std::array<std::string_view, 3> kNeeded = {"memory", "memory_bandwidth", "source"};
  root.require_known_keys(kKeys);
  if (is_short(root)) return read_accelerator_alone(in_full(root, false).root(), id);
  const bool has_peak = root.has("fp32") || root.has("fp16") || root.has("bf16");
  root.require_keys(kNeeded, has_peak ? "" : "a peak, one of fp16, bf16, fp32");
  model::Accelerator a;
  a.id = id;
  a.vendor = text_or(root, "vendor");
  a.fp32 = peak(root, "fp32");
  a.fp16 = peak(root, "fp16");
  a.bf16 = peak(root, "bf16");
  a.fp8 = peak(root, "fp8");
  a.int8 = peak(root, "int8");
  a.fp4 = peak(root, "fp4");
  if (a.fp32.value + a.fp16.value + a.bf16.value <= 0) root.fail("expected a peak: one of fp16, bf16, fp32");
  a.memory = root.at("memory").as_bytes(1e6);
  const auto visible = root.find("memory_visible");
  a.memory_visible = visible ? visible->as_bytes(1e6) : a.memory;
  a.memory_bandwidth = root.at("memory_bandwidth").as_bytes_per_second(1e6);
  if (const auto cache = root.find("last_level_cache")) a.last_level_cache = cache->as_bytes();
  if (const auto link = root.find("host_link")) a.host_link = link->as_bytes_per_second();
  a.default_interconnect = text_or(root, "interconnect");
  if (const auto efficiency = root.find("efficiency")) read_efficiency(*efficiency, a);
  const auto calibrated = root.find("calibrated");
  a.calibrated = calibrated && calibrated->as_bool();
  a.source = root.at("source").as_string();
  if (const std::string problem = model::validate_coefficients(a); !problem.empty())
    root.at("efficiency").fail(problem);
  return a;
}

void read_estimates(const Node& root, model::Accelerator& a) {
  static constexpr std::array<std::string_view, 1> kKeys = {"efficiency"};
  root.require_known_keys(kKeys);
  read_efficiency(root.at("efficiency"), a);
}

// Reads {name: …, memory: …, bandwidth: …, peak: {fp16: …}} from a study: all keys of a catalogue file except those for
// measurements.
model::Accelerator read_inline_accelerator(const Node& node) {
  static constexpr std::array<std::string_view, 19> kKeys = {
      "name",       "vendor", "memory", "memory_visible", "bandwidth", "memory_bandwidth", "peak",      "fp32",
      "fp16",       "bf16",   "fp8",    "int8",           "fp4",       "last_level_cache", "host_link", "interconnect",
      "efficiency", "note",   "source"};
  node.require_known_keys(kKeys);
  // A single 16-bit peak applies to both types, as on accelerators that compute in both.
  Document file = in_full(node, true);
  if (!node.has("source")) file.set("source", "stated in the study", node.where());
  std::vector<std::string_view> missing;
  const bool has_peak = file.root().has("fp32") || file.root().has("fp16") || file.root().has("bf16");
  if (!file.root().has("memory")) missing.emplace_back("memory");
  if (!file.root().has("memory_bandwidth")) missing.emplace_back("bandwidth");
  if (!has_peak) missing.emplace_back("peak");
  if (!missing.empty())
    node.fail(
        fmt::format("missing: {}; write for example {{name: my-gpu, memory: 80 GB, bandwidth: 2 TB/s, peak: {{bf16: "
                    "400 TFLOP/s}}}}",
                    fmt::join(missing, ", ")));
  const std::string name = node.has("name") ? canonical_name(node.at("name").as_string()) : "own accelerator";
  return read_accelerator_alone(file.root(), name);
}

model::Accelerator read_accelerator(const Node& root, const std::string& id) {
  model::Accelerator a = read_accelerator_alone(root, id);
  if (const auto kernels = root.find("kernels")) a.kernels = read_kernels(*kernels);
  if (const auto own = root.find("own_kernels")) read_own_kernels(*own, a);
  return a;
}

model::Interconnect read_interconnect(const Node& root, const std::string& id) {
  static constexpr std::array<std::string_view, 6> kKeys = {"name",           "aliases",    "kind",
                                                            "unidirectional", "all_reduce", "source"};
  static constexpr std::array<std::string_view, 4> kKinds = {"none", "nvswitch", "nvlink", "pcie"};
  root.require_known_keys(kKeys);
  model::Interconnect link;
  static constexpr std::array<std::string_view, 3> kNeeded = {"kind", "unidirectional", "source"};
  root.require_keys(kNeeded);
  link.id = id;
  link.kind = static_cast<model::LinkKind>(root.at("kind").as_one_of(kKinds));
  link.unidirectional = root.at("unidirectional").as_bytes_per_second(link.kind == model::LinkKind::none ? 0 : 1e6);
  link.source = root.at("source").as_string();
  const auto curves = root.find("all_reduce");
  if (!curves) return link;
  for (const Item& item : curves->items()) {
    model::AllReduceCurve curve = read_curve(item.value);
    if (!link.all_reduce.empty() && curve.kernel == link.all_reduce.back().kernel &&
        curve.ranks <= link.all_reduce.back().ranks)
      item.value.at("ranks").fail(fmt::format("found {} after {}, expected curves by growing ranks", curve.ranks,
                                              link.all_reduce.back().ranks));
    link.all_reduce.push_back(std::move(curve));
  }
  return link;
}

Instance read_instance(const Node& root, const std::string& id) {
  static constexpr std::array<std::string_view, 12> kKeys = {
      "name",   "aliases", "cloud",  "accelerator", "count", "interconnect", "usd_per_hour", "sagemaker_usd_per_hour",
      "region", "note",    "source", "vcpus"};
  root.require_known_keys(kKeys);
  Instance i;
  static constexpr std::array<std::string_view, 4> kNeeded = {"cloud", "accelerator", "count", "source"};
  root.require_keys(kNeeded);
  i.id = text_or(root, "name", id);
  i.cloud = root.at("cloud").as_string();
  i.accelerator = root.at("accelerator").as_string();
  i.count = static_cast<std::int32_t>(root.at("count").as_integer(1, 4096));
  i.interconnect = text_or(root, "interconnect");
  if (const auto node = root.find("usd_per_hour")) i.on_demand = read_prices(*node);
  if (const auto node = root.find("sagemaker_usd_per_hour")) {
    const std::vector<Price> prices = read_prices(*node);
    if (!prices.empty()) i.sagemaker = prices.back();
  }
  i.region = text_or(root, "region");
  i.note = text_or(root, "note");
  i.source = root.at("source").as_string();
  return i;
}

}  // namespace plimsoll::configs
