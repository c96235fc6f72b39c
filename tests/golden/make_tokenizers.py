#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small tokenizers of tests/golden/tokenizers and records what Hugging Face's tokenizers make of texts.

  pip install tokenizers==0.23.3
  python3 tests/golden/make_tokenizers.py [TEXTS [VOCABULARY [SEED]]]

Without arguments it makes the fixtures of the repository. For a large comparison, make 10000 texts of other seeds, run
plimsoll_text_test, and restore the fixtures.

The fixtures cover the forms of tokenizer.json that published models have: the pattern of GPT-2, Llama 3, Qwen 2 and
DeepSeek V3 over bytes, Llama 2 and Gemma without a pre-tokenizer, and Metaspace. Their vocabularies are small, so that
many merges are exercised by short texts. Corpus and texts are made here from a seed; the trainer breaks ties at random.
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tokenizers")

SENTENCES = [
    "The server answers every request within its time limit, and it's the client's turn again.",
    "We'll see whether they're faster; I'd say so, but you've measured 1234567 tokens in 3.14159 seconds.",
    "Der Läufer überquert die Straße, während die Glocke fünfmal schlägt.",
    "L'été dernier, nous avons mangé des crêpes à côté de l'hôtel.",
    "Сервер отвечает на каждый запрос в течение заданного времени.",
    "サーバーは毎回の要求に時間内に応答します。東京と京都。",
    "服务器在规定的时间内回答每一个请求。北京和上海。",
    "서버는 모든 요청에 제시간에 응답합니다.",
    "الخادم يجيب على كل طلب في الوقت المحدد.",
    "सर्वर हर अनुरोध का समय पर उत्तर देता है।",
    "for (int i = 0; i < n; ++i) {\n    sum += values[i];\t// add\n}\n\n\nreturn sum;",
    '{"name": "value", "list": [1, 22, 333], "empty": null}\r\n',
    "Emoji 😀😃😄 👩‍👩‍👧‍👦 🇩🇪 and arrows → ⇒ ±½²",
    "   indented    text   with  many      spaces   ",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bytes_of(pattern=None, *, individual=None, normalizer=None, **options):
    """Returns a byte-level tokenizer like those of GPT-2's successors."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=options.get("ignore_merges", False)))
    stages = [pre_tokenizers.Split(Regex(p), "isolated") for p in ([pattern] if isinstance(pattern, str) else pattern or [])]
    if individual is not None:
        stages.insert(0, pre_tokenizers.Digits(individual_digits=individual))
    level = pre_tokenizers.ByteLevel(add_prefix_space=options.get("prefix", False), use_regex=pattern is None)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages + [level]) if stages else level
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, pre_tokenizers.ByteLevel.alphabet()


def sentence_piece(normalizer, decoder, pre_tokenizer=None, byte_fallback=True, fuse=True):
    """Returns a tokenizer like those converted from SentencePiece: characters, with bytes for missing ones."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=byte_fallback, fuse_unk=fuse))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    return tokenizer, []


def llama_decoder(strip=True):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + ([decoders.Strip(" ", 1, 0)] if strip else []))


def specs():
    n = normalizers
    spaces = n.Replace(" ", "▁")
    return {
        "gpt2": bytes_of(prefix=True),
        "llama3": bytes_of(LLAMA3, ignore_merges=True),
        "qwen2": bytes_of(QWEN2, normalizer=n.NFC()),
        "o200k": bytes_of(O200K),
        "deepseek": bytes_of([r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK]),
        "starcoder": bytes_of(individual=True),
        "llama2": sentence_piece(n.Sequence([n.Prepend("▁"), spaces]), llama_decoder()),
        "gemma": sentence_piece(spaces, llama_decoder(False), pre_tokenizers.Split(" ", "merged_with_previous")),
        "metaspace": sentence_piece(None, decoders.Metaspace(prepend_scheme="first"),
                                    pre_tokenizers.Metaspace(prepend_scheme="first"), False, False),
        "mistral": sentence_piece(None, llama_decoder(), pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        "digits": sentence_piece(n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " ")]),
                                 decoders.Metaspace(prepend_scheme="always"),
                                 pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                                          pre_tokenizers.Metaspace(prepend_scheme="always")]), False),
    }


def add_tokens(tokenizer, of_bytes):
    begin, end = ("<|begin|>", "<|end|>") if of_bytes else ("<s>", "</s>")
    tokenizer.add_special_tokens([AddedToken(begin, normalized=False), AddedToken(end, normalized=False),
                                  AddedToken("<|pad|>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("word", single_word=True, normalized=False),
                          AddedToken("  ", normalized=False), AddedToken("<tool>s", lstrip=True, normalized=True)])
    template = processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A $B",
                                             special_tokens=[(begin, tokenizer.token_to_id(begin))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template]) if of_bytes else template


def make(name, spec, vocabulary):
    tokenizer, alphabet = spec
    of_bytes = bool(alphabet)
    special = [] if of_bytes else ["<unk>"] + [f"<0x{b:02X}>" for b in range(256) if tokenizer.model.byte_fallback]
    trainer = trainers.BpeTrainer(vocab_size=vocabulary + len(special), initial_alphabet=alphabet, special_tokens=special,
                                  show_progress=False, limit_alphabet=300 if of_bytes else 90, max_token_length=12)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    data = json.loads(tokenizer.to_str())
    keep = {"<unk>"}
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in keep]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    add_tokens(tokenizer, of_bytes)
    return tokenizer


ALPHABETS = [
    lambda r: chr(r.randrange(0x20, 0x7F)), lambda r: chr(r.randrange(0x20, 0x7F)),
    lambda r: r.choice(" \t\n\r\u00a0\u2003\u3000\u200b\u180e\u0085\u2028"), lambda r: " " * r.randrange(1, 5),
    lambda r: chr(r.randrange(0xA1, 0x250)), lambda r: chr(r.randrange(0x300, 0x370)),
    lambda r: chr(r.randrange(0x370, 0x600)), lambda r: chr(r.randrange(0x900, 0xE00)),
    lambda r: chr(r.randrange(0x1100, 0x1200)), lambda r: chr(r.randrange(0x2000, 0x2C00)),
    lambda r: chr(r.randrange(0x3040, 0x3100)), lambda r: chr(r.randrange(0x4E00, 0x9FFF)),
    lambda r: chr(r.randrange(0xAC00, 0xD7A4)), lambda r: chr(r.randrange(0xF900, 0xFFFE)),
    lambda r: chr(r.randrange(0x1F300, 0x1FB00)), lambda r: chr(r.randrange(0x10000, 0x110000)),
    lambda r: r.choice(["'s", "'LL", "'t", "'\u017f", "'RE", "don't", "\u200d", "\ufe0f", "▁", "▁▁", "<0x41>", "<0xE4>"]),
    lambda r: str(r.randrange(10 ** r.randrange(1, 8))),
    lambda r: r.choice(["<|begin|>", "<|end|>", "<|pad|>", " <|pad|> ", "<tool>", "<tool>s", "word", " word ", "</s>", "<s>"]),
]


def random_text(rng):
    if rng.random() < 0.3:
        words = rng.choice(SENTENCES)
        begin = rng.randrange(len(words))
        return words[begin:begin + rng.randrange(1, 60)]
    out = []
    for _ in range(rng.randrange(0, 7)):
        make_one = rng.choice(ALPHABETS)
        out += [make_one(rng) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.3:
            out.append(rng.choice(SENTENCES)[:rng.randrange(20)])
    return "".join(out)


def random_ids(rng, tokenizer):
    size = tokenizer.get_vocab_size()
    return [rng.randrange(size) for _ in range(rng.randrange(0, 12))]


def expectation(tokenizer, text, ids):
    encoded = tokenizer.encode(text, add_special_tokens=False).ids
    return {"ids": encoded, "begun": tokenizer.encode(text).ids[:1], "text": tokenizer.decode(encoded, skip_special_tokens=True),
            "random": ids, "random_text": tokenizer.decode(ids, skip_special_tokens=False)}


def write_fixtures(count=160, vocabulary=420, seed=1):
    os.makedirs(OUT, exist_ok=True)
    rng = random.Random(seed)
    texts = ["", " ", "\n"] + SENTENCES + [random_text(rng) for _ in range(count)]
    with open(os.path.join(OUT, "texts.json"), "w", encoding="utf-8") as f:
        json.dump(texts, f, indent=0)
    for name, spec in specs().items():
        tokenizer = make(name, spec, vocabulary)
        data = json.loads(tokenizer.to_str())
        rng = random.Random(seed + 1)
        cases = [expectation(tokenizer, text, random_ids(rng, tokenizer)) for text in texts]
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(data, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        with open(os.path.join(OUT, name + ".expected.json"), "w", encoding="utf-8") as f:
            f.write("[" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]\n")


if __name__ == "__main__":
    write_fixtures(*(int(argument) for argument in sys.argv[1:4]))
