# SPDX-License-Identifier: Apache-2.0
"""Compares logits and greedy tokens of the program with transformers on the same GPU.

Arguments: the program, a folder to work in. Prints CSV with a line for each model, type and prompt: the relative L2
distance of the logits, and whether every greedy token has a logit near the largest one of transformers, which sees the
same tokens before it. Exits with 1 if a dense model is off; a mixture of experts in bf16 may take another expert.

The models have random weights and a width of 1792, so that products take the main loop of their kernel. scripts/gpu/run
calls it.
"""
import json
import math
import os
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file

PROGRAM, FOLDER = sys.argv[1:3]
PROMPTS = (1, 3, 17, 130, 700, 1500)
GENERATED = 24
VARIANTS = {"f32": [], "bf16": [], "bf16 in pieces": ["--chunk", "61", "--block-size", "3"]}
LARGEST = {"f32": 2e-5, "bf16": 3e-2}  # relative L2 distance; f32 sums differ in their order only
MARGIN = 0.02                          # of the largest logit, within which bf16 may choose another token
VOCABULARY = 1031
COMMON = dict(vocab_size=VOCABULARY, hidden_size=1792, intermediate_size=4224, num_hidden_layers=4,
              max_position_embeddings=4096, tie_word_embeddings=False)
ROPE = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=256)
HEADS = dict(num_attention_heads=8, num_key_value_heads=2)
MODELS = {
    "llama_seven_queries": ("LlamaConfig", dict(num_attention_heads=7, num_key_value_heads=1, head_dim=64)),
    "llama3_128": ("LlamaConfig", dict(**HEADS, head_dim=128, rope_parameters=ROPE)),
    "mistral_window": ("MistralConfig", dict(num_attention_heads=8, num_key_value_heads=4, head_dim=96, sliding_window=100)),
    "qwen3_80": ("Qwen3Config", dict(**HEADS, head_dim=80)),
    "llama_256": ("LlamaConfig", dict(num_attention_heads=4, num_key_value_heads=1, head_dim=256)),
    "llama_40_plain": ("LlamaConfig", dict(**HEADS, head_dim=40)),
    "mixtral": ("MixtralConfig", dict(**HEADS, num_local_experts=8, num_experts_per_tok=2)),
}


def write_model(name, config):
    """Saves a model of random weights as bf16; returns it in f32 on the GPU, with the rounded weights."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() >= 2:
                weight.normal_(0, 1.2 / math.sqrt(weight.shape[-1]))
    folder = os.path.join(FOLDER, name)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return folder, model.cuda().eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens], device="cuda")).logits[0].float().cpu()


def tokens_are_near(model, prompt, generated):
    logits = logits_of(model, (prompt + generated)[:-1])[len(prompt) - 1:]
    return all(row.max() - row[token] <= MARGIN * row.abs().max() for row, token in zip(logits, generated))


def compare(name, folder, model):
    """Prints the lines of a model; returns whether all are near."""
    torch.manual_seed(2)
    prompts = {f"{length}": torch.randint(0, VOCABULARY, (length,)).tolist() for length in PROMPTS}
    with open(f"{folder}/prompts.jsonl", "w") as file:
        file.writelines(json.dumps({"id": i, "tokens": tokens}) + "\n" for i, tokens in prompts.items())
    expected = {i: logits_of(model, tokens) for i, tokens in prompts.items()}
    good = True
    for variant, options in VARIANTS.items():
        dtype = variant.split()[0]
        run = subprocess.run([PROGRAM, "forward", folder, "--device", "cuda", "--tokens", f"{folder}/prompts.jsonl",
                              "--generate", str(GENERATED), "--out", f"{folder}/out", "--dtype", dtype] + options,
                             capture_output=True, text=True, timeout=60)
        if run.returncode:
            print(name, variant, "", "", f"exit status {run.returncode}: {run.stderr[-200:]!r}", sep=",", flush=True)
            good = False
            continue
        logits = load_file(f"{folder}/out/logits.safetensors")
        with open(f"{folder}/out/tokens.jsonl") as file:
            generated = {line["id"]: line["tokens"] for line in map(json.loads, file)}
        for i, tokens in prompts.items():
            distance = float((logits[i] - expected[i]).norm() / expected[i].norm())
            near = tokens_are_near(model, tokens, generated[i])
            print(name, variant, i, f"{distance:.2e}", "near" if near else "off", sep=",", flush=True)
            if dtype == "f32" or name != "mixtral":
                good = good and near and distance <= LARGEST[dtype]
    return good


torch.backends.cuda.matmul.allow_tf32 = False
print("model,variant,prompt_tokens,logits_distance,greedy_tokens")
all_good = True
for model_name, (kind, fields) in MODELS.items():
    try:
        path, reference = write_model(model_name, getattr(transformers, kind)(**COMMON, **fields))
        all_good = compare(model_name, path, reference) and all_good
    except Exception as error:  # a failing model must not prevent the others from running
        print(model_name, "", "", "", f"{error!r}"[:200].replace(",", ";"), sep=",", flush=True)
        all_good = False
sys.exit(0 if all_good else 1)
