// SPDX-License-Identifier: Apache-2.0
// plimsoll forward MODEL --tokens F.jsonl: writes the executor's results to files that can be compared with those of
// other programs (docs/forward.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "configs/this_machine.h"
#include "exec/live/prompt_runner.h"
#include "exec/weights/open_model.h"
#include "exec/weights/safetensors_writer.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

constexpr std::int64_t kMaxTokens = 1'000'000, kMaxRanks = 64, kMaxForwardThreads = 1024;
constexpr std::uint64_t kDefaultSeed = 1;

Usage forward_usage() {
  Usage usage{
      .verb = "forward",
      .positional = "MODEL",
      .summary =
          "Runs prompts of token ids through the executor. Writes greedy continuations to standard output and\n"
          "tokens.jsonl, and the prompts' logits to logits.safetensors (docs/forward.md). MODEL is a folder with\n"
          "config.json and .safetensors, or a .safetensors file or index beside its config.json. A config.json\n"
          "alone or a name of the catalogue gets random weights.",
      .example =
          "  plimsoll forward tests/golden/models/llama --tokens tests/golden/models/llama/prompts.jsonl \\\n"
          "    --generate 12 --out out/llama\n",
      .positional_required = true,
      .options = po::options_description("Options"),
      .without = {"set", "format", "stepwise"}};
  auto add = usage.options.add_options();
  const auto text = [] { return po::value<std::string>(); };
  add("tokens", text()->value_name("FILE"), "prompts, one {\"id\": …, \"tokens\": […]} a line");
  add("generate", text()->value_name("N"), "greedy tokens to generate after each prompt (default: 0, only logits)");
  add("dtype", text()->value_name("f32|bf16|int8|int4"),
      "of weights and KV cache (default: f32); with int8 and int4, those of a quantised checkpoint or rounded on load, "
      "the cache is bf16");
  add("device", text()->value_name("cpu|cuda"), "where to compute (default: cpu)");
  add("tp", text()->value_name("N"), "tensor-parallel ranks (default: 1)");
  add("chunk", text()->value_name("N"), "most tokens of a prompt in one forward (default: whole prompts)");
  add("block-size", text()->value_name("N|max"), "tokens in a KV block (default: 16); max: a whole sequence");
  add("threads", text()->value_name("N"), "CPU threads of all ranks (default: --jobs, else one per core)");
  return usage;
}

template <class Value, std::size_t N>
Value one_of(const Parsed& parsed, const char* name, const std::pair<const char*, Value> (&values)[N]) {
  const std::string found = text_option(parsed, name, values[0].first);
  std::vector<std::string> names;
  for (const auto& [text, value] : values) {
    if (found == text) return value;
    names.emplace_back(text);
  }
  throw InputError(fmt::format("--{}: found '{}', allowed: {}", name, found, fmt::join(names, ", ")));
}

struct ForwardRequest {
  std::string tokens_file;
  std::uint64_t seed = kDefaultSeed;
  exec::EngineConfig engine;
  exec::PromptRun run;
};

ForwardRequest read_forward_request(const Parsed& parsed) {
  constexpr std::pair<const char*, model::DType> kDTypes[] = {{"f32", model::DType::fp32},
                                                              {"bf16", model::DType::bf16},
                                                              {"int8", model::DType::int8},
                                                              {"int4", model::DType::int4}};
  constexpr std::pair<const char*, exec::DeviceKind> kDevices[] = {{"cpu", exec::DeviceKind::cpu},
                                                                   {"cuda", exec::DeviceKind::cuda}};
  ForwardRequest request;
  request.tokens_file = text_option(parsed, "tokens", "");
  if (request.tokens_file.empty())
    throw InputError("--tokens is missing: a file of prompts, one {\"id\": …, \"tokens\": […]} a line");
  request.seed = parsed.common.seed.value_or(kDefaultSeed);
  request.engine.weight_dtype = one_of(parsed, "dtype", kDTypes);
  request.engine.kv_dtype = request.engine.weight_dtype == model::DType::fp32 ? model::DType::fp32 : model::DType::bf16;
  request.engine.device = one_of(parsed, "device", kDevices);
  request.engine.tp = static_cast<std::int32_t>(whole_option(parsed, "tp", {1, kMaxRanks}, 1));
  request.engine.threads =
      static_cast<int>(whole_option(parsed, "threads", {1, kMaxForwardThreads}, parsed.common.jobs));
  request.run.generate = whole_option(parsed, "generate", {0, kMaxTokens}, 0);
  request.run.chunk = whole_option(parsed, "chunk", {1, kMaxTokens}, 0);
  const bool whole = text_option(parsed, "block-size", "") == "max";
  request.run.block_tokens =
      whole ? 0 : static_cast<std::int32_t>(whole_option(parsed, "block-size", {1, kMaxTokens}, 16));
  if (request.run.generate == 0 && parsed.common.out.empty())
    throw InputError("nothing to do: expected --generate N for tokens, --out DIR for logits, or both");
  return request;
}

std::string tokens_text(const std::vector<exec::Prompt>& prompts,
                        const std::vector<std::vector<std::int32_t>>& tokens) {
  std::string text;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    text += fmt::format("{{\"id\": {}, \"tokens\": [{}]}}\n", nlohmann::json(prompts[i].id).dump(),
                        fmt::join(tokens[i], ", "));
  return text;
}

std::unique_ptr<exec::SafetensorsWriter> open_logits(const std::string& folder,
                                                     const std::vector<exec::Prompt>& prompts,
                                                     std::int64_t vocabulary) {
  if (folder.empty()) return nullptr;
  std::vector<exec::SafetensorsWriter::Tensor> tensors;
  for (const exec::Prompt& prompt : prompts)
    tensors.push_back({prompt.id, static_cast<std::int64_t>(prompt.tokens.size()), vocabulary});
  return std::make_unique<exec::SafetensorsWriter>(folder + "/logits.safetensors", tensors);
}

/// The experts that were chosen for every row of every prompt.
struct ChosenExperts {
  struct Row {
    std::size_t prompt = 0;
    exec::RowExperts chosen;
  };
  std::vector<Row> rows;

  /// Returns one line for every token and layer: experts.jsonl.
  [[nodiscard]] std::string text(const std::vector<exec::Prompt>& prompts) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::tuple(a.prompt, a.chosen.row, a.chosen.layer) < std::tuple(b.prompt, b.chosen.row, b.chosen.layer);
    });
    std::string lines;
    for (const auto& [prompt, chosen] : rows)
      lines += fmt::format("{{\"id\": {}, \"token\": {}, \"layer\": {}, \"experts\": [{}], \"margin\": {:.6f}}}\n",
                           nlohmann::json(prompts[prompt].id).dump(), chosen.row, chosen.layer,
                           fmt::join(chosen.experts, ", "), std::min(chosen.margin, 1.0F));
    return lines;
  }

  /// Returns a sentence about choices of experts that rounding may change; empty if there are none.
  [[nodiscard]] std::string nearly_tied(const std::vector<exec::Prompt>& prompts) const {
    constexpr float kNear = 0.01F;  // bf16 keeps 8 bits, and an error of 1 % adds up in a dozen products
    const Row* nearest = nullptr;
    std::int64_t count = 0;
    for (const Row& row : rows) {
      count += row.chosen.margin < kNear ? 1 : 0;
      if (nearest == nullptr || row.chosen.margin < nearest->chosen.margin) nearest = &row;
    }
    if (count == 0) return {};
    return fmt::format(
        "{} of {} choices of experts are nearly tied (margin below {}); the nearest: prompt {}, token {}, layer {}, "
        "margin {:.1e}. Another rounding may choose other experts there, which changes the logits of that token",
        count, rows.size(), kNear, prompts[nearest->prompt].id, nearest->chosen.row, nearest->chosen.layer,
        nearest->chosen.margin);
  }
};

/// Returns nullopt if it was interrupted.
std::optional<std::vector<std::vector<std::int32_t>>> compute(exec::Engine& engine,
                                                              const std::vector<exec::Prompt>& prompts,
                                                              exec::PromptRun run, Console& console) {
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  run.on_progress = [&](double done) {
    console.progress(done * static_cast<double>(prompts.size()), prompts.size());
    control.check_in();
    return !control.cancelled();
  };
  auto tokens = exec::run_prompts(engine, prompts, run);
  if (control.cancelled()) return {};
  return tokens;
}

}  // namespace

int run_forward(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(forward_usage(), arguments, console);
  if (!parsed) return kDone;
  ForwardRequest request = read_forward_request(*parsed);
  const configs::Catalogue catalogue;
  const exec::OpenModel model = exec::open_model(parsed->operand, request.seed, catalogue);
  const model::LlmShape& shape = model.architecture.shape;
  const std::vector<exec::Prompt> prompts = exec::read_prompts(
      request.tokens_file,
      {.vocabulary = shape.vocab, .positions = shape.max_position, .generated = request.run.generate});
  const std::string& out = parsed->common.out;
  if (!out.empty()) study::make_folder(out);  // before minutes of loading, in case it fails

  request.engine.architecture = model.architecture;
  if (request.engine.device == exec::DeviceKind::cpu) request.engine.tuning = configs::calibrated_tuning();
  exec::make_room(prompts, request.run, request.engine);
  exec::Engine engine(request.engine, *model.weights);
  console.note(fmt::format("{}, {}: {}", shape.id, model.origin, engine.description()));
  if (const std::string note = engine.note(); !note.empty()) console.note(note);

  const auto logits = open_logits(out, prompts, shape.vocab);
  if (logits)
    request.run.on_logits = [&](std::size_t prompt, std::int64_t row, std::span<const float> values) {
      logits->write(prompt, row, values);
    };
  ChosenExperts experts;
  if (logits)
    request.run.on_experts = [&](std::size_t prompt, const exec::RowExperts& chosen) {
      experts.rows.push_back({prompt, chosen});
    };
  const auto tokens = compute(engine, prompts, request.run, console);
  if (!tokens) {
    console.warn("interrupted: nothing is written");
    return kInterrupted;
  }
  const std::string text = tokens_text(prompts, *tokens);
  if (logits) {
    logits->close();  // a full disk fails here, before either file has its final name
    study::PendingFile continuations(out + "/tokens.jsonl", text);
    logits->finish();
    continuations.commit();
    if (!experts.rows.empty()) study::PendingFile(out + "/experts.jsonl", experts.text(prompts)).commit();
    if (const std::string tied = experts.nearly_tied(prompts); !tied.empty()) console.note(tied);
  }
  if (request.run.generate > 0) console.print(text);
  return kDone;
}

}  // namespace plimsoll::cli
