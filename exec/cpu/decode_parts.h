// SPDX-License-Identifier: Apache-2.0
// How decode attention is divided among threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::exec {

/// The sequences of a decode step, the KV heads that a thread team attends to, and the queries of each.
struct DecodeWork {
  std::int64_t rows = 1, heads = 1, queries = 1;
};

/// The parts that each sequence is divided into: by KV heads, and by the queries of one KV head.
struct DecodeParts {
  std::int64_t heads = 1, queries = 1;
};

/// Keeps a sequence's heads together as long as there is work for every thread: they are adjacent in memory. With fewer
/// heads than threads, it divides the queries of a head; each part reads the keys again, but from a shared cache.
/// `per_thread`: several parts for each thread, because contexts differ in length and a thread that finishes early
/// takes another part.
inline DecodeParts decode_parts(const DecodeWork& work, int threads, int per_thread) {
  DecodeParts parts;
  if (threads == 1) return parts;
  const std::int64_t wanted = std::int64_t{per_thread} * threads;
  parts.heads = std::min(work.heads, (wanted + work.rows - 1) / work.rows);
  if (work.rows * work.heads < threads) parts.queries = std::min(work.queries, threads / (work.rows * work.heads));
  return parts;
}

}  // namespace plimsoll::exec
