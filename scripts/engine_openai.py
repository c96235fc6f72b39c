# SPDX-License-Identifier: Apache-2.0
# A closed loop of users with the `openai` package: streamed answers of equal length. Writes one row of figures, as
# `plimsoll import` reads them. With `chat`, prompts are words of engine_model.py, and each chunk counts as a token.
#   engine_openai.py URL MODEL USERS REQUESTS INPUT OUTPUT FILE [chat]
import csv
import sys
import threading
import time

import openai

url, model, users, requests, words, tokens, path = sys.argv[1:8]
is_chat = sys.argv[8:] == ["chat"]
users, requests, words, tokens = int(users), int(requests), int(words), int(tokens)
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
lock = threading.Lock()
left = requests
ttft, tpot, latency, counts = [], [], [], []


def ask(number):
    prompt = [3 + (number * 7919 + i) % 40000 for i in range(words)]  # token ids; no two prompts begin alike
    begun, first, last, produced = time.perf_counter(), None, None, 0
    if is_chat:
        text = " ".join(f"w{token}" for token in prompt)
        chunks = client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}],
                                                max_tokens=tokens, stream=True)
    else:
        chunks = client.completions.create(model=model, prompt=prompt, max_tokens=tokens, stream=True,
                                           stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    for chunk in chunks:
        if not is_chat and chunk.usage is not None:
            produced = chunk.usage.completion_tokens
        if chunk.choices and (chunk.choices[0].delta.content if is_chat else chunk.choices[0].text):
            last = time.perf_counter()
            first = first or last
            produced += is_chat
    with lock:
        ttft.append(first - begun)
        latency.append(last - begun)
        tpot.append((last - first) / (produced - 1))
        counts.append(produced)


def user():
    global left
    while True:
        with lock:
            if left == 0:
                return
            left -= 1
            number = left
        ask(number)


begun = time.perf_counter()
threads = [threading.Thread(target=user) for _ in range(users)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
seconds = time.perf_counter() - begun
assert len(counts) == requests, f"{requests - len(counts)} of {requests} requests failed"
mean = lambda values: sum(values) / len(values)
row = {"concurrency": users, "requests": requests, "input_tokens": words, "output_tokens": mean(counts),
       "requests_per_s": requests / seconds, "output_tokens_per_s": sum(counts) / seconds,
       "mean_ttft_s": mean(ttft), "mean_tpot_s": mean(tpot), "mean_latency_s": mean(latency)}
with open(path, "w", newline="") as file:
    writer = csv.DictWriter(file, row)
    writer.writeheader()
    writer.writerow(row)
