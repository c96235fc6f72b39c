#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the executor with transformers on random small models of every family.

    VENV/bin/python tests/golden/fuzz_parity.py --count 60 --seed 1 --program build/release/plimsoll

Sizes, constants and variants are drawn from what a family's class accepts. In f32 the largest difference must be below
1e-5 of the largest logit, with whole prompts and with chunks. A model that is refused counts as wrong, unless its
message names the field that a drawn constant set. Without --program the folders are only made: each has config.json,
weights, prompts and logits as make_golden.py describes. The exit code is 1 if a model differs.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import make_golden
import safetensors.torch
import torch

TOLERANCE = 1e-5
SKIPPED = {"gpt_oss_mxfp4", "gptj_whole"}


def draw_options(r):
    heads = r.choice([1, 2, 3, 4, 6, 8])
    head = r.choice([8, 12, 16, 20, 32])
    kv_heads = r.choice([k for k in range(1, heads + 1) if heads % k == 0])
    return argparse.Namespace(
        seed=r.randrange(1, 10**6), hidden=heads * head, layers=r.choice([1, 2, 3]), heads=heads, kv_heads=kv_heads,
        head_dim=r.choice([0, 0, 8, 24, 40]), vocab=r.choice([17, 97, 130]), ffn=r.choice([48, 100, 176]),
        dtype="float32", lengths=(1, r.choice([3, 9, 17]), r.choice([33, 70])))


def draw_rope(r, config):
    length = config["max_position_embeddings"]
    theta = r.choice([100.0, 10000.0, 1e6])
    factor = r.choice([2.0, 8.0])
    kind = r.choice(["default", "default", "linear", "llama3", "yarn", "dynamic"])
    if kind == "llama3":
        return make_golden.rope(kind, theta, factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                                original_max_position_embeddings=32)
    if kind == "yarn":
        return make_golden.rope(kind, theta, factor=factor, original_max_position_embeddings=32,
                                **r.choice([{}, {"truncate": False}, {"attention_factor": 1.3}]))
    if kind == "dynamic":
        return make_golden.rope(kind, theta, factor=factor, original_max_position_embeddings=length)
    return make_golden.rope(kind, theta, **({"factor": factor} if kind == "linear" else {}))


def draw_experts(r, config):
    """Returns the fields with counts of experts, whose names differ between families."""
    experts, chosen = r.choice([4, 6, 8, 12]), r.choice([1, 2, 3, 4])
    for field in ("num_experts", "num_local_experts", "n_routed_experts"):
        if field in config:
            config[field] = experts
    config["num_experts_per_tok"] = chosen
    if "decoder_sparse_step" in config:
        config |= dict(decoder_sparse_step=r.choice([1, 1, 2]), mlp_only_layers=r.choice([[], [0]]),
                       norm_topk_prob=r.random() < 0.5)
    if "shared_expert_intermediate_size" in config:
        config["shared_expert_intermediate_size"] = r.choice([20, 64])
    if "n_shared_experts" in config:
        config |= dict(n_shared_experts=r.choice([1, 2]), first_k_dense_replace=r.choice([0, 1]))
    if config.get("topk_method") == "group_limited_greedy" or "n_group" in config:
        groups = r.choice([g for g in (1, 2, 4) if experts % g == 0 and experts // g >= 2])
        opened = r.choice([g for g in range(1, groups + 1) if g * (experts // groups) >= chosen])
        config |= dict(n_group=groups, topk_group=opened)
    return config


def draw_latents(r, config):
    return config | dict(q_lora_rank=r.choice([None, 12, 40]), kv_lora_rank=r.choice([8, 20, 48]),
                         qk_nope_head_dim=r.choice([6, 16]), qk_rope_head_dim=r.choice([4, 10]),
                         v_head_dim=r.choice([8, 14]))


def mutate(r, family, config):
    prefix = family[0]
    config = dict(config)
    if "intermediate_size" in config:  # as Llama
        config["rms_norm_eps"] = r.choice([1e-6, 1e-5, 0.1])
        plain = config.get("rope_parameters") is None
        if plain and prefix not in ("Gemma3", "Glm", "Glm4", "Glm4Moe", "Nemotron", "MiniMaxM2", "Phi3"):
            config["rope_parameters"] = draw_rope(r, config)
    if prefix in ("Llama", "Qwen2", "Qwen3", "Mistral", "Granite", "Olmo2"):
        config["hidden_act"] = r.choice(["silu", "gelu", "gelu_pytorch_tanh", "relu"])
        config["tie_word_embeddings"] = r.random() < 0.3
    if prefix in ("Llama", "Granite"):
        config |= dict(attention_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3)
    if prefix in ("Qwen3", "Qwen3Moe", "SmolLM3", "Glm", "Glm4", "Glm4Moe", "Gemma2", "Gemma3", "Nemotron"):
        config["attention_bias"] = r.random() < 0.4
    if prefix in ("Mistral", "Mixtral", "Phi3"):
        config["sliding_window"] = r.choice([None, 1, 5, 300])
    if prefix in ("Qwen2", "Qwen3", "Qwen2Moe"):
        config |= dict(use_sliding_window=r.random() < 0.5, sliding_window=7, max_window_layers=r.choice([0, 1, 2]))
        config.pop("layer_types", None)
    if "n_routed_experts" in config and "kv_lora_rank" in config:
        config = draw_latents(r, config)
    if any(field in config for field in ("num_experts", "num_local_experts", "n_routed_experts")):
        config = draw_experts(r, config)
    if prefix == "GptOss":
        config |= dict(attention_bias=r.random() < 0.7, swiglu_limit=r.choice([0.5, 7.0]),
                       sliding_window=r.choice([3, 128]))
    return (prefix, config, "float32")


def draw_model(r, out, index):
    """Draws until a class accepts the configuration. Returns the model's folder."""
    while True:
        options = draw_options(r)
        options.out = out
        known = {name: family for name, family in make_golden.families(options).items() if name not in SKIPPED}
        name = r.choice(sorted(known))
        family = mutate(r, known[name], known[name][1])
        # The drawn sizes cannot be divided, or the class requires others.
        if family[0] in ("GPTJ", "Falcon", "OPT") and options.hidden // options.heads % 4 != 0:
            continue
        if "longrope" in str(family[1].get("rope_parameters")):  # executed up to the trained length
            options.lengths = tuple(min(length, 60) for length in options.lengths)
        folder = f"{index:03}_{name}"
        try:
            make_golden.make(folder, options, family)
        except (ValueError, TypeError, RuntimeError, IndexError, SystemExit) as error:
            print(f"{folder}: drawn again: {str(error).splitlines()[0][:100]}")
            shutil.rmtree(out / folder, ignore_errors=True)
            continue
        return out / folder


def worst_difference(folder, found):
    expected = safetensors.torch.load_file(folder / "expected.safetensors")
    worst = 0.0
    for name, values in expected.items():
        difference = float((found[name] - values).abs().max() / values.abs().max())
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def compare(folder, program):
    """Returns a description of the difference, or None."""
    for more in ([], ["--chunk", "5", "--block-size", "3"]):
        with tempfile.TemporaryDirectory() as out:
            command = [program, "forward", str(folder), "--tokens", str(folder / "prompts.jsonl"), "--out", out, *more]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
            worst = worst_difference(folder, safetensors.torch.load_file(pathlib.Path(out) / "logits.safetensors"))
            if not worst <= TOLERANCE:
                return f"{worst:.1e} of the largest logit {' '.join(more)}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", help="the built plimsoll")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/parity"), help="folder of the models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    r = random.Random(options.seed)
    wrong = 0
    for index in range(options.count):
        folder = draw_model(r, options.out, index)
        problem = compare(folder, options.program) if options.program else None
        if problem:
            wrong += 1
            print(f"{folder.name}: {problem}: {json.dumps(json.loads((folder / 'config.json').read_text()))}")
    if options.program:
        print(f"{options.count - wrong} of {options.count} models agree")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
