#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the real SGLang scheduler decides on the cases of tests/sched/sglang_decisions.

SGLang's Scheduler.get_next_batch_to_run, its prefill policy, batches, token pool and radix cache run unmodified, with
torch on a CPU and without a model: sampled tokens are made up here, and the stop token comes at the true output
length. Needed are torch, numpy and the Python files of one version, for pages of one token:

    pip download --no-deps sglang==0.5.5 && unzip -q sglang-*.whl 'sglang/*.py' -d sglang-0.5.5
    record_sglang_scheduler.py sglang-0.5.5 sglang.cases > sglang-0.5.5.answers

Cases and answers have the format of record_vllm_scheduler.py. Of a case count max_running, budget (chunked prefill size,
or max_prefill_tokens without chunks), blocks (tokens of the pool), chunked, caching (the radix cache) and the requests.
"""

import argparse
import contextlib
import random
import sys
import types

import record_vllm_scheduler as common
from record_vllm_scheduler import STOP, FIRST_OUTPUT, Case, Settings

REAL = {
    "sglang.srt.environ",
    "sglang.srt.managers.schedule_batch",
    "sglang.srt.managers.schedule_policy",
    "sglang.srt.managers.scheduler",
    "sglang.srt.mem_cache.allocator",
    "sglang.srt.mem_cache.base_prefix_cache",
    "sglang.srt.mem_cache.chunk_cache",
    "sglang.srt.mem_cache.common",
    "sglang.srt.mem_cache.evict_policy",
    "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.mem_cache.radix_cache",
    "sglang.srt.model_executor.forward_batch_info",
    "sglang.srt.sampling.sampling_params",
}
PACKAGES = ("sglang", "sglang.srt", "sglang.srt.managers", "sglang.srt.mem_cache", "sglang.srt.model_executor",
            "sglang.srt.sampling")


class EmptyPackages(common._EmptyPackages):
    """Does not replace torch, numpy and the modules that they import."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if name in REAL or top not in EMPTY:
            return None
        return super().find_spec(name, path, target)


EMPTY = {"sglang", "triton", "zmq", "psutil", "setproctitle", "sgl_kernel", "xgrammar", "orjson", "msgpack", "transformers",
         "fastapi", "pydantic", "uvloop", "msgspec", "huggingface_hub", "PIL", "requests", "aiohttp", "IPython", "prometheus_client"}


def add(name, module):
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def use_version(folder):
    import numpy  # noqa: F401  before the finder is there
    import torch

    torch.compile = lambda *args, **kwargs: (args[0] if args and callable(args[0]) else lambda function: function)
    sys.meta_path.insert(0, EmptyPackages())
    for package in PACKAGES:
        module = common._EmptyModule(package)
        module.__path__ = [folder + "/" + package.replace(".", "/")]
        add(package, module)
    arguments = Settings(attention_backend="torch_native", pp_max_micro_batch_size=0)
    module = common._EmptyModule("sglang.srt.server_args")
    module.get_global_server_args = lambda: arguments
    module.ServerArgs = object
    add(module.__name__, module)
    module = common._EmptyModule("sglang.srt.utils")
    module.support_triton = lambda backend: False
    module.flatten_nested_list = lambda nested: nested
    add(module.__name__, module)
    module = common._EmptyModule("sglang.srt.utils.torch_memory_saver_adapter")
    region = Settings(region=lambda *args, **kwargs: contextlib.nullcontext())
    module.TorchMemorySaverAdapter = Settings(create=lambda *args, **kwargs: region)
    sys.modules[module.__name__] = module
    module = common._EmptyModule("sglang.srt.disaggregation.decode_schedule_batch_mixin")
    module.ScheduleBatchDisaggregationDecodeMixin = type("Mixin", (), {})  # a batch is true
    sys.modules[module.__name__] = module
    return arguments


def draw(kind, rng):
    """Returns a random case with pages of one token."""
    case = common.draw(kind, rng)
    case.blocks = max(case.blocks * case.block_size, case.max_len + 2)
    case.block_size, case.threshold, case.full = 1, 0, False
    return case


class Run:
    """Runs one case on a new scheduler."""

    def __init__(self, case, arguments):
        from sglang.srt.managers.schedule_batch import ScheduleBatch
        from sglang.srt.managers.schedule_policy import SchedulePolicy
        from sglang.srt.managers.scheduler import Scheduler
        from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
        from sglang.srt.mem_cache.chunk_cache import ChunkCache
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
        from sglang.srt.mem_cache.radix_cache import RadixCache
        import torch

        self.case = case
        arguments.pp_max_micro_batch_size = case.max_running
        rows = common.made(ReqToTokenPool, size=case.max_running + 8, max_context_len=case.max_len + 8, device="cpu",
                           enable_memory_saver=False)
        pool = common.made(TokenToKVPoolAllocator, size=case.blocks, dtype=torch.float16, device="cpu",
                           kvcache=Settings(), need_sort=False)
        tree = common.made(RadixCache if case.caching else ChunkCache, req_to_token_pool=rows,
                           token_to_kv_pool_allocator=pool, page_size=1, disable=False)
        s = self.scheduler = object.__new__(Scheduler)
        s.chunked_req = s.last_batch = None
        s.running_batch = ScheduleBatch(reqs=[], batch_is_full=False)
        s.waiting_queue, s.grammar_queue = [], []
        s.server_args = Settings(disaggregation_mode="null")
        s.spec_algorithm = Settings(is_none=lambda: True, is_eagle=lambda: False)
        s.tp_worker = Settings(model_runner=Settings())
        s.model_config = Settings(vocab_size=1 << 40)
        s.page_size, s.pp_size, s.forward_ct, s.decode_mem_cache_buf_multiplier = 1, 1, 0, 1
        s.req_to_token_pool, s.token_to_kv_pool_allocator, s.tree_cache = rows, pool, tree
        s.policy = SchedulePolicy("lpm" if case.caching else "fcfs", tree, False, False, False)
        s.max_prefill_tokens = 16384 if case.chunked else case.budget
        s.chunked_prefill_size = case.budget if case.chunked else None
        s.truncation_align_size = None
        s.enable_overlap = s.is_mixed_chunk = s.enable_lora = s.try_preemption = s.enable_metrics = False
        s.enable_hierarchical_cache = s.enable_hicache_storage = s.enable_priority_scheduling = False
        s.priority_scheduling_preemption_threshold = 0
        s.disaggregation_mode = None
        s.current_scheduler_metrics_enabled = lambda: False
        # init_new_token_ratio and its decay, as Scheduler.__init__ sets them from the environment's defaults
        s.init_new_token_ratio = min(0.7, 1.0)
        s.min_new_token_ratio = min(s.init_new_token_ratio * 0.14, 1.0)
        s.new_token_ratio_decay = (s.init_new_token_ratio - s.min_new_token_ratio) / 600
        s.new_token_ratio = s.init_new_token_ratio
        s._add_request_to_queue = self.requeue
        self.order = sorted(range(len(case.requests)), key=lambda i: case.requests[i].tick)
        self.arrived, self.tick, self.open = 0, 1, 0
        self.unique = FIRST_OUTPUT
        self.retracted, self.steps = [], []

    def requeue(self, req, is_retracted=False):
        self.retracted.append(int(req.rid))
        self.scheduler.waiting_queue.append(req)

    def add_arrivals(self):
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        while self.arrived < len(self.order) and self.case.requests[self.order[self.arrived]].tick <= self.tick:
            index = self.order[self.arrived]
            parameters = SamplingParams(max_new_tokens=self.case.requests[index].cap, stop_token_ids=[STOP])
            parameters.normalize(None)
            req = Req(str(index), "", self.case.prompt(index), parameters, vocab_size=1 << 40)
            self.scheduler.waiting_queue.append(req)
            self.arrived += 1
            self.open += 1

    def note(self, batch):
        s = self.scheduler
        prefills, decodes = [], []
        if batch.forward_mode.is_extend():
            prefills = [(int(r.rid), r.extend_input_len, len(r.prefix_indices)) for r in batch.reqs]
        else:
            decodes = sorted(int(r.rid) for r in batch.reqs)
        free = s.token_to_kv_pool_allocator.available_size() + (s.tree_cache.evictable_size() if self.case.caching else 0)
        self.steps.append((prefills, decodes, self.retracted, free))
        self.retracted = []

    def token(self, req):
        self.unique += 1
        last = len(req.output_ids) == self.case.requests[int(req.rid)].output - 1
        return STOP if last else self.unique

    def update(self, batch):
        """Does what process_batch_result_prefill and _decode do with sampled tokens."""
        import torch

        s = self.scheduler
        extends = batch.forward_mode.is_extend()
        batch.output_ids = torch.zeros(len(batch.reqs), dtype=torch.int64)  # the next step's input, which nothing reads
        for req in batch.reqs:
            if extends and req.is_chunked > 0:
                req.is_chunked -= 1
                continue
            req.output_ids.append(self.token(req))
            req.check_finished()
            if req.finished():
                s.tree_cache.cache_finished_req(req)
                self.open -= 1
            elif extends:
                s.tree_cache.cache_unfinished_req(req)

    def run(self):
        ticks, s, idle = [], self.scheduler, False
        while True:
            self.add_arrivals()
            batch = s.get_next_batch_to_run()
            s.last_batch = batch
            if batch is None:
                s.new_token_ratio = s.init_new_token_ratio
                if self.open > 0 and not idle:
                    idle = True
                    continue  # it has dropped the rows of finished requests
                if self.open > 0:
                    return None  # it would wait for ever
                if self.arrived == len(self.order):
                    return common.Run.text(self, ticks)
                self.tick = max(self.tick, self.case.requests[self.order[self.arrived]].tick)
                continue
            idle = False
            self.note(batch)
            ticks.append(self.tick)
            self.update(batch)
            self.tick += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version", nargs="?", help="folder with the version's sglang/")
    parser.add_argument("cases", nargs="?", help="file of cases")
    parser.add_argument("--draw", metavar="KIND", choices=("plain", "prefix"), help="print random cases")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.draw:
        rng = random.Random(options.seed)
        for _ in range(options.count):
            print(draw(options.draw, rng).line())
        return
    arguments = use_version(options.version)
    with open(options.cases, encoding="ascii") as lines:
        for line in lines:
            try:
                print(Run(Case.parse(line), arguments).run() or "never ends")
            except AssertionError as error:  # the product ends here, too
                print("never ends" if "No space left" in str(error) else 1 / 0)


if __name__ == "__main__":
    main()
