// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/engine_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "model/error.h"
#include "sched/policy_config.h"
#include "study/output/deployment_flags.h"
#include "study/run/resolve.h"

namespace plimsoll::study::deploy {
namespace {

using configs::Document;
using configs::Node;
using sched::PolicyConfig;
using sched::Server;

/// How an option states a setting.
enum class Form : unsigned char {
  value,
  pair,     // --x or --no-x
  negated,  // present: the setting is false
  compared  // expresses no setting; its value must equal the written one
};

struct Row {
  std::string_view name, key;  // key: below scheduler; or deployment.tp, deployment.pp
  Form form = Form::value;
  std::string (*value)(const PointSpec& spec, std::int32_t minor);  // empty: not written
};

template <class T>
std::string text_of(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text_if(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}
std::string switch_text(bool on) { return on ? "true" : "false"; }

std::int64_t longest_of(const PointSpec& spec) { return served_length(spec).value_or(longest_sequence(spec)); }

std::string quantisation_of(const PointSpec& spec, std::int32_t) {
  // An 8-bit checkpoint states its own quantisation method, so the option is left out.
  const bool own = spec.shape && spec.shape->checkpoint.has_value();
  return spec.weight_dtype == model::DType::fp8 && !own ? "fp8" : "";
}

std::string fraction_of(const PointSpec& spec, std::int32_t) {
  return text_of(spec.policy.mem_fraction.value_or(spec.engine->memory_fraction));
}

std::string graphs_of(const PointSpec& spec, std::int32_t) {
  if (spec.engine->graph_sizes.empty()) return {};
  return fmt::format("{{\"cudagraph_capture_sizes\":[{}]}}", fmt::join(spec.engine->graph_sizes, ","));
}

constexpr std::string_view kKvTransfer = "--kv-transfer-config", kBlockCount = "num_gpu_blocks_override";
constexpr std::int32_t kReservesFull = 19;

std::string whole_pool(const PointSpec& spec, std::int32_t) {
  if (!spec.policy.kv_blocks) return {};
  return text_of(*spec.policy.kv_blocks + sched::policy_info(spec.policy.policy).unusable_blocks);
}

constexpr std::array<Row, 17> kVllm = {{
    {"--tensor-parallel-size", "deployment.tp", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.deployment.tp); }},
    {"--pipeline-parallel-size", "deployment.pp", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.deployment.pp); }},
    {"--dtype", "", Form::compared, [](const PointSpec& s, std::int32_t) { return served_dtype(s.weight_dtype); }},
    {"--quantization", "", Form::compared, quantisation_of},
    {"--kv-cache-dtype", "", Form::compared,
     [](const PointSpec& s, std::int32_t) { return std::string(s.kv_dtype == model::DType::fp8 ? "fp8" : "auto"); }},
    {"--max-model-len", "max_total", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(longest_of(s)); }},
    {"--max-num-seqs", "max_running", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(sched::resolve_limits(s.policy).max_running); }},
    {"--max-num-batched-tokens", "step_token_budget", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(sched::resolve_limits(s.policy).step_tokens); }},
    {"--gpu-memory-utilization", "mem_fraction", Form::value, fraction_of},
    {"--block-size", "block_size", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(sched::block_tokens(s.policy)); }},
    {"--num-gpu-blocks-override", kBlockCount, Form::value, whole_pool},
    {"--scheduling-policy", "scheduling", Form::value,
     [](const PointSpec& s, std::int32_t) {
       return std::string(s.policy.order == sched::Order::priority ? "priority" : "fcfs");
     }},
    {"--enable-prefix-caching", "prefix_caching", Form::pair,
     [](const PointSpec& s, std::int32_t) { return switch_text(s.policy.prefix_caching.value_or(false)); }},
    {"--enable-chunked-prefill", "chunked", Form::pair,
     [](const PointSpec& s, std::int32_t) { return switch_text(s.policy.chunked.value_or(true)); }},
    {"--long-prefill-token-threshold", "long_prefill_threshold", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.policy.long_prefill_threshold.value_or(0)); }},
    {"--async-scheduling", "async_scheduling", Form::pair,
     [](const PointSpec& s, std::int32_t) { return switch_text(s.policy.async_scheduling.value_or(false)); }},
    {"--scheduler-reserve-full-isl", "reserve_full_sequence", Form::pair,
     [](const PointSpec& s, std::int32_t minor) {
       return minor < kReservesFull ? std::string() : switch_text(s.policy.whole_sequence_must_fit());
     }},
}};

constexpr std::int64_t kMaxPrefillTokens = 16384;  // SGLang's --max-prefill-tokens

std::string chunk_of(const PointSpec& spec, std::int32_t) {
  if (!spec.policy.chunked.value_or(true)) return "-1";
  return text_of(sched::resolve_limits(spec.policy).chunk_tokens);
}

std::string prefill_tokens_of(const PointSpec& spec) {
  const PolicyConfig& p = spec.policy;
  if (!p.chunked.value_or(true)) return text_of(sched::resolve_limits(p).prefill_tokens);
  return text_of(p.prefill_token_budget.value_or(kMaxPrefillTokens));
}

constexpr std::array<Row, 18> kSglang = {{
    {"--tp-size", "deployment.tp", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.deployment.tp); }},
    {"--pp-size", "deployment.pp", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.deployment.pp); }},
    {"--dtype", "", Form::compared, [](const PointSpec& s, std::int32_t) { return served_dtype(s.weight_dtype); }},
    {"--quantization", "", Form::compared, quantisation_of},
    {"--kv-cache-dtype", "", Form::compared,
     [](const PointSpec& s, std::int32_t) {
       return std::string(s.kv_dtype == model::DType::fp8 ? "fp8_e4m3" : "auto");
     }},
    {"--context-length", "max_total", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(longest_of(s)); }},
    {"--max-running-requests", "max_running", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(sched::resolve_limits(s.policy).max_running); }},
    {"--max-queued-requests", "queue_limit", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_if(s.policy.queue_limit); }},
    {"--chunked-prefill-size", "chunked_prefill_size", Form::value, chunk_of},
    {"--max-prefill-tokens", "prefill_token_budget", Form::value,
     [](const PointSpec& s, std::int32_t) { return prefill_tokens_of(s); }},
    {"--mem-fraction-static", "mem_fraction", Form::value, fraction_of},
    {"--page-size", "block_size", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(sched::block_tokens(s.policy)); }},
    {"--max-total-tokens", "kv_token_budget", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_if(s.policy.kv_token_budget); }},
    {"--schedule-policy", "", Form::compared,
     [](const PointSpec& s, std::int32_t) {
       return std::string(s.policy.prefix_caching.value_or(false) ? "lpm" : "fcfs");
     }},
    {"--schedule-conservativeness", "conservativeness", Form::value,
     [](const PointSpec& s, std::int32_t) { return text_of(s.policy.conservativeness.value_or(1.0)); }},
    {"--scheduler-recv-interval", "scheduler_recv_interval", Form::value,
     [](const PointSpec& s, std::int32_t) {
       return s.policy.scheduler_recv_interval > 1 ? text_of(s.policy.scheduler_recv_interval) : std::string();
     }},
    {"--disable-radix-cache", "prefix_caching", Form::negated,
     [](const PointSpec& s, std::int32_t) { return switch_text(s.policy.prefix_caching.value_or(false)); }},
    {"--num-reserved-decode-tokens", "reserved_decode_tokens", Form::value,
     [](const PointSpec& s, std::int32_t) {
       constexpr std::int64_t kReserved = 512;
       return s.prefill ? text_of(s.policy.reserved_decode_tokens.value_or(kReserved)) : std::string();
     }},
}};

std::span<const Row> rows_of(Server server) {
  if (server == Server::sglang) return kSglang;
  return kVllm;
}

void add_option(const Row& row, const std::string& value, std::vector<ServerOption>& options) {
  switch (row.form) {
    case Form::pair:
      options.push_back({value == "true" ? std::string(row.name) : "--no-" + std::string(row.name.substr(2)), {}});
      return;
    case Form::negated:
      if (value == "false") options.push_back({std::string(row.name), {}});
      return;
    case Form::value:
    case Form::compared: options.push_back({std::string(row.name), value}); return;
  }
}

// The options for failed loads and for cross-layer blocks exist from this version on.
constexpr std::int32_t kLoadFailureOption = 16;

std::string kv_transfer(const load::TransferConfig& transfer, std::int32_t minor) {
  nlohmann::ordered_json config = {{"kv_connector", "NixlConnector"}, {"kv_role", "kv_both"}};
  if (minor >= kLoadFailureOption) {
    config["kv_load_failure_policy"] = load::kLoadFailureNames[static_cast<std::size_t>(transfer.load_failure)];
    config["kv_connector_extra_config"] = {
        {"enable_cross_layers_blocks", transfer.layout == load::KvLayout::packed ? "True" : "False"}};
  }
  return config.dump();
}

void add_transfer(const Served& served, const Pool& pool, std::vector<ServerOption>& options) {
  if (!served.has_pools()) return;
  if (served.server == Server::vllm) {
    options.push_back({std::string(kKvTransfer), kv_transfer(served.spec->transfer, minor_of(pool.engine_version))});
    return;
  }
  options.push_back({"--disaggregation-mode", pool.role == sched::Role::prefill ? "prefill" : "decode"});
  options.push_back({"--disaggregation-transfer-backend", "nixl"});
  options.push_back({"--disaggregation-bootstrap-port", "8998"});
}

std::string lacks(std::string_view product, std::string_view key) {
  return fmt::format("{} has no option for scheduler.{}", product, key);
}

}  // namespace

std::vector<ServerOption> server_options(const Served& served, const Pool& pool) {
  std::vector<ServerOption> options;
  const std::int32_t minor = minor_of(pool.engine_version);
  for (const Row& row : rows_of(served.server)) {
    const std::string value = row.value(*pool.spec, minor);
    if (!value.empty()) add_option(row, value, options);
  }
  const std::string graphs = served.server == Server::vllm ? graphs_of(*pool.spec, minor) : "";
  if (!graphs.empty()) options.push_back({"--compilation-config", graphs});
  add_transfer(served, pool, options);
  return options;
}

std::vector<std::string> arguments_of(const std::vector<ServerOption>& options) {
  std::vector<std::string> arguments;
  for (const ServerOption& option : options) {
    arguments.push_back(option.name);
    if (option.value) arguments.push_back(*option.value);
  }
  return arguments;
}

std::vector<std::pair<std::string, std::string>> server_environment(const Served& served) {
  if (!served.has_pools() || served.server != Server::vllm) return {};
  std::vector<std::pair<std::string, std::string>> environment = {
      {"VLLM_NIXL_SIDE_CHANNEL_HOST", std::string(kPodAddress)}, {"VLLM_NIXL_SIDE_CHANNEL_PORT", "5600"}};
  // From this version on, KV is leased, and heartbeats renew the lease until the KV is read.
  constexpr std::int32_t kLeases = 24;
  const auto hold = std::llround(static_cast<double>(served.spec->transfer.hold) * 1e-9);
  if (minor_of(served.decode().engine_version) < kLeases)
    environment.emplace_back("VLLM_NIXL_ABORT_REQUEST_TIMEOUT", fmt::format("{}", hold));
  return environment;
}

std::vector<std::pair<std::string, std::int64_t>> unstated_options(const Pool& pool) {
  std::vector<std::pair<std::string, std::int64_t>> unstated;
  const PolicyConfig& p = pool.spec->policy;
  if (!p.max_total) unstated.emplace_back("max_total", longest_of(*pool.spec));
  if (!p.max_running) unstated.emplace_back("max_running", sched::resolve_limits(p).max_running);
  const bool has_prefill_budget = sched::runs_on(p.policy, Server::sglang) && !p.prefill_token_budget;
  if (has_prefill_budget && p.chunked.value_or(true)) unstated.emplace_back("prefill_token_budget", kMaxPrefillTokens);
  return unstated;
}

std::string option_problem(const PointSpec& spec, Server server) {
  const PolicyConfig& p = spec.policy;
  const std::string_view product = server == Server::vllm ? "vLLM" : "SGLang";
  if (p.watermark.value_or(0) > 0) return lacks(product, "watermark");
  if (p.max_concurrent) return lacks(product, "max_concurrent");
  if (p.max_input) return lacks(product, "max_input");
  if (server == Server::vllm) {
    constexpr std::array<sched::Tok, 7> kBlockSizes = {1, 8, 16, 32, 64, 128, 256};
    const sched::Tok block = sched::block_tokens(p);
    if (std::find(kBlockSizes.begin(), kBlockSizes.end(), block) == kBlockSizes.end())
      return fmt::format("vLLM has no blocks of {} tokens", block);
    if (p.queue_limit) return lacks(product, "queue_limit");
    if (p.kv_token_budget) return lacks(product, "kv_token_budget; it has one for kv_blocks");
    return {};
  }
  if (p.kv_blocks) return lacks(product, "kv_blocks; it has one for kv_token_budget");
  if (!spec.engine->graph_sizes.empty()) return "SGLang's manifests have no option for engine_graphs";
  return {};
}

std::string version_problem(const PointSpec& spec, Server server, const std::string& version) {
  const std::int32_t minor = minor_of(version);
  if (minor != spec.policy.version)
    return fmt::format("scheduler.version is 0.{}, but the engine's image has version {}", spec.policy.version,
                       version);
  constexpr std::int32_t kFirstVllm = 10, kFirstSglang = 5, kAsyncWithStages = 16;
  if (server == Server::sglang)
    return minor < kFirstSglang ? "manifests are written for SGLang from 0.5 on" : std::string();
  if (minor < kFirstVllm) return "manifests are written for vLLM from 0.10 on";
  if (spec.policy.async_scheduling.value_or(false) && spec.deployment.pp > 1 && minor < kAsyncWithStages)
    return fmt::format("vLLM {} refuses async_scheduling with pipeline stages (pp {})", version, spec.deployment.pp);
  if (spec.policy.whole_sequence_must_fit() && minor < kReservesFull)
    return fmt::format("vLLM {} has no option for scheduler.reserve_full_sequence", version);
  return {};
}

std::string transfer_problem(const PointSpec& spec, Server server, const std::string& version) {
  using load::FirstToken, load::TransferMode, load::TransferOverlap;
  const load::TransferConfig& t = spec.transfer;
  if (server == Server::sglang) {
    if (t.overlap != TransferOverlap::chunk)
      return "SGLang sends the KV of each chunk as it is computed; state deployment.transfer.overlap: chunk";
    return {};
  }
  if (spec.deployment.tp < spec.prefill->deployment.tp)
    return fmt::format("vLLM's decode servers need at least the TP degree of its prefill servers ({} < {})",
                       spec.deployment.tp, spec.prefill->deployment.tp);
  if (t.mode != TransferMode::pull) return "vLLM's NixlConnector always pulls KV: state deployment.transfer.mode: pull";
  if (t.overlap != TransferOverlap::none)
    return "vLLM's NixlConnector reads KV only after the prefill: state deployment.transfer.overlap: none";
  if (t.first_token != FirstToken::decode)
    return "with vLLM's NixlConnector the decode side sends the first token: state deployment.transfer.first_token: "
           "decode";
  if (t.hold % 1'000'000'000 != 0)
    return "VLLM_NIXL_ABORT_REQUEST_TIMEOUT must be whole seconds (deployment.transfer.hold)";
  if (minor_of(version) >= kLoadFailureOption) return {};
  if (t.load_failure == load::LoadFailure::fail)
    return fmt::format("vLLM {} has no option for deployment.transfer.load_failure", version);
  if (t.layout == load::KvLayout::packed)
    return fmt::format("vLLM {} has no option for deployment.transfer.layout", version);
  return {};
}

bool served_dtype_needs_checkpoint(model::DType dtype) {
  return dtype != model::DType::fp8 && served_dtype(dtype) == "auto";
}

std::vector<GivenOption> options_of(const std::vector<Token>& arguments) {
  std::vector<GivenOption> options;
  for (const Token& token : arguments) {
    // A value may be negative, but it never begins with two dashes.
    if (token.text.starts_with("--")) {
      const std::size_t equals = token.text.find('=');
      GivenOption option{{token.text.substr(0, equals), token.where}, {}};
      if (equals != std::string::npos) option.value = Token{token.text.substr(equals + 1), token.where};
      options.push_back(std::move(option));
    } else if (options.empty() || options.back().value) {
      throw InputError(token.where, fmt::format("found '{}', expected an option such as --max-num-seqs", token.text));
    } else {
      options.back().value = token;
    }
  }
  return options;
}

namespace {

// "--no-x" and "--x_y" are the same option as "--x" and "--x-y".
struct Named {
  std::string name;
  bool on = true;
};
Named named(const GivenOption& option) {
  Named result{option.name.text, true};
  std::replace(result.name.begin(), result.name.end(), '_', '-');
  if (result.name.starts_with("--no-")) result = {"--" + result.name.substr(5), false};
  return result;
}

const Row* row_of(std::span<const Row> rows, const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

constexpr std::array<std::string_view, 6> kCompared = {kKvTransfer,
                                                       "--compilation-config",
                                                       "--disaggregation-mode",
                                                       "--disaggregation-transfer-backend",
                                                       "--disaggregation-bootstrap-port",
                                                       "--served-model-name"};

bool is_unstated(const std::optional<Node>& unstated, std::string_view key, const std::string& value) {
  const auto known = unstated && unstated->is_map() ? unstated->find(key) : std::nullopt;
  return known && known->as_string() == value;
}

}  // namespace

void read_options(Server server, const std::vector<GivenOption>& options, const PoolSettings& pool, Document& study) {
  const std::span<const Row> rows = rows_of(server);
  const auto path = [&](const Row& row) {
    constexpr std::string_view kDeployment = "deployment.";
    return row.key.starts_with(kDeployment) ? pool.deployment + '.' + std::string(row.key.substr(kDeployment.size()))
                                            : pool.scheduler + '.' + std::string(row.key);
  };
  for (const Row& row : rows)
    if (row.form == Form::negated) study.set(path(row), "true", Where{});
  for (const GivenOption& option : options) {
    const Named name = named(option);
    const Row* const row = row_of(rows, name.name);
    const Where& where = option.name.where;
    if (row == nullptr) {
      if (std::find(kCompared.begin(), kCompared.end(), name.name) == kCompared.end())
        throw InputError(where, fmt::format("option '{}' has no equivalent in a study", option.name.text));
      continue;
    }
    const bool is_switch = row->form == Form::pair || row->form == Form::negated;
    if (is_switch != !option.value)
      throw InputError(where, fmt::format("option '{}' takes {} value", option.name.text, is_switch ? "no" : "a"));
    if (row->form == Form::compared) continue;
    if (is_switch) {
      study.set(path(*row), switch_text(row->form == Form::negated ? !name.on : name.on), where);
    } else if (!is_unstated(pool.unstated, row->key, option.value->text) &&
               !(row->key == "long_prefill_threshold" && option.value->text == "0")) {
      study.set(path(*row), option.value->text, option.value->where);
    }
  }
}

void compare_options(const std::vector<GivenOption>& found, const std::vector<ServerOption>& written,
                     const std::optional<Node>& unstated) {
  for (const GivenOption& option : found) {
    const Named name = named(option);
    const auto same = std::find_if(written.begin(), written.end(), [&](const ServerOption& other) {
      const Named theirs = named({{other.name, {}}, {}});
      return theirs.name == name.name && theirs.on == name.on;
    });
    const std::string value = option.value ? option.value->text : "";
    if (same != written.end() && same->value.value_or("") == value) continue;
    // If the pool's size differs from the prediction, so may the longest sequence. The file's value is kept.
    const Row* const row = row_of(kVllm, name.name) != nullptr ? row_of(kVllm, name.name) : row_of(kSglang, name.name);
    if (row != nullptr && is_unstated(unstated, row->key, value)) continue;
    throw InputError(
        option.value ? option.value->where : option.name.where,
        fmt::format("found {} {}, but the study that this file describes gives {}", option.name.text, value,
                    same == written.end() ? "none" : "'" + same->value.value_or("the switch") + "'"));
  }
}

}  // namespace plimsoll::study::deploy
