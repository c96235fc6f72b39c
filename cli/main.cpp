// SPDX-License-Identifier: Apache-2.0
// plimsoll VERB …: finds the verb, runs it, and converts exceptions to one message and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/ranks.h"
#include "configs/catalogue.h"
#include "configs/quantity.h"
#include "model/error.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::cli;

constexpr std::array kCommands = {
    Command{"simulate", "simulates the points of a study", run_simulate, false, true},
    Command{"measure", "measures the same points on this machine's CPU or GPUs", run_measure, false, true},
    Command{"serve", "serves a simulated deployment as an OpenAI-compatible endpoint, in real time", run_serve},
    Command{"plan", "finds the cheapest deployment that carries a load within its SLO", run_plan, false, true},
    Command{"memory", "shows what fits: memory of a GPU, KV capacity, critical batch", run_memory},
    Command{"forward", "computes logits and greedy tokens of token ids, to compare with other programs", run_forward},
    Command{"init", "writes a commented study file to start from", run_init},
    Command{"trace", "summarises a trace file", run_trace},
    Command{"validate", "compares predictions with published or measured figures", run_validate},
    Command{"import", "reads results of other load generators as points", run_import},
    Command{"export", "writes points in the format of other tools", run_export},
    Command{"calibrate", "measures this machine, for hardware: this-machine; fits your own engine", run_calibrate},
    Command{"list", "lists models, accelerators, interconnects, instances, engines, policies, routers, formats",
            run_list},
    Command{"gui", "opens the desktop program: curves simulated live, beside measured ones", run_gui},
    Command{kPoolMember, "runs the prefill replicas of a measured point", run_pool_member, true},
    Command{"demo", "what ./plimsoll does without arguments", run_demo, true},
};

std::vector<std::string> shown_verbs() {
  std::vector<std::string> verbs;
  for (const Command& command : kCommands) {
    if (!command.hidden) verbs.emplace_back(command.verb);
  }
  return verbs;
}

int print_help() {
  std::string text =
      "plimsoll: how much traffic does an LLM deployment carry within its latency target, and at what cost?\n\n"
      "usage: plimsoll VERB [arguments]\n\n";
  for (const Command& command : kCommands) {
    if (!command.hidden) text += fmt::format("  {:<10} {}\n", command.verb, command.summary);
  }
  text += "  setup      installs CUDA on a machine with a GPU but no toolkit: ./plimsoll setup --cuda, in a checkout\n";
  text +=
      "\nAll verbs accept --catalogue DIR: your own models, accelerators, instances and engines, which override the "
      "shipped ones.\n";
  text +=
      "\n`plimsoll VERB --help` says more. Exit codes: 0 done; 2 bad input; 3 device or environment failure;\n"
      "4 nothing meets the SLO, or an error is above --max-error; 130 interrupted.\n"
      "`plimsoll --version` shows the build.\n\n"
      "example:\n  plimsoll simulate --model llama-3.1-8b --hardware h100 --rate 4,8,16 --input 1000 --output 300\n"
      "  plimsoll simulate configs/studies/jumpstart-7b-p4d.yaml\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

// cli/CMakeLists.txt defines these macros, which describe the build.
int print_version() {
  const std::string text = fmt::format("plimsoll {}\nbuilt with {} {}, {}; CUDA: {}\nstudies and catalogue: {}\n",
                                       PLIMSOLL_VERSION, PLIMSOLL_COMPILER, __VERSION__, PLIMSOLL_BUILD_TYPE,
                                       std::string_view(PLIMSOLL_CUDA_VERSION).empty()
                                           ? "no (./plimsoll setup --cuda, or install the toolkit, and rebuild)"
                                           : PLIMSOLL_CUDA_VERSION,
                                       configs::Catalogue::default_root());
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

// --catalogue DIR applies to every verb and to the processes that it starts.
Arguments without_catalogue(const Arguments& all) {
  constexpr std::string_view kOption = "--catalogue";
  Arguments rest;
  std::string folders;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool joined = all[i].starts_with("--catalogue=");
    if (!joined && all[i] != kOption) {
      rest.push_back(all[i]);
      continue;
    }
    if (!joined && i + 1 == all.size())
      throw InputError("--catalogue needs a folder: a catalogue of your own (docs/catalogue.md)");
    folders += (folders.empty() ? "" : ":") + (joined ? all[i].substr(kOption.size() + 1) : all[++i]);
  }
  if (!folders.empty()) ::setenv("PLIMSOLL_CATALOGUE", folders.c_str(), 1);
  return rest;
}

int run(const Arguments& given, Console& console) {
  const Arguments all = without_catalogue(given);

  if (all.empty())
    throw InputError(
        fmt::format("a verb is missing, allowed: {}; see plimsoll --help", fmt::join(shown_verbs(), ", ")));
  const std::string& verb = all.front();
  if (verb == "help" && all.size() > 1) return run({all[1], "--help"}, console);
  if (verb == "--help" || verb == "-h" || verb == "help") return print_help();
  if (verb == "--version" || verb == "-V" || verb == "version") return print_version();
  const auto* const found =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.verb == verb; });
  if (found != kCommands.end()) {
    if (!found->spreads) Ranks::refuse_several(verb);
    return found->run(Arguments(all.begin() + 1, all.end()), console);
  }
  const std::vector<std::string> verbs = shown_verbs();
  const std::string_view near = configs::nearest(verb, verbs);
  throw InputError(fmt::format("unknown verb '{}'{}; allowed: {}", verb,
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(verbs, ", ")));
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argv + std::min(argc, 1), argv + argc);
  Console console;
  configure_console(console, arguments);
  int code = kDone;
  try {
    code = run(arguments, console);
  } catch (const InputError& error) {
    code = kBadInput;
    console.error(error.where(), error.text(), code);
  } catch (const DeviceError& error) {
    code = kDeviceFailed;
    console.error({}, error.what(), code);
  } catch (const std::system_error& error) {  // an error of a file system or thread that no check foresaw
    code = kDeviceFailed;
    console.error({}, error.what(), code);
  } catch (const std::bad_alloc&) {
    code = kDeviceFailed;
    console.error({}, "out of memory: use fewer requests, points or tokens", code);
  }
  return console.finish(code);
}
