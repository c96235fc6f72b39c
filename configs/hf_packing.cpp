// SPDX-License-Identifier: Apache-2.0
#include "configs/hf_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "configs/json_fields.h"
#include "configs/text_file.h"

namespace plimsoll::configs {
namespace {

constexpr Range kGroupSizes{-1, 1'000'000};

void allow(const JsonFields& f, const char* field, const std::vector<std::string>& allowed) {
  const std::string found = f.text_or(field, allowed.front());
  if (std::find(allowed.begin(), allowed.end(), found) == allowed.end())
    f.fail(field, fmt::format("found '{}': weights packed like this are simulated but not executed, allowed: {}",
                              shortened(found), fmt::join(allowed, ", ")));
}

std::int64_t group_size(const JsonFields& f) {
  const auto groups = f.inside("config_groups");
  if (!groups) return std::max(0, f.whole_or({"group_size", "q_group_size"}, kGroupSizes, 0));
  for (const auto& item : f.find("config_groups")->items()) {
    const auto group = groups->inside(item.key().c_str());
    const auto weights = group ? group->inside("weights") : std::nullopt;
    if (weights) return std::max(0, weights->whole_or("group_size", kGroupSizes, 0));
  }
  return 0;
}

}  // namespace

PackedCheckpoint read_packing(const std::string& config) {
  std::error_code error;
  if (!std::filesystem::exists(config, error)) return {};
  const JsonFields whole = JsonFields::from_file(config);
  auto f = whole.inside("quantization_config");
  if (!f) f = whole.inside("compression_config");
  if (!f) return {};
  const std::string method = f->text_or("quant_method", "");
  if (method.starts_with("awq")) allow(*f, "version", {"gemm", "GEMM"});
  if (method.starts_with("gptq")) allow(*f, "checkpoint_format", {"gptq", "gptq_v2"});
  if (method.starts_with("auto-round")) allow(*f, "packing_format", {"auto_round:auto_gptq", "auto_round:auto_awq"});
  if (method.starts_with("compressed")) allow(*f, "format", {"pack-quantized", "int-quantized", "naive-quantized"});
  return {.group = group_size(*f), .zeros_less_one = f->text_or("checkpoint_format", "gptq") != "gptq_v2"};
}

}  // namespace plimsoll::configs
