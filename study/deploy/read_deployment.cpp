// SPDX-License-Identifier: Apache-2.0
// Reads manifests back. Fields become settings of a study. Fields that repeat a setting are compared with those that
// would be written for that study.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/text_file.h"
#include "model/error.h"
#include "study/deploy/deployment_manifests.h"
#include "study/deploy/products.h"
#include "study/output/deployment_flags.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Document;
using configs::Node;
using sched::Server;

// Splits a file at lines of "---" into documents. Each is parsed with as many empty lines before it as the file has
// lines, so that error messages give the right line.
std::vector<Node> documents_of(const std::string& file) {
  const std::string text = configs::read_text_file(file, "a manifest");
  std::vector<Node> documents;
  std::string part;
  bool has_text = false;
  std::size_t lines = 0;
  const auto close = [&] {
    if (has_text) documents.push_back(Document::from_text(part, file).root());
    part.assign(lines, '\n');
    has_text = false;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    ++lines;
    if (line == "---" || line == "---\r") {
      close();
    } else {
      part += line + '\n';
      const std::size_t first = line.find_first_not_of(" \t\r");
      has_text = has_text || (first != std::string::npos && line[first] != '#');
    }
    begin = end + 1;
  }
  close();
  return documents;
}

const Product& product_of(const std::vector<Node>& documents, const std::string& file) {
  for (const Product& product : products())
    if (product.owns(documents)) return product;
  std::vector<std::string_view> names;
  for (const Product& product : products()) names.push_back(product.name);
  throw InputError(Where{file, 1, 1}, fmt::format("found no manifest that can be read back; allowed: those of {}",
                                                  fmt::join(names, ", ")));
}

/// The content of the annotation kStudyKey.
struct Carried {
  Document study = Document::from_text("{}", "manifest");
  std::optional<Node> defaults;
  bool is_stated = false;
};

Carried carried_by(const Found& found) {
  Carried carried;
  if (!found.study) return carried;
  const Where& where = found.study->where;
  const std::string above(where.line > 0 ? where.line - 1 : 0, '\n');
  const Document document = Document::from_text(above + found.study->text, where.file);
  if (const auto study = inside(document.root(), "study")) carried.study = Document::of(*study);
  carried.defaults = inside(document.root(), "defaults");
  carried.is_stated = true;
  return carried;
}

std::string value_of(const std::vector<Token>& arguments, std::string_view name) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
    if (arguments[i].text == name) return arguments[i + 1].text;
  return {};
}

// Fills the study from the product's own fields, for a manifest without our annotation.
void guess_study(Server server, const FoundPool& pool, Document& study) {
  if (pool.model) study.set("model", Tree(pool.model->text).dump(), pool.model->where);
  const std::size_t colon = pool.image->text.rfind(":v");
  const std::string version = colon == std::string::npos ? "" : pool.image->text.substr(colon + 2);
  const std::size_t dot = version.find('.');
  if (dot == std::string::npos)
    throw InputError(
        pool.image->where,
        fmt::format("found image '{}' without a version, expected a tag such as :v0.12.0", pool.image->text));
  const std::string minor = version.substr(0, version.find('.', dot + 1));
  study.set("engine", fmt::format("{}-{}", server == Server::sglang ? "sglang" : "vllm", minor), pool.image->where);
  if (pool.node_type) study.set("hardware", Tree(pool.node_type->text).dump(), pool.node_type->where);
  const std::string dtype = value_of(pool.arguments, "--dtype"), quantised = value_of(pool.arguments, "--quantization");
  for (const auto& [word, name] :
       {std::pair("bfloat16", "bf16"), {"float16", "fp16"}, {"half", "fp16"}, {"float32", "fp32"}})
    if (dtype == word) study.set("dtype", name, pool.where);
  if (quantised == "fp8") study.set("dtype", "fp8", pool.where);
  if (value_of(pool.arguments, "--kv-cache-dtype").starts_with("fp8")) study.set("kv_dtype", "fp8", pool.where);
}

std::optional<Node> defaults_of(const Carried& carried, const std::string& pool) {
  return carried.defaults ? inside(*carried.defaults, pool) : std::nullopt;
}

PoolSettings settings_of(const FoundPool& pool, const Carried& carried, bool two) {
  PoolSettings settings{"deployment", "scheduler", defaults_of(carried, pool.name)};
  if (two) {
    settings.deployment += ".pools." + pool.name;
    settings.scheduler = settings.deployment + ".scheduler";
  }
  return settings;
}

void require_same(const Token& found, const std::string& given, std::string_view what) {
  if (found.text == given) return;
  throw InputError(found.where, fmt::format("found {} '{}', but the study that this file describes gives '{}'", what,
                                            found.text, given));
}

void compare_pool(const FoundPool& found, const Served& served, const Pool& pool, const Carried& carried) {
  // An engine profile is valid for every version that it was fitted to.
  const std::vector<std::string>& fitted = pool.spec->engine->versions;
  const bool is_fitted = std::any_of(fitted.begin(), fitted.end(), [&](const std::string& version) {
    return minor_of(version) == minor_of(pool.engine_version) && found.image->text == image_of(served.server, version);
  });
  // A release of Dynamo is numbered independently of its engines.
  const std::string own = pool.image.substr(0, pool.image.rfind('.')), theirs = found.image->text;
  const bool is_patch = served.server == Server::vllm && theirs.substr(0, theirs.rfind('.')) == own;
  if (!is_fitted && !is_patch) require_same(*found.image, pool.image, "image");
  if (found.model) require_same(*found.model, served_model(*pool.spec), "model");
  require_same(*found.gpus, fmt::format("{}", gpus_of(*pool.spec)), "GPUs");
  const std::optional<std::string> type = node_type(*pool.spec);
  if (found.node_type && type) require_same(*found.node_type, *type, "instance type");
  compare_options(options_of(found.arguments), server_options(served, pool), defaults_of(carried, pool.name));
  for (const auto& [name, value] : server_environment(served))
    for (const auto& [key, text] : found.environment)
      if (key.text == name) require_same({text, key.where}, value, name);
}

void compare(const Found& found, const Document& study, const Carried& carried,
             const std::shared_ptr<const configs::Catalogue>& catalogue) {
  Document whole = study;
  whole.set("workload", "{load: {closed_loop: {concurrency: 1}}, lengths: {input: 1, output: 1}, requests: 1}",
            Where{});
  const Study read(whole, found.where.file, {}, catalogue);
  const PointSpec spec = read.point(0);
  const Served served = served_of(spec, whole.root(), "");
  if (!served.refused.empty()) throw InputError(found.where, served.refused);
  for (const FoundPool& pool : found.pools)
    for (const Pool& own : served.pools)
      if (own.name == pool.name) compare_pool(pool, served, own, carried);
}

void require_pools(const Found& found) {
  const auto names = [&](std::string_view name) {
    return std::count_if(found.pools.begin(), found.pools.end(), [&](const FoundPool& p) { return p.name == name; });
  };
  const bool one = found.pools.size() == 1 && names("server") == 1;
  const bool two = found.pools.size() == 2 && names("prefill") == 1 && names("decode") == 1;
  if (!one && !two)
    throw InputError(found.where,
                     fmt::format("found {} kinds of servers, expected one, or one for prefill and one for decode",
                                 found.pools.size()));
}

}  // namespace

Document read_deployment(const std::string& file, std::shared_ptr<const configs::Catalogue> catalogue,
                         const std::string& hardware) {
  const std::vector<Node> documents = documents_of(file);
  const Found found = product_of(documents, file).read(documents);
  require_pools(found);
  const bool two = found.pools.size() == 2;
  const Server server = server_of_image(*found.pools.front().image);
  for (const FoundPool& pool : found.pools)
    if (server_of_image(*pool.image) != server) throw InputError(pool.image->where, "the pools run two products");
  const Carried carried = carried_by(found);
  Document study = carried.study;
  if (!carried.is_stated) guess_study(server, found.pools.back(), study);
  if (!hardware.empty()) study.set("hardware", hardware, Where{"--hardware " + hardware, 0, 0});
  if (!study.root().has("hardware") && !two)
    throw InputError(found.where, "the file states no hardware: add --hardware, such as --hardware 8xh100");
  for (const FoundPool& pool : found.pools) {
    const PoolSettings settings = settings_of(pool, carried, two);
    study.set(settings.deployment + ".replicas", pool.replicas->text, pool.replicas->where);
    if (pool.router) study.set(settings.deployment + ".router", pool.router->text, pool.router->where);
    read_options(server, options_of(pool.arguments), settings, study);
  }
  if (found.local_prefill && found.local_prefill->text != "never")
    study.set("deployment.local_prefill", found.local_prefill->text, found.local_prefill->where);
  compare(found, study, carried, catalogue);
  return study;
}

}  // namespace plimsoll::study::deploy
