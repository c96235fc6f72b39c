#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of tests/golden/models: tiny models of every family with what Hugging Face transformers computes.

    python3 -m venv VENV && VENV/bin/pip install torch transformers safetensors numpy
    VENV/bin/python tests/golden/make_golden.py                          # all of tests/golden/models
    VENV/bin/python tests/golden/make_golden.py --family llama --seed 7 --hidden 160 --heads 2 --out /tmp/other

A fixture is a folder with config.json and weights as transformers saves them, prompts.jsonl ({"id", "tokens"}),
expected.safetensors (the prompts' logits, one [length, vocabulary] f32 tensor an id) and expected.jsonl ({"id",
"tokens": the greedy continuation, "margins": best minus second best logit of each of them}). Weights are rounded to the
type they are saved in first; the reference then computes in f32 and without a cache, one prompt at a time.

All parameters are random: transformers starts biases at 0 and norms at 1, which would hide one that is left out.
"""

import argparse
import json
import pathlib
import shutil
import sys

import numpy
import safetensors
import safetensors.torch
import torch
import transformers
from transformers import AutoModelForCausalLM

transformers.utils.logging.disable_progress_bar()

LENGTHS = (1, 2, 16, 40)
GENERATED = 12


def rope(kind="default", theta=10000.0, **others):
    return {"rope_type": kind, "rope_theta": theta, **others}


def sizes(options, **others):
    """Returns the fields that most configurations share."""
    config = dict(vocab_size=options.vocab, hidden_size=options.hidden, num_hidden_layers=options.layers,
                  num_attention_heads=options.heads, bos_token_id=0, eos_token_id=1)
    return config | others


def llama_like(options, kv_heads, **others):
    config = sizes(options, num_key_value_heads=options.kv_heads or kv_heads, intermediate_size=options.ffn,
                   max_position_embeddings=128, tie_word_embeddings=False)
    if options.head_dim:
        config["head_dim"] = options.head_dim
    return config | others


def falcon(options, **others):
    # num_kv_heads counts only without multi_query, or with the new decoder.
    return sizes(options, ffn_hidden_size=options.ffn, max_position_embeddings=128, alibi=False) | others


def families(o):
    """name -> (class prefix, configuration, type of the saved weights)."""
    c = {}
    c["llama"] = ("Llama", llama_like(o, o.heads, rms_norm_eps=1e-6), "float32")
    c["llama3"] = ("Llama", llama_like(
        o, max(1, o.heads // 2), num_hidden_layers=o.layers + 1, rms_norm_eps=1e-5,
        rope_parameters=rope("llama3", 10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64)), "bfloat16")
    c["llama_linear"] = ("Llama", llama_like(o, max(1, o.heads // 2), rope_parameters=rope("linear", 500.0, factor=4.0)),
                         "float16")
    c["llama_bias"] = ("Llama", llama_like(o, 1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), "bfloat16")
    c["mistral"] = ("Mistral", llama_like(o, max(1, o.heads // 2), sliding_window=8), "bfloat16")
    c["qwen2"] = ("Qwen2", llama_like(o, max(1, o.heads // 2), tie_word_embeddings=True), "bfloat16")
    c["qwen3"] = ("Qwen3", llama_like(o, 1, head_dim=o.head_dim or 32, rope_parameters=rope(theta=1e6)), "bfloat16")
    c["phi3"] = ("Phi3", llama_like(o, max(1, o.heads // 2), sliding_window=None, pad_token_id=0, embd_pdrop=0.0,
                                    resid_pdrop=0.0), "bfloat16")
    c["falcon_7b"] = ("Falcon", falcon(o, multi_query=True, parallel_attn=True, bias=False), "bfloat16")
    c["falcon_40b"] = ("Falcon", falcon(o, new_decoder_architecture=True, num_kv_heads=o.kv_heads or max(1, o.heads // 2),
                                        tie_word_embeddings=False), "bfloat16")
    c["falcon_bias"] = ("Falcon", falcon(o, multi_query=True, parallel_attn=True, bias=True), "bfloat16")
    c["falcon_mha"] = ("Falcon", falcon(o, multi_query=False, parallel_attn=False, bias=True), "bfloat16")
    c["gptj"] = ("GPTJ", dict(vocab_size=o.vocab, n_embd=o.hidden, n_layer=o.layers, n_head=o.heads, n_positions=128,
                              n_inner=o.ffn, rotary_dim=o.hidden // o.heads // 4 * 2, bos_token_id=0, eos_token_id=1),
                 "bfloat16")
    c["opt"] = ("OPT", sizes(o, ffn_dim=o.ffn, max_position_embeddings=64, word_embed_proj_dim=o.hidden, dropout=0.0,
                             pad_token_id=1), "bfloat16")
    c["mixtral"] = ("Mixtral", llama_like(o, max(1, o.heads // 2), num_local_experts=4, num_experts_per_tok=2,
                                          intermediate_size=o.ffn // 4, sliding_window=None), "bfloat16")
    c["qwen3_moe"] = ("Qwen3Moe", llama_like(o, max(1, o.heads // 2), head_dim=o.head_dim or 24, num_experts=6,
                                             num_experts_per_tok=3, moe_intermediate_size=o.ffn // 4, norm_topk_prob=True,
                                             mlp_only_layers=[0], decoder_sparse_step=1), "bfloat16")
    c["gemma2"] = ("Gemma2", llama_like(o, max(1, o.heads // 2), head_dim=o.head_dim or 24, sliding_window=8,
                                        query_pre_attn_scalar=20, attn_logit_softcapping=2.0,
                                        final_logit_softcapping=3.0, tie_word_embeddings=True), "bfloat16")
    c["gemma3"] = ("Gemma3", llama_like(o, 1, head_dim=o.head_dim or 32, sliding_window=8, num_hidden_layers=o.layers + 1,
                                        layer_types=["sliding_attention", "full_attention"] * o.layers,
                                        query_pre_attn_scalar=20, tie_word_embeddings=True), "bfloat16")
    c["gemma3"][1]["layer_types"] = c["gemma3"][1]["layer_types"][:o.layers + 1]
    c["glm"] = ("Glm", llama_like(o, max(1, o.heads // 2), head_dim=o.head_dim or o.hidden // o.heads, pad_token_id=0,
                                  attention_bias=True), "bfloat16")
    c["glm4"] = ("Glm4", llama_like(o, max(1, o.heads // 2), head_dim=o.head_dim or o.hidden // o.heads, pad_token_id=0,
                                    attention_bias=True), "bfloat16")
    c["granite"] = ("Granite", llama_like(o, max(1, o.heads // 2), embedding_multiplier=6.0, residual_multiplier=0.3,
                                          attention_multiplier=0.1, logits_scaling=3.0), "bfloat16")
    c["smollm3"] = ("SmolLM3", llama_like(o, max(1, o.heads // 2), num_hidden_layers=o.layers + 1, pad_token_id=0,
                                          no_rope_layer_interval=2), "bfloat16")
    c["olmo2"] = ("Olmo2", llama_like(o, max(1, o.heads // 2), pad_token_id=0), "bfloat16")
    c["llama_yarn"] = ("Llama", llama_like(
        o, max(1, o.heads // 2), rope_parameters=rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=32)),
                       "bfloat16")
    pairs = o.hidden // o.heads // 2
    c["phi3_longrope"] = ("Phi3", c["phi3"][1] | dict(
        original_max_position_embeddings=64, rope_parameters=rope(
            "longrope", short_factor=[1 + i / 8 for i in range(pairs)], long_factor=[4.0] * pairs,
            original_max_position_embeddings=64)), "bfloat16")
    narrow = o.ffn // 4
    c["qwen2_moe"] = ("Qwen2Moe", llama_like(o, max(1, o.heads // 2), num_experts=6, num_experts_per_tok=3,
                                             moe_intermediate_size=narrow, shared_expert_intermediate_size=o.ffn // 2,
                                             norm_topk_prob=False, mlp_only_layers=[0], decoder_sparse_step=1), "bfloat16")
    c["gpt_oss"] = ("GptOss", llama_like(
        o, max(1, o.heads // 2), head_dim=o.head_dim or 16, intermediate_size=narrow // 4 * 4, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=8, swiglu_limit=0.7, rope_parameters=rope(
            "yarn", 150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=32)), "bfloat16")
    c["gpt_oss_mxfp4"] = ("GptOss", c["gpt_oss"][1] | dict(intermediate_size=32), "bfloat16")
    latent = dict(kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, num_hidden_layers=o.layers + 1,
                  moe_intermediate_size=narrow, num_experts_per_tok=3, first_k_dense_replace=1, num_key_value_heads=o.heads)
    c["deepseek_v2"] = ("DeepseekV2", llama_like(
        o, o.heads, q_lora_rank=None, n_routed_experts=8, n_shared_experts=2, topk_method="group_limited_greedy",
        n_group=4, topk_group=2, routed_scaling_factor=1.5, norm_topk_prob=False) | latent | dict(
            rope_parameters=rope("yarn", 10000.0, factor=4.0, mscale=0.707, mscale_all_dim=0.9, beta_fast=32, beta_slow=1,
                                 original_max_position_embeddings=32)), "bfloat16")
    c["deepseek_v3"] = ("DeepseekV3", llama_like(
        o, o.heads, q_lora_rank=20, n_routed_experts=8, n_shared_experts=1, n_group=4, topk_group=2,
        routed_scaling_factor=2.5, norm_topk_prob=True) | latent, "bfloat16")
    c["glm4_moe"] = ("Glm4Moe", llama_like(
        o, max(1, o.heads // 2), head_dim=o.head_dim or 16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
        moe_intermediate_size=narrow, first_k_dense_replace=1, attention_bias=True, use_qk_norm=True,
        routed_scaling_factor=1.2), "bfloat16")
    c["minimax_m2"] = ("MiniMaxM2", llama_like(
        o, max(1, o.heads // 2), head_dim=o.head_dim or 16, rotary_dim=(o.head_dim or 16) // 2, num_local_experts=6,
        num_experts_per_tok=2, intermediate_size=narrow), "bfloat16")
    c["nemotron"] = ("Nemotron", llama_like(o, max(1, o.heads // 2), pad_token_id=0), "bfloat16")
    c["qwen3_windows"] = ("Qwen3", llama_like(
        o, 1, head_dim=o.head_dim or 32, use_sliding_window=True, sliding_window=6, num_hidden_layers=o.layers + 1,
        layer_types=(["sliding_attention", "full_attention", "full_attention"] * o.layers)[:o.layers + 1]), "bfloat16")
    turning = o.hidden // o.heads * 3 // 4 // 2
    c["phi4_mini"] = ("Phi3", c["phi3"][1] | dict(
        original_max_position_embeddings=64, tie_word_embeddings=True, rope_parameters=rope(
            "longrope", short_factor=[1 + i / 8 for i in range(turning)], long_factor=[4.0] * turning,
            partial_rotary_factor=0.75, original_max_position_embeddings=64)), "bfloat16")
    # Variants that are not fixtures; made only if --family names them.
    c["falcon_11b"] = ("Falcon", falcon(o, new_decoder_architecture=True, num_ln_in_parallel_attn=1,
                                        num_kv_heads=o.kv_heads or max(1, o.heads // 2)), "bfloat16")
    c["falcon_sequential"] = ("Falcon", falcon(o, multi_query=True, parallel_attn=False), "bfloat16")
    c["falcon_mha_parallel"] = ("Falcon", falcon(o, multi_query=False, parallel_attn=True), "bfloat16")
    c["opt_no_bias"] = ("OPT", c["opt"][1] | dict(enable_bias=False, activation_function="gelu"), "bfloat16")
    c["gptj_whole"] = ("GPTJ", c["gptj"][1] | dict(rotary_dim=o.hidden // o.heads), "bfloat16")
    c["qwen2_window"] = ("Qwen2", llama_like(o, max(1, o.heads // 2), use_sliding_window=True, sliding_window=5,
                                             max_window_layers=0), "bfloat16")
    c["qwen3_bias"] = ("Qwen3", llama_like(o, 1, head_dim=o.head_dim or 32, attention_bias=True), "bfloat16")
    c["mixtral_window"] = ("Mixtral", c["mixtral"][1] | dict(sliding_window=6), "bfloat16")
    c["phi3_partial"] = ("Phi3", c["phi3"][1] | dict(rope_parameters=rope(partial_rotary_factor=0.5), sliding_window=7),
                         "bfloat16")
    c["llama_gelu"] = ("Llama", llama_like(o, 1, hidden_act="gelu_pytorch_tanh"), "bfloat16")
    return c


VARIANTS = {"falcon_11b", "falcon_sequential", "falcon_mha_parallel", "opt_no_bias", "gptj_whole", "qwen2_window",
            "qwen3_bias", "mixtral_window", "phi3_partial", "llama_gelu"}

# Seed 1 gives these a token whose experts are nearly tied, so that bf16 chooses another one.
SEEDS = {"deepseek_v2": 2, "deepseek_v3": 2}

# Fixtures that are saved in pieces with an index.
SHARDED = {"qwen2"}


def randomise(model, dtype, generator):
    """Sets every parameter so that activations and scores are of the order of 1, rounded to the type of the file."""
    # With a tied embedding of that size, every token would be its own best successor.
    embedding = 0.1 if model.config.tie_word_embeddings else 0.5
    for name, parameter in all_parameters(model):
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            centre = 1.0 if name.endswith("weight") else 0.0  # a norm's, or a bias
            values = centre + 0.3 * noise
        elif "embed" in name or "wte" in name or "word_embeddings" in name:
            values = embedding * noise
        else:
            values = noise / parameter.shape[-1] ** 0.5
        parameter.data = values.to(dtype).to(torch.float32)


def all_parameters(model):
    """Includes the bias that a router adds for the choice of experts, which transformers keeps as a buffer."""
    yield from model.named_parameters()
    yield from ((name, value) for name, value in model.named_buffers() if name.endswith("e_score_correction_bias"))


def set_mxfp4_experts(model, generator):
    """Sets experts to numbers that MXFP4 can represent. Returns the tensors that replace theirs in the file."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    tensors = {}
    for name, parameter in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, inputs, outputs = parameter.shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), generator=generator, dtype=torch.uint8)
        scales = torch.randint(122, 126, (experts, outputs, inputs // 32), generator=generator, dtype=torch.uint8)
        parameter.data = convert_moe_packed_tensors(blocks, scales).reshape(parameter.shape).to(torch.float32)
        tensors[name] = {name + "_blocks": blocks, name + "_scales": scales}
    return tensors


def replace_tensors(folder, replacements):
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    for name, others in replacements.items():
        del tensors[name]
        tensors |= others
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def check_all_random(model):
    for name, parameter in all_parameters(model):
        if parameter.dim() == 1 and (parameter == parameter[0]).all() and parameter.numel() > 1:
            sys.exit(f"{name} is constant")


@torch.no_grad()
def logits_of(model, tokens):
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()


def continuation(model, tokens):
    tokens, out, margins = list(tokens), [], []
    for _ in range(GENERATED):
        best = logits_of(model, tokens)[-1].topk(2)
        out.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 6))
        tokens.append(out[-1])
    return out, margins


def write_lines(path, objects):
    path.write_text("".join(json.dumps(item) + "\n" for item in objects))


def make(name, options, family=None):
    """family: (class prefix, configuration, type) instead of families()[name]."""
    prefix, config, saved = family or families(options)[name]
    dtype = getattr(torch, options.dtype or saved)
    generator = torch.Generator().manual_seed(options.seed or SEEDS.get(name, 1))
    kind = "TextConfig" if hasattr(transformers, prefix + "TextConfig") else "Config"  # of multimodal families
    configuration = getattr(transformers, prefix + kind)(**config)
    configuration._attn_implementation = "eager"
    configuration._experts_implementation = "eager"  # the others want widths of whole vectors
    model = getattr(transformers, prefix + "ForCausalLM")(configuration).eval()
    randomise(model, dtype, generator)
    packed = set_mxfp4_experts(model, generator) if name.endswith("mxfp4") else {}
    check_all_random(model)

    folder = options.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    prompts, logits, greedy = [], {}, []
    for index, length in enumerate(options.lengths):
        tokens = torch.randint(0, options.vocab, (length,), generator=generator).tolist()
        prompts.append({"id": f"p{index}", "tokens": tokens})
        logits[f"p{index}"] = logits_of(model, tokens)
        new, margins = continuation(model, tokens)
        greedy.append({"id": f"p{index}", "tokens": new, "margins": margins})
    write_lines(folder / "prompts.jsonl", prompts)
    write_lines(folder / "expected.jsonl", greedy)
    safetensors.torch.save_file(logits, folder / "expected.safetensors")

    shard = "100KB" if name in SHARDED else "1GB"
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)

    if packed:  # transformers cannot read it back without a GPU
        replace_tensors(folder, packed)
        print(f"{name}: experts in MXFP4")
        return
    # The file must state what the computed model has.
    again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    difference = max(float((logits_of(again, p["tokens"]) - logits[p["id"]]).abs().max()) for p in prompts)
    scale = max(float(values.abs().max()) for values in logits.values())
    if difference > 1e-6 * scale:
        sys.exit(f"{name}: read back, the logits differ by {difference}")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1e3:.0f} kB, largest logit {scale:.2f}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--out", type=pathlib.Path, default=here / "models", help="folder of the fixtures")
    parser.add_argument("--family", action="append", help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="0: that of the fixture")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=0, help="where the family has a choice")
    parser.add_argument("--head-dim", type=int, default=0, help="where it may differ from hidden / heads")
    parser.add_argument("--vocab", type=int, default=97)
    parser.add_argument("--ffn", type=int, default=176)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="of the saved weights")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of the prompts")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(1)
    known = families(options)
    for name in options.family or (name for name in known if name not in VARIANTS):
        if name not in known:
            sys.exit(f"unknown family {name}, known: {', '.join(known)}")
        make(name, options)
    versions = {module.__name__: module.__version__ for module in (torch, transformers, safetensors, numpy)}
    arguments = {key: value for key, value in vars(options).items() if key not in ("out",) and value}
    (options.out / "made_with.json").write_text(json.dumps({"versions": versions, "options": arguments}, indent=1) + "\n")


if __name__ == "__main__":
    main()
