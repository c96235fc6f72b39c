# SPDX-License-Identifier: Apache-2.0
# Writes a Llama of 134.5 million parameters without weights, for servers that draw them (--load-format dummy), and a
# tokenizer whose words are tokens.
#   engine_model.py FOLDER
import json
import os
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
vocabulary = 49152
config = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "head_dim": 64, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": vocabulary, "bos_token_id": 0,
    "eos_token_id": 1, "initializer_range": 0.02,
}
# All words have six characters, so a word with its space has seven, even if the tokenizer does not know the word.
unknown = "<none>"
words = {"<s>": 0, "</s>": 1, unknown: 2}
for i in range(3, vocabulary):
    words[f"w{i:05d}"] = i
tokenizer = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
        {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for word, i in list(words.items())[:3]],
    "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": words, "unk_token": unknown},
}
tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
                    "unk_token": unknown, "model_max_length": 8192, "clean_up_tokenization_spaces": False}
generation = {"bos_token_id": 0, "eos_token_id": 1}
for name, content in (("config.json", config), ("tokenizer.json", tokenizer),
                      ("tokenizer_config.json", tokenizer_config), ("generation_config.json", generation)):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(content, file)
