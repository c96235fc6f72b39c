// SPDX-License-Identifier: Apache-2.0
#include "study/output/deployment_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <filesystem>
#include <optional>
#include <string_view>

#include "study/run/resolve.h"

namespace plimsoll::study {
namespace {

using sched::PolicyVariant;
using sched::Server;

std::optional<sched::Blk> whole_pool(const sched::PolicyConfig& policy) {
  if (!policy.kv_blocks) return {};
  return *policy.kv_blocks + sched::policy_info(policy.policy).unusable_blocks;
}

/// One option of a server. An option without a value is a switch.
struct Option {
  std::string name;
  std::optional<std::string> value;
};

class Options {
 public:
  template <class T>
  Options& add(std::string_view name, const std::optional<T>& value) {
    if (value) options_.push_back({std::string(name), fmt::format("{}", *value)});
    return *this;
  }
  Options& add(std::string_view name, const std::string& value) {
    if (!value.empty()) options_.push_back({std::string(name), value});
    return *this;
  }
  Options& add_if(bool wanted, std::string_view name, const std::string& value) {
    return wanted ? add(name, value) : *this;
  }
  Options& add_switch(bool wanted, std::string_view name) {
    if (wanted) options_.push_back({std::string(name), std::nullopt});
    return *this;
  }
  [[nodiscard]] const std::vector<Option>& all() const { return options_; }

 private:
  std::vector<Option> options_;
};

// A shell takes everything between single quotes literally, even newlines; a quote itself must be outside of them.
std::string shell_quoted(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Quotes a value of a Java property file: a backslash begins an escape, leading blanks are skipped, and a line break
// ends the value. Bytes beyond ASCII are unchanged, because DJL Serving reads the file as UTF-8.
std::string property_quoted(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\f': out += "\\f"; break;
      case ' ': out += i == 0 ? "\\ " : " "; break;
      default: out += text[i];
    }
  }
  return out;
}

// Formats options as KEY=VALUE lines.
std::string lines(const Options& options, std::string (*quoted)(const std::string&)) {
  std::string text;
  for (const Option& option : options.all()) text += option.name + "=" + quoted(option.value.value_or("true")) + "\n";
  return text;
}

// Formats one command over several lines.
std::string command(const std::string& begin, const Options& options) {
  std::string text = begin;
  for (const Option& option : options.all()) {
    text += " \\\n  " + option.name + (option.value ? " " + shell_quoted(*option.value) : std::string());
  }
  return text + "\n";
}

bool has_word(std::string_view name, std::string_view word) {
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const bool begins = at == 0 || name[at - 1] == '-',
               ends = at + word.size() == name.size() || name[at + word.size()] == '-';
    if (begins && ends) return true;
  }
  return false;
}

// The catalogue names base models. If the study names a tuned version ("llama-3.1-70b-instruct"), the hub's name must
// be that of the tuned one. The word for the tuning follows the size, before a version or the name of a packaging.
std::string hub_name(const std::string& base, const std::string& stated) {
  struct Tuning {
    std::string_view word, after_capital;
  };
  constexpr std::array<Tuning, 3> kTunings = {{{"instruct", "Instruct"}, {"chat", "chat"}, {"it", "it"}}};
  const std::string asked = configs::canonical_name(stated), own = configs::canonical_name(base);
  for (const Tuning& tuning : kTunings) {
    if (!has_word(asked, tuning.word) || has_word(own, tuning.word)) continue;
    const std::size_t name = base.find('/') + 1;
    const bool capital = name < base.size() && base[name] >= 'A' && base[name] <= 'Z';
    const std::size_t at = std::min({base.find("-hf", name), base.find("-v0", name), base.size()});
    return fmt::format("{}-{}{}", base.substr(0, at), capital ? tuning.after_capital : tuning.word, base.substr(at));
  }
  return base;
}

}  // namespace

// Returns the model to serve: the hub name that the study states, the folder of the path that it states, or the hub
// name of a catalogue model.
std::string served_model(const PointSpec& spec) {
  if (!spec.shape) return "MODEL";
  const std::string& stated = spec.model_stated;
  if (spec.model_is_file) {
    const std::filesystem::path path(stated);
    std::string folder = path.extension() == ".json" ? path.parent_path().string() : stated;
    if (folder.empty()) folder = ".";
    return folder.starts_with('-') ? "./" + folder : folder;  // must not look like an option
  }
  if (stated.find('/') != std::string::npos && !stated.starts_with('-')) return stated;
  return spec.shape->hf_id.empty() ? spec.shape->id : hub_name(spec.shape->hf_id, stated);
}

namespace {

/// A product's version, without its patch number.
struct Version {
  int major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
};

// Returns the version in the name of the point's engine, such as 0.14 of "trtllm-0.14"; nullopt for other products.
std::optional<Version> version_of(const PointSpec& spec, std::string_view product) {
  const std::string_view id = spec.engine->id;
  Version version;
  if (!id.starts_with(product)) return {};
  const char* const end = id.data() + id.size();
  const auto major = std::from_chars(id.data() + product.size(), end, version.major);
  if (major.ec != std::errc()) return {};
  if (major.ptr != end && *major.ptr == '.') std::from_chars(major.ptr + 1, end, version.minor);
  return version;
}

bool is_before(const PointSpec& spec, std::string_view product, Version version) {
  const std::optional<Version> own = version_of(spec, product);
  return own && *own < version;
}

std::string degree_text(std::int32_t value) { return fmt::format("{}", value); }

}  // namespace

// vLLM and SGLang name types by words. Weights of less than 16 bits are a property of the checkpoint.
std::string served_dtype(model::DType dtype) {
  switch (dtype) {
    case model::DType::fp32: return "float32";
    case model::DType::fp16: return "float16";
    case model::DType::bf16: return "bfloat16";
    default: return "auto";
  }
}

namespace {

std::string quantisation(model::DType dtype) { return dtype == model::DType::fp8 ? "fp8" : ""; }

std::string kv_word(const PointSpec& spec) { return spec.kv_dtype == model::DType::fp8 ? "fp8" : ""; }

}  // namespace

// Servers refuse to start if the model's longest sequence exceeds the KV pool. The pool's size is only predicted, so
// the length stated is a tenth below it, but never below the longest request of the workload.
std::optional<std::int64_t> served_length(const PointSpec& spec) {
  constexpr std::int64_t kUnit = 256;
  if (spec.policy.max_total) return *spec.policy.max_total;
  if (!spec.shape || spec.engine->constant) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const std::int64_t pool = static_cast<std::int64_t>(point.scenario->kv.blocks) * point.scenario->kv.block_tokens;
  if (pool >= longest_sequence(spec)) return {};
  return std::max(longest_sent(spec.workload), pool * 9 / 10 / kUnit * kUnit);
}

namespace {

// From these versions on, vLLM decides a step while the previous one runs, and admits a prompt only if all of it fits.
constexpr std::int32_t kVllmAsyncByDefault = 14, kVllmReservesWhole = 19;

DeployFile vllm(const PointSpec& spec, bool v1) {
  const sched::PolicyConfig& p = spec.policy;
  const bool caching = p.prefix_caching.value_or(false);
  Options o;
  o.add("--tensor-parallel-size", degree_text(spec.deployment.tp))
      .add_if(spec.deployment.pp > 1, "--pipeline-parallel-size", degree_text(spec.deployment.pp))
      .add_switch(spec.deployment.ep > 1, "--enable-expert-parallel");
  o.add("--dtype", served_dtype(spec.weight_dtype))
      .add("--quantization", quantisation(spec.weight_dtype))
      .add("--kv-cache-dtype", kv_word(spec));
  o.add("--max-model-len", served_length(spec))
      .add("--max-num-seqs", p.max_running)
      .add("--max-num-batched-tokens", p.step_token_budget);
  o.add("--gpu-memory-utilization", p.mem_fraction)
      .add("--block-size", p.block_size)
      .add("--num-gpu-blocks-override", whole_pool(p));
  if (v1) {
    const bool is_async = p.async_scheduling.value_or(false);
    // The switch is written only if it differs from the version's default.
    if (is_async != (p.version >= kVllmAsyncByDefault))
      o.add_switch(true, is_async ? "--async-scheduling" : "--no-async-scheduling");
    o.add_switch(p.version >= kVllmReservesWhole && !p.whole_sequence_must_fit(), "--no-scheduler-reserve-full-isl")
        .add_if(p.order == sched::Order::priority, "--scheduling-policy", "priority");
  }
  o.add_switch(v1 || caching, v1 && !caching ? "--no-enable-prefix-caching" : "--enable-prefix-caching");
  if (v1) o.add("--long-prefill-token-threshold", p.long_prefill_threshold);
  if (!v1) {
    o.add_switch(p.variant == PolicyVariant::vllm_chunked, "--enable-chunked-prefill")
        .add("--scheduler-delay-factor", p.delay_factor);
    if (p.swap_space_bytes) o.add("--swap-space", fmt::format("{:.4g}", *p.swap_space_bytes / 1073741824.0));
    o.add_if(p.preemption == sched::Preemption::swap, "--preemption-mode", "swap");
  }
  return {"vllm.sh", "vLLM", command("vllm serve " + shell_quoted(served_model(spec)), o)};
}

DeployFile tgi(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  const std::optional<Version> version = version_of(spec, "tgi-");
  const bool is_2 = version && *version >= Version{2, 0};
  std::string note = p.max_running && !is_2 ? "# MAX_BATCH_SIZE: version 2.0 or later\n" : "";
  const std::string model = served_model(spec);
  if (shell_quoted(model) != model)
    note += "# MODEL_ID is quoted for a shell; docker's --env-file takes it without quotes.\n";
  Options o;
  o.add("MODEL_ID", model).add("NUM_SHARD", degree_text(spec.deployment.tp));
  o.add("DTYPE", served_dtype(spec.weight_dtype) == "auto" ? std::string() : served_dtype(spec.weight_dtype))
      .add("QUANTIZE", quantisation(spec.weight_dtype));
  o.add("MAX_CONCURRENT_REQUESTS", p.max_concurrent)
      .add(is_2 ? "MAX_INPUT_TOKENS" : "MAX_INPUT_LENGTH", p.max_input)
      .add("MAX_TOTAL_TOKENS", p.max_total);
  o.add("MAX_BATCH_PREFILL_TOKENS", p.prefill_token_budget ? p.prefill_token_budget : p.step_token_budget);
  o.add("MAX_BATCH_TOTAL_TOKENS", p.kv_token_budget).add("MAX_BATCH_SIZE", p.max_running);
  o.add("WAITING_SERVED_RATIO", p.served_ratio)
      .add("MAX_WAITING_TOKENS", p.force_after)
      .add("CUDA_MEMORY_FRACTION", p.mem_fraction);
  o.add_if(p.variant == PolicyVariant::tgi_v3, "PREFILL_CHUNKING", "1");
  return {"tgi.env", "Text Generation Inference", note + lines(o, shell_quoted)};
}

DeployFile lmi(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  const sched::LmiSettings& settings = sched::policy_info(p.policy).lmi;
  const bool rolling = settings.rolling_batch != sched::LmiSettings{}.rolling_batch;
  const bool may_be_contiguous = sched::has_variant(p.policy, PolicyVariant::contiguous);  // only for lmi-dist
  Options o;
  o.add("engine", settings.starts_by_mpi ? "MPI" : "Python")
      .add("option.model_id", served_model(spec))
      .add("option.tensor_parallel_degree", degree_text(spec.deployment.tp));
  o.add_if(spec.deployment.pp > 1, "option.pipeline_parallel_degree", degree_text(spec.deployment.pp));
  const std::string word = served_dtype(spec.weight_dtype);
  o.add("option.dtype", word == "float16" ? "fp16" : word == "bfloat16" ? "bf16" : word == "float32" ? "fp32" : "auto");
  o.add("option.quantize", quantisation(spec.weight_dtype))
      .add("option.rolling_batch", std::string(settings.rolling_batch));
  if (rolling)
    o.add("option.max_rolling_batch_size", p.max_running)
        .add("option.max_rolling_batch_prefill_tokens", p.step_token_budget);
  if (!rolling) {
    o.add("batch_size", p.batch_size ? p.batch_size : p.max_running);
    if (p.max_batch_delay) o.add("max_batch_delay", fmt::format("{}", *p.max_batch_delay / 1'000'000));
  }
  o.add_if(may_be_contiguous, "option.paged_attention", p.variant == PolicyVariant::contiguous ? "false" : "true");
  o.add("option.max_model_len", served_length(spec)).add("option.gpu_memory_utilization", p.mem_fraction);
  o.add("option.waiting_steps", may_be_contiguous ? p.force_after : std::nullopt).add("job_queue_size", p.queue_limit);
  return {"serving.properties", "Large Model Inference (DJL Serving)", lines(o, property_quoted)};
}

// Before trtllm-serve existed, these limits were compiled into an engine, which Triton's backend then ran.
DeployFile trtllm_build(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Options o;
  o.add("--checkpoint_dir", "CHECKPOINT").add("--output_dir", "ENGINE");
  o.add("--max_batch_size", p.max_running)
      .add("--max_num_tokens", p.step_token_budget)
      .add("--max_seq_len", served_length(spec));
  o.add("--tokens_per_block", p.block_size).add("--use_paged_context_fmha", std::string("enable"));
  std::string note =
      fmt::format("# CHECKPOINT: {}, converted with --tp_size {}{}\n", shell_quoted(served_model(spec)),
                  spec.deployment.tp, spec.deployment.pp > 1 ? fmt::format(" --pp_size {}", spec.deployment.pp) : "");
  note += "# Triton's tensorrtllm backend: gpt_model_type inflight_fused_batching";
  if (p.capacity_policy == sched::CapacityPolicy::max_utilization) note += ", batch_scheduler_policy max_utilization";
  if (spec.free_memory_fraction) note += fmt::format(", kv_cache_free_gpu_mem_fraction {}", *spec.free_memory_fraction);
  return {"trtllm.sh", "TensorRT-LLM", note + "\n" + command("trtllm-build", o)};
}

// Settings for which trtllm-serve has no flag.
std::string trtllm_options(const sched::PolicyConfig& p) {
  std::string text;
  if (p.capacity_policy == sched::CapacityPolicy::max_utilization)
    text += "scheduler_config: {capacity_scheduler_policy: MAX_UTILIZATION}\n";
  if (p.batch_wait_timeout_iters) text += fmt::format("batch_wait_timeout_iters: {}\n", *p.batch_wait_timeout_iters);
  if (p.batch_wait_max_tokens_ratio)
    text += fmt::format("batch_wait_max_tokens_ratio: {}\n", *p.batch_wait_max_tokens_ratio);
  return text;
}

DeployFile trtllm(const PointSpec& spec) {
  constexpr Version kServe{0, 17};
  if (is_before(spec, "trtllm-", kServe)) return trtllm_build(spec);
  const sched::PolicyConfig& p = spec.policy;
  Options o;
  o.add("--tp_size", degree_text(spec.deployment.tp))
      .add_if(spec.deployment.pp > 1, "--pp_size", degree_text(spec.deployment.pp))
      .add_if(spec.deployment.ep > 1, "--ep_size", degree_text(spec.deployment.ep));
  o.add("--max_batch_size", p.max_running)
      .add("--max_num_tokens", p.step_token_budget)
      .add("--max_seq_len", served_length(spec));
  o.add("--kv_cache_free_gpu_memory_fraction", spec.free_memory_fraction);
  const std::string options = trtllm_options(p);
  o.add_if(!options.empty(), "--extra_llm_api_options", "trtllm-options.yaml");
  const std::string file = options.empty() ? "" : "cat > trtllm-options.yaml << 'END'\n" + options + "END\n";
  return {"trtllm.sh", "TensorRT-LLM", file + command("trtllm-serve " + shell_quoted(served_model(spec)), o)};
}

DeployFile sglang(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  // The first versions of 0.4 have only pages of one token, and no option for the size.
  const bool pages_of_one = is_before(spec, "sglang-", {0, 5}) && p.block_size == 1;
  Options o;
  o.add("--model-path", served_model(spec))
      .add("--tp-size", degree_text(spec.deployment.tp))
      .add_if(spec.deployment.ep > 1, "--ep-size", degree_text(spec.deployment.ep))
      .add("--dtype", served_dtype(spec.weight_dtype));
  o.add("--quantization", quantisation(spec.weight_dtype)).add("--max-running-requests", p.max_running);
  o.add(p.chunked.value_or(true) ? "--chunked-prefill-size" : "--max-prefill-tokens", p.step_token_budget);
  o.add("--mem-fraction-static", p.mem_fraction)
      .add("--page-size", pages_of_one ? std::nullopt : p.block_size)
      .add("--context-length", served_length(spec));
  o.add("--max-total-tokens", p.kv_token_budget).add("--schedule-conservativeness", p.conservativeness);
  o.add_if(p.scheduler_recv_interval > 1, "--scheduler-recv-interval", fmt::format("{}", p.scheduler_recv_interval));
  o.add_switch(!p.prefix_caching.value_or(true), "--disable-radix-cache");
  return {"sglang.sh", "SGLang", command("python -m sglang.launch_server", o)};
}

// Returns the cells of the context: the stated number, else the number that the pool and the slots' longest sequences
// allow.
std::optional<std::int64_t> context_cells(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  if (p.kv_token_budget) return *p.kv_token_budget;
  if (p.kv_blocks) return *p.kv_blocks * sched::block_tokens(p);
  if (!spec.shape || spec.engine->constant) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const std::int64_t pool = static_cast<std::int64_t>(point.scenario->kv.blocks) * point.scenario->kv.block_tokens;
  const std::int64_t sequence = longest_sequence(spec), slots = sched::resolve_limits(p).max_running;
  return sequence > 0 ? std::min(pool, slots * sequence) : pool;
}

DeployFile llama_cpp(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  const sched::Limits limits = sched::resolve_limits(p);
  Options o;
  // Without --parallel, the server has four slots with one pool.
  o.add("--parallel", fmt::format("{}", limits.max_running))
      .add_switch(true, p.variant == PolicyVariant::unified ? "--kv-unified" : "--no-kv-unified")
      .add("--ctx-size", context_cells(spec));
  o.add("--batch-size", p.step_token_budget).add("--ubatch-size", p.forward_token_budget);
  o.add_if(spec.kv_dtype == model::DType::bf16, "--cache-type-k", "bf16")
      .add_if(spec.kv_dtype == model::DType::bf16, "--cache-type-v", "bf16");
  // Prompts stay in their slots. Copies in host memory are disabled, because they are not modelled.
  const bool keeps = p.prefix_caching.value_or(false);
  o.add_switch(!keeps, "--no-cache-prompt").add_if(keeps, "--cache-ram", "0");
  if (keeps) o.add("--slot-prompt-similarity", p.slot_prompt_similarity);
  o.add_if(spec.deployment.tp > 1, "--split-mode", "row");
  return {"llama-server.sh", "llama.cpp",
          "# MODEL.gguf: " + shell_quoted(served_model(spec)) + ", converted to GGUF\n" +
              command("llama-server --model MODEL.gguf", o)};
}

DeployFile deploy_file(const PointSpec& spec, Server server) {
  switch (server) {
    case Server::lmi: return lmi(spec);
    case Server::tgi: return tgi(spec);
    case Server::vllm_v0: return vllm(spec, false);
    case Server::vllm: return vllm(spec, true);
    case Server::trtllm: return trtllm(spec);
    case Server::sglang: return sglang(spec);
    case Server::llama_cpp: return llama_cpp(spec);
  }
  return {};
}

}  // namespace

std::vector<DeployFile> deploy_files(const PointSpec& spec) {
  std::vector<DeployFile> files;
  for (const Server server : sched::policy_info(spec.policy.policy).servers) files.push_back(deploy_file(spec, server));
  return files;
}

std::string deployment_flags(const PointSpec& spec) {
  const std::vector<DeployFile> files = deploy_files(spec);
  return files.empty() ? "# No serving product runs this policy.\n" : files.front().text;
}

}  // namespace plimsoll::study
