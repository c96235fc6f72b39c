// SPDX-License-Identifier: Apache-2.0
// Fields as vLLM (vllm/model_executor/layers/quantization) and transformers (utils/quantization_config.py) read them.
#include "configs/hf_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>

#include "configs/text_file.h"

namespace plimsoll::configs {
namespace {

using model::Checkpoint;
using model::DType;
using nlohmann::json;

constexpr Range kBits{1, 32}, kGroup{-1, 1'000'000};

/// The storage that a method states, before it is applied to the shape's matrices.
struct Scheme {
  Checkpoint checkpoint;
  ModulePatterns excluded, included;  // modules; included empty: all
};

void note(Scheme& scheme, std::string text) { scheme.checkpoint.notes.push_back(std::move(text)); }

ModulePatterns patterns(const JsonFields& f, const FieldName& field) {
  ModulePatterns out;
  const json* const list = f.find(field);
  if (list == nullptr || list->is_null()) return out;
  if (!list->is_array()) f.fail(field, "expected a list of modules' names");
  for (const json& item : *list) {
    if (!item.is_string()) f.fail(field, "expected a list of modules' names");
    out.push_back(item.get<std::string>());
  }
  return out;
}

const FieldName kExcluded = {"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules",
                             "llm_int8_skip_modules"};

DType integer_type(const JsonFields& f, const FieldName& field, std::int32_t bits) {
  if (bits == 4) return DType::int4;
  if (bits == 8) return DType::int8;
  f.fail(field, fmt::format("found {} bits a weight: such weights are not modelled, expected 4 or 8", bits));
}

// Returns the bytes of scales per weight for groups of `size` weights. -1 means one group per row, whose share is
// negligible.
double a_group(std::int32_t size, double bytes) { return size > 0 ? bytes / size : 0; }

std::string groups_text(std::int32_t size) { return size > 0 ? fmt::format("groups of {}", size) : "a scale a row"; }

// GPTQModel: "-:REGEX" excludes modules, "+:REGEX" or "REGEX" states other settings for them.
void read_dynamic(const JsonFields& f, Scheme& scheme) {
  const json* const dynamic = f.find("dynamic");
  if (dynamic == nullptr || !dynamic->is_object()) return;
  for (const auto& [key, settings] : dynamic->items()) {
    if (!key.starts_with("-:"))
      f.fail("dynamic", "other settings for single modules are not modelled: bytes and times of these would be wrong");
    scheme.excluded.push_back("re:" + key.substr(2));
  }
}

// AWQ, GPTQ and AutoRound: integers with a 16-bit scale per group, and a zero point per group unless they are
// symmetric.
Scheme read_integers(const JsonFields& f, const char* name, bool zeros) {
  const FieldName kField = {"bits", "w_bit"};
  const std::int32_t bits = f.whole_or(kField, kBits, 4);
  const std::int32_t group = f.whole_or({"group_size", "q_group_size"}, kGroup, 128);
  Scheme scheme;
  scheme.checkpoint.dtype = integer_type(f, kField, bits);
  scheme.checkpoint.scale_bytes = a_group(group, 2.0 + (zeros ? bits / 8.0 : 0));
  scheme.checkpoint.format = fmt::format("{}, {} bits, {}", name, bits, groups_text(group));
  read_dynamic(f, scheme);
  return scheme;
}

Scheme read_fp8(const JsonFields& f, const char* name) {
  Scheme scheme;
  scheme.checkpoint.dtype = DType::fp8;
  scheme.checkpoint.format = name;
  const json* const block = f.find("weight_block_size");
  if (block == nullptr || block->is_null()) return scheme;
  const bool two =
      block->is_array() && block->size() == 2 && (*block)[0].is_number_unsigned() && (*block)[1].is_number_unsigned();
  if (!two || (*block)[0].get<int>() < 1 || (*block)[1].get<int>() < 1)
    f.fail("weight_block_size", "expected two numbers, as in [128, 128]");
  scheme.checkpoint.scale_bytes = 4.0 / ((*block)[0].get<double>() * (*block)[1].get<double>());
  scheme.checkpoint.format =
      fmt::format("{} in blocks of {} x {}", name, (*block)[0].get<int>(), (*block)[1].get<int>());
  return scheme;
}

Scheme read_mxfp4() {
  Scheme scheme;
  scheme.checkpoint.dtype = DType::mxfp4;
  scheme.checkpoint.format = "MXFP4";
  return scheme;
}

Scheme read_bitsandbytes(const JsonFields& f) {
  Scheme scheme;
  const bool four = f.flag_or({"load_in_4bit", "_load_in_4bit"}, false);
  if (!four && !f.flag_or({"load_in_8bit", "_load_in_8bit"}, false))
    f.fail("load_in_4bit", "found neither 4 nor 8 bits, expected one of load_in_4bit, load_in_8bit");
  scheme.checkpoint.dtype = four ? DType::int4 : DType::int8;
  // A 32-bit maximum per 64 weights. Quantised twice, that becomes 8 bits plus a maximum per 256 of these.
  if (four)
    scheme.checkpoint.scale_bytes =
        f.flag_or("bnb_4bit_use_double_quant", false) ? 1.0 / 64 + 4.0 / (64 * 256) : 4.0 / 64;
  scheme.checkpoint.format = fmt::format("bitsandbytes, {} bits", four ? 4 : 8);
  note(scheme,
       "bitsandbytes widens weights before it multiplies: its kernels are slower than the roofline that prices them");
  return scheme;
}

// --- ModelOpt

void read_cache(const JsonFields& f, const char* field, Checkpoint& checkpoint) {
  const json* const value = f.find(field);
  if (value == nullptr || value->is_null()) return;
  bool fp8 = value->is_string() && (*value == "FP8" || *value == "fp8");
  if (value->is_object()) {
    const auto scheme = f.inside(field);
    fp8 = scheme->whole_or("num_bits", kBits, 16) == 8 && scheme->text_or("type", "float") == "float";
  }
  if (fp8)
    checkpoint.kv_dtype = DType::fp8;
  else if (!value->is_string() || (*value != "auto" && *value != "none" && *value != ""))
    f.fail(field, fmt::format("found {}: such a KV cache is not modelled, expected FP8 or null",
                              shortened(value->dump(), 60)));
}

Scheme read_modelopt(const JsonFields& f) {
  const std::string algorithm = f.text_or("quant_algo", "FP8");
  Scheme scheme;
  if (algorithm == "FP8" || algorithm == "FP8_PER_CHANNEL_PER_TOKEN" || algorithm == "FP8_PB_WO") {
    scheme.checkpoint.dtype = DType::fp8;
  } else if (algorithm == "NVFP4" || algorithm == "NVFP4_AWQ") {
    if (f.whole_or("group_size", kGroup, 16) != 16)
      f.fail("group_size", "expected 16: NVFP4 has a scale for every 16 weights");
    scheme.checkpoint.dtype = DType::nvfp4;
  } else if (algorithm == "W4A16_AWQ") {
    scheme.checkpoint.dtype = DType::int4;
    scheme.checkpoint.scale_bytes = a_group(f.whole_or("group_size", kGroup, 128), 2);
  } else {
    f.fail("quant_algo",
           fmt::format("found '{}': this mixture or type is not modelled, bytes and times of its matrices would be "
                       "wrong; expected FP8, NVFP4 or W4A16_AWQ",
                       shortened(algorithm)));
  }
  scheme.checkpoint.format = "ModelOpt " + algorithm;
  read_cache(f, "kv_cache_quant_algo", scheme.checkpoint);
  read_cache(f, "kv_cache_scheme", scheme.checkpoint);
  return scheme;
}

// --- compressed-tensors

Checkpoint read_group(const JsonFields& f, const JsonFields& group) {
  const auto weights = group.inside("weights");
  if (!weights) f.fail("config_groups", "a group has no 'weights'");
  Checkpoint out;
  const std::int32_t bits = weights->whole("num_bits", kBits);
  const std::string type = weights->text_or("type", "int");
  const std::int32_t size = weights->whole_or("group_size", kGroup, -1);
  if (type == "float" && bits == 8) {
    out.dtype = DType::fp8;
    out.format = "compressed-tensors, fp8";
  } else if (type == "float" && bits == 4) {
    // Both formats are called float with 4 bits; only the size of a group tells them apart.
    const bool mx = size == 32;
    if (!mx && size != 16)
      weights->fail("group_size", fmt::format("found {}, expected 16 (NVFP4) or 32 (MXFP4)", size));
    out.dtype = mx ? DType::mxfp4 : DType::nvfp4;
    out.format = mx ? "compressed-tensors, MXFP4" : "compressed-tensors, NVFP4";
  } else if (type == "int") {
    out.dtype = integer_type(*weights, "num_bits", bits);
    out.scale_bytes = a_group(size, 2.0 + (weights->flag_or("symmetric", true) ? 0 : bits / 8.0));
    out.format = fmt::format("compressed-tensors, {} bits, {}", bits, groups_text(size));
  } else {
    weights->fail("type", fmt::format("found {} bits of '{}', expected 4 or 8 of int or float", bits, shortened(type)));
  }
  const auto inputs = group.inside("input_activations");
  if (inputs && type == "int" && inputs->whole_or("num_bits", kBits, 16) <= 8)
    out.notes.emplace_back("8-bit activations are modelled as 16-bit: prompts are predicted too slow, up to 2 times");
  return out;
}

Scheme read_compressed_tensors(const JsonFields& f) {
  if (const auto sparsity = f.inside("sparsity_config"); sparsity && sparsity->text_or("format", "dense") != "dense")
    f.fail("sparsity_config", "sparse weights are not modelled: their bytes and times would be too large");
  const auto groups = f.inside("config_groups");
  if (!groups || f.find("config_groups")->empty())
    f.fail("config_groups", "is missing, expected the types of the weights");
  Scheme scheme;
  bool first = true, all = false;
  for (const auto& [name, value] : f.find("config_groups")->items()) {
    const auto group = groups->inside(name.c_str());
    if (!group) f.fail("config_groups", "expected an object for each group");
    const Checkpoint read = read_group(f, *group);
    if (!first && !(read == scheme.checkpoint))
      f.fail("config_groups",
             "the groups have different types: such a mixture is not modelled, bytes and times of its matrices would "
             "be wrong");
    scheme.checkpoint = read;
    for (std::string& target : patterns(*group, "targets")) {
      all = all || target == "Linear";
      scheme.included.push_back(std::move(target));
    }
    first = false;
  }
  // "Linear" names every matrix: then nothing needs to be listed.
  if (all) scheme.included.clear();
  read_cache(f, "kv_cache_scheme", scheme.checkpoint);
  return scheme;
}

// --- all methods

struct Method {
  std::string_view name;
  Scheme (*read)(const JsonFields&);
};
constexpr std::array kMethods = {
    Method{"awq", [](const JsonFields& f) { return read_integers(f, "AWQ", f.flag_or("zero_point", true)); }},
    Method{"gptq", [](const JsonFields& f) { return read_integers(f, "GPTQ", true); }},
    Method{"fp8", [](const JsonFields& f) { return read_fp8(f, "fp8"); }},
    Method{"mxfp4", [](const JsonFields&) { return read_mxfp4(); }},
    Method{"modelopt", read_modelopt},
    Method{"compressed-tensors", read_compressed_tensors},
    Method{"bitsandbytes", read_bitsandbytes},
    Method{"fbgemm_fp8", [](const JsonFields& f) { return read_fp8(f, "fp8, a scale a row"); }},
    Method{"auto-round", [](const JsonFields& f) { return read_integers(f, "AutoRound", !f.flag_or("sym", true)); }},
    Method{"awq_marlin", [](const JsonFields& f) { return read_integers(f, "AWQ", f.flag_or("zero_point", true)); }},
    Method{"gptq_marlin", [](const JsonFields& f) { return read_integers(f, "GPTQ", true); }},
    Method{"modelopt_fp4", read_modelopt},
    Method{"compressed_tensors", read_compressed_tensors},
};

// ModelOpt's files may state only their producer. Files with nothing but load_in_4bit are old ones of bitsandbytes.
std::string method_of(const JsonFields& f) {
  if (!f.is_null("quant_method")) return f.text("quant_method");
  if (!f.is_null("quant_algo")) return "modelopt";
  if (!f.is_null("load_in_4bit") || !f.is_null("load_in_8bit")) return "bitsandbytes";
  f.fail("quant_method", "is missing: how the weights are quantised is not known");
}

Scheme read_scheme(const JsonFields& f) {
  const std::string name = method_of(f);
  const auto* const method =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const Method& m) { return m.name == name; });
  if (method == kMethods.end()) {
    std::vector<std::string_view> names;
    for (const Method& m : kMethods) names.push_back(m.name);
    f.fail("quant_method",
           fmt::format("found '{}': weights of this method are not modelled, their bytes and kernels would be wrong; "
                       "expected one of {}, or the config.json of the model before it was quantised with `dtype`",
                       shortened(name), fmt::join(names, ", ")));
  }
  // ModelOpt may modify DeepSeek's own fp8 files; these then state fp8 beside ModelOpt's algorithm.
  Scheme scheme = name == "fp8" && !f.is_null("quant_algo") ? read_modelopt(f) : method->read(f);
  for (std::string& pattern : patterns(f, kExcluded)) scheme.excluded.push_back(std::move(pattern));
  return scheme;
}

// Up to a tenth of the layers may differ, as the first and last layers often do. More would be a different model.
void lay_on(const JsonFields& f, const model::LlmShape& shape, Scheme& scheme) {
  const auto mark = [&](const ModulePatterns& modules, bool meant_is_wide) {
    for (const MatrixShare& share : matrices_meant(modules, shape)) {
      const std::string_view matrix = model::name(share.matrix);
      const std::int32_t wide = meant_is_wide ? share.meant : share.layers - share.meant;
      const bool mostly = wide * 10 >= share.layers * 9, hardly = wide * 10 <= share.layers;
      if (!mostly && !hardly)
        f.fail(kExcluded, fmt::format("'{}' keeps 16 bits in {} of {} layers: such a mixture is not modelled, its "
                                      "bytes and times would be wrong",
                                      matrix, wide, share.layers));
      if (mostly && share.layers > 0) scheme.checkpoint.wide.emplace_back(matrix);
      if (wide != 0 && wide != share.layers)
        note(scheme, fmt::format("'{}' keeps 16 bits in {} of {} layers, here in {}", matrix, wide, share.layers,
                                 mostly ? "all" : "none"));
    }
  };
  try {
    if (!scheme.excluded.empty()) mark(scheme.excluded, true);
    if (!scheme.included.empty()) mark(scheme.included, false);
  } catch (const std::regex_error&) {
    f.fail(kExcluded, "holds a regular expression that cannot be read");
  }
}

std::optional<DType> stored_type(const JsonFields& f, std::vector<std::string>& notes) {
  const FieldName kField = {"dtype", "torch_dtype"};
  if (f.is_null(kField)) return {};
  std::string name = f.text(kField);
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "auto") return {};
  const std::optional<DType> dtype = model::dtype_from_name(name);
  if (!dtype) f.fail(kField, fmt::format("found '{}', expected bfloat16, float16 or float32", shortened(name)));
  if (*dtype != DType::fp32) return dtype;
  notes.emplace_back(
      "the checkpoint is stored in float32, which servers load as fp16; state 'dtype: fp32' for 32 bits");
  return DType::fp16;
}

// NVIDIA's file: {"producer": …, "quantization": {"quant_algo": …, "exclude_modules": […]}}.
std::optional<JsonFields> beside(const JsonFields& f) {
  const std::filesystem::path file = std::filesystem::path(f.file()).parent_path() / "hf_quant_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  return JsonFields::from_file(file.string()).inside("quantization");
}

std::optional<JsonFields> quantisation(const JsonFields& whole, const JsonFields& text) {
  for (const JsonFields* f : {&text, &whole})
    for (const char* const field : {"quantization_config", "compression_config"})
      if (auto found = f->inside(field); found && !f->find(field)->empty()) return found;
  return beside(whole);
}

}  // namespace

std::optional<Checkpoint> read_checkpoint(const JsonFields& whole, const JsonFields& text,
                                          const model::LlmShape& shape) {
  std::vector<std::string> notes;
  std::optional<DType> dtype = stored_type(text, notes);
  if (!dtype) dtype = stored_type(whole, notes);
  if (const auto f = quantisation(whole, text)) {
    Scheme scheme = read_scheme(*f);
    // Servers quantise only the experts of gpt-oss, whatever the list says.
    if (shape.family == "gpt_oss" && scheme.excluded.empty()) scheme.excluded = {"self_attn"};
    lay_on(*f, shape, scheme);
    return scheme.checkpoint;
  }
  if (!dtype) return {};
  Checkpoint plain;
  plain.dtype = *dtype;
  plain.format = model::name(*dtype);
  plain.notes = std::move(notes);
  return plain;
}

}  // namespace plimsoll::configs
