// SPDX-License-Identifier: Apache-2.0
#include "study/output/deployment_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "study/run/resolve.h"

namespace plimsoll::study {
namespace {

using sched::PolicyVariant;
using sched::Server;

using Pairs = std::vector<std::pair<std::string, std::string>>;

class Options {
 public:
  template <class T>
  Options& add(std::string_view name, const std::optional<T>& value) {
    if (value) pairs_.emplace_back(name, fmt::format("{}", *value));
    return *this;
  }
  Options& add(std::string_view name, const std::string& value) {
    if (!value.empty()) pairs_.emplace_back(name, value);
    return *this;
  }
  Options& add_if(bool wanted, std::string_view name, const std::string& value) { return wanted ? add(name, value) : *this; }
  [[nodiscard]] const Pairs& pairs() const { return pairs_; }

 private:
  Pairs pairs_;
};

// KEY=VALUE lines, as environment files and property files have them.
std::string lines(const Pairs& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs) text += name + "=" + value + "\n";
  return text;
}

// One command over several lines; a pair without a value is a switch.
std::string command(const std::string& begin, const Pairs& pairs) {
  std::string text = begin;
  for (const auto& [name, value] : pairs) text += " \\\n  " + name + (value == "true" ? "" : " " + value);
  return text + "\n";
}

std::string model_of(const PointSpec& spec) {
  if (!spec.shape) return "MODEL";
  return spec.shape->hf_id.empty() ? spec.shape->id : spec.shape->hf_id;
}

std::string degree(std::int32_t value) { return fmt::format("{}", value); }

// vLLM and SGLang name their types in words; weights of less than 16 bits are the checkpoint's own.
std::string dtype_word(model::DType dtype) {
  switch (dtype) {
    case model::DType::fp32: return "float32";
    case model::DType::fp16: return "float16";
    case model::DType::bf16: return "bfloat16";
    default: return "auto";
  }
}

std::string quantisation(model::DType dtype) { return dtype == model::DType::fp8 ? "fp8" : ""; }

std::string kv_word(const PointSpec& spec) { return spec.kv_dtype == model::DType::fp8 ? "fp8" : ""; }

// Servers refuse to start where the model's longest sequence is more than the KV pool holds. The pool is predicted: a tenth
// less is stated, but never less than what the workload sends.
std::optional<std::int64_t> longest(const PointSpec& spec) {
  constexpr std::int64_t kUnit = 256;
  if (spec.policy.max_total) return *spec.policy.max_total;
  if (!spec.shape || spec.engine->constant) return {};
  const ResolvedPoint point = resolve_spec(spec);
  if (!point.scenario) return {};
  const std::int64_t pool = static_cast<std::int64_t>(point.scenario->kv.blocks) * point.scenario->kv.block_tokens;
  if (pool >= longest_sequence(spec)) return {};
  return std::max(longest_sent(spec.workload), pool * 9 / 10 / kUnit * kUnit);
}

std::string flag(bool value) { return value ? "true" : ""; }

DeployFile vllm(const PointSpec& spec, bool v1) {
  const sched::PolicyConfig& p = spec.policy;
  const bool caching = p.prefix_caching.value_or(false);
  Options o;
  o.add("--tensor-parallel-size", degree(spec.deployment.tp)).add_if(spec.deployment.pp > 1, "--pipeline-parallel-size", degree(spec.deployment.pp));
  o.add("--dtype", dtype_word(spec.weight_dtype)).add("--quantization", quantisation(spec.weight_dtype)).add("--kv-cache-dtype", kv_word(spec));
  o.add("--max-model-len", longest(spec)).add("--max-num-seqs", p.max_running).add("--max-num-batched-tokens", p.step_token_budget);
  o.add("--gpu-memory-utilization", p.mem_fraction).add("--block-size", p.block_size).add("--num-gpu-blocks-override", p.kv_blocks);
  o.add(v1 && !caching ? "--no-enable-prefix-caching" : "--enable-prefix-caching", flag(v1 || caching));
  if (v1) o.add("--long-prefill-token-threshold", p.long_prefill_threshold);
  if (!v1) {
    o.add("--enable-chunked-prefill", flag(p.variant == PolicyVariant::vllm_chunked)).add("--scheduler-delay-factor", p.delay_factor);
    if (p.swap_space_bytes) o.add("--swap-space", fmt::format("{:.4g}", *p.swap_space_bytes / 1073741824.0));
    o.add_if(p.preemption == sched::Preemption::swap, "--preemption-mode", "swap");
  }
  return {"vllm.sh", "vLLM", command("vllm serve " + model_of(spec), o.pairs())};
}

DeployFile tgi(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Options o;
  o.add("MODEL_ID", model_of(spec)).add("NUM_SHARD", degree(spec.deployment.tp));
  o.add("DTYPE", dtype_word(spec.weight_dtype) == "auto" ? std::string() : dtype_word(spec.weight_dtype)).add("QUANTIZE", quantisation(spec.weight_dtype));
  o.add("MAX_CONCURRENT_REQUESTS", p.max_concurrent).add("MAX_INPUT_LENGTH", p.max_input).add("MAX_TOTAL_TOKENS", p.max_total);
  o.add("MAX_BATCH_PREFILL_TOKENS", p.prefill_token_budget ? p.prefill_token_budget : p.step_token_budget);
  o.add("MAX_BATCH_TOTAL_TOKENS", p.kv_token_budget).add("MAX_BATCH_SIZE", p.max_running);
  o.add("WAITING_SERVED_RATIO", p.served_ratio).add("MAX_WAITING_TOKENS", p.force_after).add("CUDA_MEMORY_FRACTION", p.mem_fraction);
  o.add_if(p.variant == PolicyVariant::tgi_v3, "PREFILL_CHUNKING", "1");
  const std::string note = p.max_running ? "# MAX_BATCH_SIZE: version 2.0 or later\n" : "";
  return {"tgi.env", "Text Generation Inference", note + lines(o.pairs())};
}

DeployFile lmi(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  const sched::LmiSettings& settings = sched::policy_info(p.policy).lmi;
  const bool rolling = settings.rolling_batch != sched::LmiSettings{}.rolling_batch;
  const bool may_be_contiguous = sched::has_variant(p.policy, PolicyVariant::contiguous);   // lmi-dist
  Options o;
  o.add("engine", settings.starts_by_mpi ? "MPI" : "Python").add("option.model_id", model_of(spec)).add("option.tensor_parallel_degree", degree(spec.deployment.tp));
  o.add_if(spec.deployment.pp > 1, "option.pipeline_parallel_degree", degree(spec.deployment.pp));
  const std::string word = dtype_word(spec.weight_dtype);
  o.add("option.dtype", word == "float16" ? "fp16" : word == "bfloat16" ? "bf16" : word == "float32" ? "fp32" : "auto");
  o.add("option.quantize", quantisation(spec.weight_dtype)).add("option.rolling_batch", std::string(settings.rolling_batch));
  if (rolling) o.add("option.max_rolling_batch_size", p.max_running).add("option.max_rolling_batch_prefill_tokens", p.step_token_budget);
  if (!rolling) {
    o.add("batch_size", p.batch_size ? p.batch_size : p.max_running);
    if (p.max_batch_delay) o.add("max_batch_delay", fmt::format("{}", *p.max_batch_delay / 1'000'000));
  }
  o.add_if(may_be_contiguous, "option.paged_attention", p.variant == PolicyVariant::contiguous ? "false" : "true");
  o.add("option.max_model_len", longest(spec)).add("option.gpu_memory_utilization", p.mem_fraction);
  o.add("option.waiting_steps", may_be_contiguous ? p.force_after : std::nullopt).add("job_queue_size", p.queue_limit);
  return {"serving.properties", "Large Model Inference (DJL Serving)", lines(o.pairs())};
}

DeployFile trtllm(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Options o;
  o.add("--tp_size", degree(spec.deployment.tp)).add_if(spec.deployment.pp > 1, "--pp_size", degree(spec.deployment.pp));
  o.add("--max_batch_size", p.max_running).add("--max_num_tokens", p.step_token_budget).add("--max_seq_len", longest(spec));
  o.add("--kv_cache_free_gpu_memory_fraction", spec.free_memory_fraction);
  return {"trtllm.sh", "TensorRT-LLM", command("trtllm-serve " + model_of(spec), o.pairs())};
}

DeployFile sglang(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Options o;
  o.add("--model-path", model_of(spec)).add("--tp-size", degree(spec.deployment.tp)).add("--dtype", dtype_word(spec.weight_dtype));
  o.add("--quantization", quantisation(spec.weight_dtype)).add("--max-running-requests", p.max_running);
  o.add(p.chunked.value_or(true) ? "--chunked-prefill-size" : "--max-prefill-tokens", p.step_token_budget);
  o.add("--mem-fraction-static", p.mem_fraction).add("--page-size", p.block_size).add("--context-length", longest(spec));
  o.add("--max-total-tokens", p.kv_token_budget).add("--schedule-conservativeness", p.conservativeness);
  o.add("--disable-radix-cache", flag(!p.prefix_caching.value_or(true)));
  return {"sglang.sh", "SGLang", command("python -m sglang.launch_server", o.pairs())};
}

DeployFile deploy_file(const PointSpec& spec, Server server) {
  switch (server) {
    case Server::lmi: return lmi(spec);
    case Server::tgi: return tgi(spec);
    case Server::vllm_v0: return vllm(spec, false);
    case Server::vllm: return vllm(spec, true);
    case Server::trtllm: return trtllm(spec);
    case Server::sglang: return sglang(spec);
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
