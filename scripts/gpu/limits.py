# SPDX-License-Identifier: Apache-2.0
"""What this GPU gives PyTorch today: bandwidth, products, attention, and the gap between kernels of a graph.

Prints CSV: what, rows, outputs, inputs, microseconds, terabytes per second, teraflops per second. Products read weights
that are not in the cache, as a forward does. scripts/gpu/run calls it.
"""
import torch

LLAMA_8B = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096))  # outputs, inputs
ROWS = (1, 2, 4, 8, 16, 32, 64, 256, 2048)


def seconds(work, times=9, between=None):
    """Returns the median time of `work`. `between` runs before each repetition and is not timed."""
    work()
    taken = []
    for _ in range(times):
        if between:
            between()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3)
    return sorted(taken)[times // 2]


def row(what, time, moved=0.0, flops=0.0, shape=("", "", "")):
    print(what, *shape, f"{time * 1e6:.2f}", f"{moved / time * 1e-12:.3f}", f"{flops / time * 1e-12:.1f}", sep=",", flush=True)


def memory():
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    row("copy", seconds(lambda: target.copy_(source)), moved=2 * source.numel())
    words = source.view(torch.int32)
    row("read", seconds(lambda: words.sum()), moved=source.numel())


def products():
    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    for outputs, inputs in LLAMA_8B:
        weights = torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16)
        for rows in ROWS:
            if outputs > 100_000 and rows > 256:
                continue  # the results of a vocabulary
            x = torch.randn(rows, inputs, device="cuda", dtype=torch.bfloat16)
            time = seconds(lambda: torch.nn.functional.linear(x, weights), between=flush.zero_)
            moved = 2 * (outputs * inputs + rows * (inputs + outputs))
            row("product", time, moved, 2 * rows * outputs * inputs, (rows, outputs, inputs))
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    row("product", seconds(lambda: square @ square), 3 * 2 * 8192**2, 2 * 8192**3, (8192, 8192, 8192))


def attention():
    for length in (2048, 8192):
        q, k = (torch.randn(1, 32, length, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        time = seconds(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True))
        row("causal attention", time, flops=2 * length * length * 32 * 128, shape=(length, 32, 128))


def kernel_gap():
    kernels = 300
    graph, number, stream = torch.cuda.CUDAGraph(), torch.zeros(32, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        number.add_(1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(kernels):
                number.add_(1)
    row("small kernel of a graph", seconds(graph.replay) / kernels)


print("what,rows,outputs,inputs,microseconds,terabytes_per_s,teraflops_per_s")
torch.manual_seed(0)
for part in (memory, kernel_gap, attention, products):
    part()
