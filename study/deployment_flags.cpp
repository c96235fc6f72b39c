// SPDX-License-Identifier: Apache-2.0
#include "study/deployment_flags.h"

#include <fmt/format.h>

#include "configs/quantity.h"

namespace plimsoll::study {
namespace {

using sched::PolicyKind;

std::string model_of(const PointSpec& spec) { return spec.shape ? spec.shape->id : "MODEL"; }

/// Appends `before` + name + `between` + value + `after` for what is stated.
class Flags {
 public:
  Flags(std::string text, std::string before, std::string between, std::string after)
      : text_(std::move(text)), before_(std::move(before)), between_(std::move(between)), after_(std::move(after)) {}
  template <class T>
  Flags& add(const char* name, const T& value) {
    text_ += fmt::format("{}{}{}{}{}", before_, name, between_, value, after_);
    return *this;
  }
  Flags& add_if(const char* name, const std::optional<std::int64_t>& value) { return value ? add(name, *value) : *this; }
  Flags& add_if(const char* name, const std::optional<std::int32_t>& value) { return value ? add(name, *value) : *this; }
  Flags& add_fraction(const char* name, const std::optional<double>& value) {
    return value ? add(name, configs::number_text(*value)) : *this;
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  std::string text_, before_, between_, after_;
};

}  // namespace

std::string vllm_command(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Flags flags("vllm serve " + model_of(spec), " --", " ", "");
  flags.add("dtype", spec.weight_dtype == model::DType::bf16 ? "bfloat16" : "float16");
  flags.add("tensor-parallel-size", spec.deployment.tp);
  if (spec.deployment.pp > 1) flags.add("pipeline-parallel-size", spec.deployment.pp);
  flags.add_if("max-num-seqs", p.max_running).add_if("max-num-batched-tokens", p.step_token_budget).add_if("max-model-len", p.max_total);
  flags.add_if("block-size", p.block_size).add_fraction("gpu-memory-utilization", p.mem_fraction);
  return flags.text() + "\n";
}

std::string tgi_environment(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Flags flags("", "", "=", "\n");
  flags.add("MODEL_ID", model_of(spec)).add("NUM_SHARD", spec.deployment.tp);
  flags.add("DTYPE", spec.weight_dtype == model::DType::bf16 ? "bfloat16" : "float16");
  flags.add_if("MAX_BATCH_SIZE", p.max_running).add_if("MAX_BATCH_PREFILL_TOKENS", p.prefill_token_budget);
  flags.add_if("MAX_BATCH_TOTAL_TOKENS", p.kv_token_budget).add_if("MAX_CONCURRENT_REQUESTS", p.max_concurrent);
  flags.add_if("MAX_INPUT_TOKENS", p.max_input).add_if("MAX_TOTAL_TOKENS", p.max_total).add_if("MAX_WAITING_TOKENS", p.force_after);
  flags.add_fraction("WAITING_SERVED_RATIO", p.served_ratio).add_fraction("CUDA_MEMORY_FRACTION", p.mem_fraction);
  return flags.text();
}

std::string serving_properties(const PointSpec& spec) {
  const sched::PolicyConfig& p = spec.policy;
  Flags flags("", "", "=", "\n");
  flags.add("option.model_id", model_of(spec)).add("option.tensor_parallel_degree", spec.deployment.tp);
  flags.add_if("option.max_rolling_batch_size", p.max_running).add_if("option.max_rolling_batch_prefill_tokens", p.step_token_budget);
  flags.add_if("option.max_model_len", p.max_total).add_if("batch_size", p.batch_size).add_if("job_queue_size", p.queue_limit);
  flags.add_fraction("option.gpu_memory_utilization", p.mem_fraction);
  return flags.text();
}

std::string deployment_flags(const PointSpec& spec) {
  switch (spec.policy.policy) {
    case PolicyKind::vllm_v0:
    case PolicyKind::vllm_v1:
    case PolicyKind::sarathi: return vllm_command(spec);
    case PolicyKind::tgi: return tgi_environment(spec);
    case PolicyKind::none:
    case PolicyKind::static_batch:
    case PolicyKind::dynamic:
    case PolicyKind::rolling:
    case PolicyKind::orca:
    case PolicyKind::trtllm:
    case PolicyKind::sglang: return serving_properties(spec);
  }
  return {};
}

}  // namespace plimsoll::study
