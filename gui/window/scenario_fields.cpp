// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/scenario_dock.h"

#include "gui/core/text.h"
#include "load/pools.h"
#include "sched/policy_config.h"
#include "sched/router.h"

namespace plimsoll::gui {
namespace {

QStringList names(const configs::Catalogue& catalogue, std::string_view kind) {
  QStringList out;
  for (const std::string& name : catalogue.names(kind)) out << qs(name);
  return out;
}

template <class Names>
QStringList list_of(const Names& names) {
  QStringList out;
  for (const std::string_view name : names) out << qs(name);
  return out;
}

QStringList words(const char* text) { return QString::fromLatin1(text).split(QChar(u' ')); }

// p4d.24xlarge is also listed as ml.p4d.24xlarge, at SageMaker's price.
QStringList hardware(const configs::Catalogue& catalogue) {
  QStringList out{QStringLiteral("this-machine")};
  for (const std::string& name : catalogue.names("instances")) {
    try {
      if (catalogue.instance(name)->sagemaker) out << QStringLiteral("ml.") + qs(name);
    } catch (const std::exception&) {
      continue;  // an invalid catalogue file is reported when it is chosen
    }
    out << qs(name);
  }
  return out;
}

FieldSpec spec(const char* path, const QString& label, const QString& help, QStringList choices = {}) {
  // Engines without a stated batch limit take many sequences, not one.
  return {QString::fromLatin1(path), label, help,
          std::move(choices),        false, std::string_view(path) == "scheduler.max_running"};
}

FieldSpec slider(const char* path, const QString& label, const QString& help, QStringList choices) {
  FieldSpec out = spec(path, label, help, std::move(choices));
  out.slider = true;
  return out;
}

std::vector<FieldSpec> pools_fields() {
  return {
      slider("deployment.pools.prefill.replicas", tr("Prefill replicas"), tr("Replicas that compute prompts"),
             words("1 2 3 4 6 8 12 16 24 32")),
      slider("deployment.pools.prefill.tp", tr("Prefill TP degree"), tr("GPUs of one prefill replica"),
             words("1 2 4 8")),
      slider("deployment.pools.decode.replicas", tr("Decode replicas"), tr("Replicas that produce answers"),
             words("1 2 3 4 6 8 12 16 24 32")),
      slider("deployment.pools.decode.tp", tr("Decode TP degree"), tr("GPUs of one decode replica"), words("1 2 4 8")),
      spec("deployment.transfer.bandwidth", tr("Transfer bandwidth of a GPU"),
           tr("Bandwidth of each GPU's network link, over which KV is sent"),
           {QStringLiteral("10 GB/s"), QStringLiteral("20 GB/s"), QStringLiteral("40 GB/s"), QStringLiteral("80 GB/s"),
            QStringLiteral("unlimited")}),
      spec("deployment.transfer.overlap", tr("Sent during the prefill"),
           tr("KV that is sent before the prefill ends: none, each finished chunk, or each layer of a chunk"),
           list_of(load::kTransferOverlapNames)),
      spec("deployment.local_prefill", tr("Local prefill"),
           tr("When the decode replica computes a prompt itself: {policy: isl, tokens: 2048, ratio: 0.7}, "
              "{policy: load, queue: 4}, {uncached: 256}"),
           {QStringLiteral("never"), QStringLiteral("{policy: isl, tokens: 2048, ratio: 0.7}"),
            QStringLiteral("{policy: load, queue: 4}"), QStringLiteral("{uncached: 256}")}),
  };
}

std::vector<FieldSpec> advanced_fields() {
  return {
      spec("scheduler.policy", tr("Policy"), tr("Batching policy (default: the engine's own)"),
           list_of(sched::policy_names())),
      spec("scheduler.step_token_budget", tr("Step token budget"),
           tr("Most tokens in one step (max_num_batched_tokens)"), words("512 1024 2048 4096 8192")),
      spec("scheduler.mem_fraction", tr("Memory fraction"), tr("Of the accelerator's memory (gpu_memory_utilization)"),
           words("0.80 0.85 0.90 0.95")),
      spec("scheduler.prefix_caching", tr("Prefix caching"),
           tr("Prompt prefixes that are in the KV cache are not computed again"), words("true false")),
      spec("kv_dtype", tr("KV cache"), tr("Number format of the KV cache"), words("fp16 bf16 fp8")),
      spec("deployment.pp", tr("Pipeline stages"), tr("GPUs in a row, each with a part of the layers"), words("1 2 4")),
      spec("limits.timeout", tr("Time-out"), tr("Time after which clients give up, as in 60 s"),
           {QStringLiteral("10 s"), QStringLiteral("60 s"), QStringLiteral("5 min")}),
      spec("deployment.router", tr("Router"), tr("Which replica takes a request"), list_of(sched::router_names())),
      spec("engine_front_end", tr("Front end"), tr("Server of another project in front of the engine; adds its delay"),
           list_of(model::kFrontEndNames)),
      spec("replications", tr("Replications"), tr("Independent repetitions, for confidence intervals"),
           words("1 2 5 10")),
      spec("seed", tr("Seed"), tr("Of all random numbers"), words("1 2 3")),
  };
}

}  // namespace

FieldGroups field_groups(const configs::Catalogue& catalogue) {
  FieldGroups g;
  g.machine = {
      spec("model", tr("Model"), tr("A name of the catalogue, or a Hugging Face config.json"),
           names(catalogue, "models")),
      spec("dtype", tr("Weights"), tr("Number format of the weights"),
           words("fp16 bf16 fp8 int8 int4 nvfp4 mxfp4 fp32")),
      spec("hardware", tr("Hardware"), tr("An instance, or {accelerator: h100-sxm, count: 8}"), hardware(catalogue)),
      spec("engine", tr("Engine"), tr("Engine profile: scheduler defaults, host times"), names(catalogue, "engines")),
  };
  g.deployment = {
      slider("deployment.tp", tr("Tensor-parallel degree"), tr("GPUs of one replica; a list such as 1, 2, 4 sweeps it"),
             words("1 2 4 8")),
      slider("deployment.replicas", tr("Replicas"), tr("Copies of the model behind the router"),
             words("1 2 3 4 6 8 12 16 24 32")),
      slider("scheduler.max_running", tr("Batch limit"),
             tr("Most sequences at once (max_num_seqs, max_rolling_batch_size, MAX_BATCH_SIZE)"),
             words("1 2 4 8 16 32 64 96 128 192 256 384 512")),
  };
  g.pools = pools_fields();
  g.workload = {
      spec("workload.lengths.input", tr("Input tokens"),
           tr("Prompt length: a number, or a distribution such as {lognormal: {mean: 512, cv: 1}}"),
           words("64 128 256 512 1024 2048")),
      spec("workload.lengths.output", tr("Output tokens"), tr("Answer length: a number or a distribution"),
           words("32 64 128 256 512 1024")),
      spec("workload.requests", tr("Requests"), tr("Number of requests, unless the load states it"),
           words("200 500 1000 2000 5000")),
  };
  g.advanced = advanced_fields();
  return g;
}

QString load_kind_label(const QString& kind) {
  if (kind == QStringLiteral("jumpstart")) return tr("JumpStart benchmark (clients)");
  if (kind == QStringLiteral("closed_loop")) return tr("Closed loop (clients)");
  if (kind == QStringLiteral("poisson")) return tr("Poisson arrivals (requests/s)");
  if (kind == QStringLiteral("constant")) return tr("Constant rate (requests/s)");
  if (kind == QStringLiteral("gamma")) return tr("Gamma arrivals (requests/s)");
  if (kind == QStringLiteral("burst")) return tr("Burst (requests at once)");
  if (kind == QStringLiteral("trace")) return tr("Trace, replayed at its own times");
  if (kind == QStringLiteral("sessions")) return tr("Sessions of several turns");
  if (kind == QStringLiteral("script")) return tr("Script of requests");
  return kind;
}

}  // namespace plimsoll::gui
