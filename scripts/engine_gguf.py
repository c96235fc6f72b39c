# SPDX-License-Identifier: Apache-2.0
# Writes the model of engine_model.py with random bf16 weights as a GGUF file, for llama.cpp's server. Needs the package
# gguf.
#   engine_gguf.py FOLDER FILE
import json
import os
import sys

import gguf
import numpy

folder, path = sys.argv[1:]
with open(os.path.join(folder, "config.json")) as file:
    config = json.load(file)
hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
heads, kv_heads, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
vocabulary = config["vocab_size"]

out = gguf.GGUFWriter(path, "llama")
out.add_context_length(config["max_position_embeddings"])
out.add_embedding_length(hidden)
out.add_block_count(layers)
out.add_feed_forward_length(inner)
out.add_head_count(heads)
out.add_head_count_kv(kv_heads)
out.add_rope_dimension_count(size)
out.add_rope_freq_base(config["rope_theta"])
out.add_layer_norm_rms_eps(config["rms_norm_eps"])
out.add_vocab_size(vocabulary)
out.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)

# A tokenizer of pieces: three special tokens, the 256 bytes, and words.
words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
kinds = [gguf.TokenType.UNKNOWN] + 2 * [gguf.TokenType.CONTROL] + 256 * [gguf.TokenType.BYTE]
rest = vocabulary - len(words)
words += [f"\u2581w{i}" for i in range(rest)]
kinds += rest * [gguf.TokenType.NORMAL]
out.add_tokenizer_model("llama")
out.add_token_list(words)
out.add_token_scores([-float(i) for i in range(vocabulary)])
out.add_token_types(kinds)
out.add_unk_token_id(0)
out.add_bos_token_id(1)
out.add_eos_token_id(2)
out.add_add_bos_token(False)

random = numpy.random.default_rng(1)


def add(name, *shape):
    """Adds a random bf16 matrix (the upper halves of 32-bit numbers), or a vector of 32-bit ones."""
    if len(shape) == 1:
        out.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
        return
    values = (0.02 * random.standard_normal(shape, dtype=numpy.float32)).view(numpy.uint32)
    halves = (values >> 16).astype(numpy.uint16)
    out.add_tensor(name, halves.view(numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)


add("token_embd.weight", vocabulary, hidden)
add("output_norm.weight", hidden)
for i in range(layers):
    add(f"blk.{i}.attn_norm.weight", hidden)
    add(f"blk.{i}.ffn_norm.weight", hidden)
    add(f"blk.{i}.attn_q.weight", heads * size, hidden)
    add(f"blk.{i}.attn_k.weight", kv_heads * size, hidden)
    add(f"blk.{i}.attn_v.weight", kv_heads * size, hidden)
    add(f"blk.{i}.attn_output.weight", hidden, heads * size)
    add(f"blk.{i}.ffn_gate.weight", inner, hidden)
    add(f"blk.{i}.ffn_up.weight", inner, hidden)
    add(f"blk.{i}.ffn_down.weight", hidden, inner)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
