// SPDX-License-Identifier: Apache-2.0
// The side file of an accelerator: its measured kernels (kernel_table.h), compact and with checksums. The list of
// tables is read when the file is opened; a table is read when it is first needed.
//
// Format 3, little-endian: 8 bytes "PLIMKRN\n", u32 version, u32 bytes of the list, u32 CRC-32 of the list, the list,
// the tables. Text is u32 length and bytes. The list: text accelerator, source, date; u32 n; n times text op, type, KV
// type, kernel, then u64 offset, u64 size, u32 CRC-32 of the table. A table: f64 compute and memory efficiency, p, t0
// (s), cold efficiency, bytes and speedup of the warm cache, 8 scales, nugget, knee; u32 neighbours, u32 all_pairs; u64
// points, replaced; f64 roofline, in-fit and out-of-fit error; f64 quantum; u32 columns, u32 sites; the columns as u32;
// the parts of every site's key as u32; log ratios as i16 in quanta, site by site, -32768 where nothing was measured.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/kernel_table.h"

namespace plimsoll::model {

/// A file's description of itself.
struct KernelFileHead {
  std::string accelerator, source, date;
};

/// A table with interpolated rows. Thread-safe; rows are cached.
class MeasuredKernel {
 public:
  explicit MeasuredKernel(KernelTable table);
  MeasuredKernel(const MeasuredKernel&) = delete;
  MeasuredKernel& operator=(const MeasuredKernel&) = delete;

  [[nodiscard]] const KernelTable& table() const { return table_; }
  [[nodiscard]] const KernelInterpolation& interpolation() const { return interpolation_; }
  /// Returns the row of a shape (KernelInterpolation::row); it stays valid after this object is gone.
  [[nodiscard]] std::shared_ptr<const KernelRow> row(const KernelKey& key) const;
  /// For attention only: the ratios of one layout of heads, over log2 of the batch (1 to the largest measured,
  /// doubling) and log2 of the column.
  [[nodiscard]] std::shared_ptr<const ResidualTable> grid(std::uint32_t heads, std::uint32_t kv_heads,
                                                          std::uint32_t head_dim) const;

 private:
  KernelTable table_;
  KernelInterpolation interpolation_;
  mutable std::mutex mutex_;
  mutable std::map<KernelKey, std::shared_ptr<const KernelRow>> rows_;
  mutable std::map<std::array<std::uint32_t, 3>, std::shared_ptr<const ResidualTable>> grids_;
};

/// An open file of measured kernels. Thread-safe.
class KernelFile {
 public:
  struct Entry {
    KernelOp op = KernelOp::gemm;
    std::string dtype, kv_dtype, kernel;
    std::uint64_t offset = 0, size = 0;
    std::uint32_t crc = 0;
  };

  /// Reads the list. Throws InputError naming the file if it is missing, not a kernel file, of another version, or
  /// damaged.
  explicit KernelFile(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const KernelFileHead& head() const { return head_; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] bool has(KernelOp op) const;
  /// Reads a table once. Throws InputError naming file and table if it is damaged or has a table_problem().
  /// Thread-safe.
  [[nodiscard]] const MeasuredKernel& kernel(std::size_t entry) const;
  /// Returns the table of this op and type for the shape; null if there is none. Of several kernels, returns the
  /// largest table that covers the shape, else the nearest.
  [[nodiscard]] const MeasuredKernel* find(KernelOp op, std::string_view dtype, std::string_view kv_dtype,
                                           const KernelKey& key) const;

 private:
  std::string path_;
  KernelFileHead head_;
  std::vector<Entry> entries_;
  std::uint64_t file_size_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const MeasuredKernel>> kernels_;
};

/// Returns the bytes of a kernel file. Ratios are rounded to 1/4096 (0.024 %) and clamped to +-7.99.
[[nodiscard]] std::string kernel_file_bytes(const KernelFileHead& head, const std::vector<KernelTable>& tables);

/// Returns the CRC-32 (with the polynomial of zlib and PNG).
[[nodiscard]] std::uint32_t crc32_of(std::string_view bytes);

}  // namespace plimsoll::model
