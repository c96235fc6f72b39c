# SPDX-License-Identifier: Apache-2.0
# Writes random weights and a chat template beside the model of engine_model.py, for servers that cannot draw weights.
#   engine_weights.py MODEL FOLDER
import json
import os
import shutil
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

model, folder = sys.argv[1:]
torch.manual_seed(1)
os.makedirs(folder, exist_ok=True)
AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model), dtype=torch.bfloat16).save_pretrained(folder)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(os.path.join(model, name), folder)
path = os.path.join(folder, "tokenizer_config.json")
with open(path) as file:
    tokenizer = json.load(file)
tokenizer["model_input_names"] = ["input_ids", "attention_mask"]
tokenizer["chat_template"] = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
with open(path, "w") as file:
    json.dump(tokenizer, file)
