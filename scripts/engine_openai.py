# SPDX-License-Identifier: Apache-2.0
# Runs a closed loop of users with the `openai` package, which streams answers of equal length. Writes one row of
# figures for `plimsoll import`. Prompts are words of engine_model.py. With `chat`, each chunk counts as a token.
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


# Times count from `begun`, when the user became free. Returns when the answer was complete.
def ask(number, begun, counts_in=True):
    # No two prompts begin alike. They are sent as text, because the package takes milliseconds to check a list of token
    # ids.
    text = " ".join(f"w{3 + (number * 7919 + i) % 40000:05d}" for i in range(words))
    first, last, produced = None, None, 0
    if is_chat:
        chunks = client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}],
                                                max_tokens=tokens, stream=True)
    else:
        chunks = client.completions.create(model=model, prompt=text, max_tokens=tokens, stream=True,
                                           stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    for chunk in chunks:
        if not is_chat and chunk.usage is not None:
            produced = chunk.usage.completion_tokens
        if chunk.choices and (chunk.choices[0].delta.content if is_chat else chunk.choices[0].text):
            last = time.perf_counter()
            first = first or last
            produced += is_chat
    free = time.perf_counter()
    if not counts_in:
        return free
    with lock:
        ttft.append(first - begun)
        latency.append(last - begun)
        tpot.append((last - first) / (produced - 1))
        counts.append(produced)
    return free


def user(number):
    global left
    try:
        ask(requests + number, time.perf_counter(), False)  # connects, and loads the modules that are needed first
    except Exception:
        ready.abort()  # ends the others too
        raise
    ready.wait()
    free = time.perf_counter()
    while True:
        with lock:
            if left == 0:
                return
            left -= 1
            number = left
        free = ask(number, free)


ready = threading.Barrier(users + 1)
threads = [threading.Thread(target=user, args=[number]) for number in range(users)]
for thread in threads:
    thread.start()
ready.wait()
begun = time.perf_counter()
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
