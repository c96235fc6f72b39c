// SPDX-License-Identifier: Apache-2.0
#include "model/kernel_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "model/error.h"

namespace plimsoll::model {
namespace {

constexpr std::string_view kMagic = "PLIMKRN\n";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kPrefix = 20;  // magic, version, size and checksum of the list
constexpr std::uint32_t kMaxListBytes = 1U << 20U;
constexpr std::uint64_t kMaxTableBytes = 64U << 20U;
constexpr double kQuantum = 1.0 / 4096;
constexpr std::int16_t kMissing = std::numeric_limits<std::int16_t>::min();

template <class T>
T swapped_to_little(T value) {
  static_assert(std::endian::native == std::endian::little, "a big-endian machine would have to swap bytes here");
  return value;
}

class Writer {
 public:
  template <class T>
  void put(T value) {
    value = swapped_to_little(value);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads a checksummed part. Content that continues past its end is invalid even if the checksum is right.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    if (bytes_.size() - at_ < sizeof(T)) throw InputError("is cut short");
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return swapped_to_little(value);
  }
  template <class T>
  void get_all(std::vector<T>& out) {
    const std::size_t size = out.size() * sizeof(T);
    if (left() < size) throw InputError("is cut short");
    std::memcpy(out.data(), bytes_.data() + at_, size);
    at_ += size;
    for (T& value : out) value = swapped_to_little(value);
  }
  std::string get_text() {
    const auto size = get<std::uint32_t>();
    if (bytes_.size() - at_ < size) throw InputError("is cut short");
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

std::string read_bytes(const std::string& path, std::uint64_t offset, std::uint64_t size) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(size, '\0');
  stream.seekg(static_cast<std::streamoff>(offset));
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!stream) throw InputError(Where{path, 0, 0}, "is cut short or cannot be read");
  return bytes;
}

std::optional<KernelOp> op_named(std::string_view text) {
  for (std::size_t i = 0; i < kKernelOps; ++i) {
    if (text == name(static_cast<KernelOp>(i))) return static_cast<KernelOp>(i);
  }
  return {};
}

std::string table_name(const KernelFile::Entry& e) {
  return fmt::format("{} {}{}{} ({})", name(e.op), e.dtype, e.kv_dtype.empty() ? "" : "/", e.kv_dtype, e.kernel);
}

std::size_t key_parts(KernelOp op) { return key_names(op).size() - 1; }

std::string table_bytes(const KernelTable& t) {
  Writer out;
  const OpCoefficients& c = t.coefficients;
  for (const double v : {c.compute_efficiency, c.memory_efficiency, c.p, c.t0.count(), t.cold_efficiency,
                         t.cache.bytes.value, t.cache.speedup})
    out.put(v);
  for (const double v : t.metric.scale) out.put(v);
  out.put(t.metric.nugget);
  out.put(t.metric.knee);
  out.put(static_cast<std::uint32_t>(t.metric.neighbours));
  out.put(static_cast<std::uint32_t>(t.all_pairs));
  out.put(static_cast<std::uint64_t>(t.points));
  out.put(static_cast<std::uint64_t>(t.replaced));
  for (const double v : {t.roofline_error, t.in_fit, t.out_of_fit, kQuantum}) out.put(v);
  out.put(static_cast<std::uint32_t>(t.columns.size()));
  out.put(static_cast<std::uint32_t>(t.sites.size()));
  for (const std::uint32_t column : t.columns) out.put(column);
  for (const KernelKey& key : t.sites) {
    for (std::size_t part = 0; part < key_parts(t.op); ++part) out.put(key[part]);
  }
  for (const float ratio : t.log_ratio) {
    const double quanta = std::clamp(std::round(static_cast<double>(ratio) / kQuantum), -32767.0, 32767.0);
    out.put(std::isnan(ratio) ? kMissing : static_cast<std::int16_t>(quanta));
  }
  return out.take();
}

void read_numbers(Reader& in, KernelTable& t) {
  OpCoefficients& c = t.coefficients;
  c.compute_efficiency = in.get<double>();
  c.memory_efficiency = in.get<double>();
  c.p = in.get<double>();
  c.t0 = Seconds(in.get<double>());
  t.cold_efficiency = in.get<double>();
  t.cache.bytes = Bytes(in.get<double>());
  t.cache.speedup = in.get<double>();
  for (double& scale : t.metric.scale) scale = in.get<double>();
  t.metric.nugget = in.get<double>();
  t.metric.knee = in.get<double>();
  t.metric.neighbours = static_cast<std::int32_t>(std::min(in.get<std::uint32_t>(), 1U << 30U));
  t.all_pairs = in.get<std::uint32_t>() != 0;
  t.points = static_cast<std::int64_t>(in.get<std::uint64_t>());
  t.replaced = static_cast<std::int64_t>(in.get<std::uint64_t>());
  t.roofline_error = in.get<double>();
  t.in_fit = in.get<double>();
  t.out_of_fit = in.get<double>();
}

KernelTable read_table(const KernelFile::Entry& entry, std::string_view bytes) {
  Reader in(bytes);
  KernelTable t{.op = entry.op,
                .dtype = entry.dtype,
                .kv_dtype = entry.kv_dtype,
                .kernel = entry.kernel,
                .coefficients = {},
                .cache = {},
                .metric = {},
                .columns = {},
                .sites = {},
                .log_ratio = {}};
  read_numbers(in, t);
  const auto quantum = in.get<double>();
  if (!(quantum > 0) || !(quantum < 1))
    throw InputError(fmt::format("a quantum of {} is not between 0 and 1", quantum));
  const std::uint64_t columns = in.get<std::uint32_t>(), sites = in.get<std::uint32_t>();
  const std::size_t parts = key_parts(entry.op);
  const std::uint64_t left = in.left();  // each factor is checked first, because their product may overflow
  if (columns > left / 4 || sites > left / 4 || left != 4 * columns + 4 * parts * sites + 2 * columns * sites)
    throw InputError("does not have the size that it states");
  t.columns.resize(columns);
  in.get_all(t.columns);
  std::vector<std::uint32_t> keys(parts * sites);
  in.get_all(keys);
  t.sites.assign(sites, KernelKey{});
  for (std::size_t i = 0; i < keys.size(); ++i) t.sites[i / parts][i % parts] = keys[i];
  std::vector<std::int16_t> quanta(columns * sites);
  in.get_all(quanta);
  t.log_ratio.resize(quanta.size());
  const auto scale = static_cast<float>(quantum);
  std::transform(quanta.begin(), quanta.end(), t.log_ratio.begin(), [scale](std::int16_t q) {
    return q == kMissing ? std::numeric_limits<float>::quiet_NaN() : scale * static_cast<float>(q);
  });
  if (const std::string problem = table_problem(t); !problem.empty()) throw InputError(problem);
  return t;
}

}  // namespace

// Processes eight bytes at a time: tables[k][b] is the checksum of byte b followed by k zero bytes.
std::uint32_t crc32_of(std::string_view bytes) {
  static const auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
      entries[0][i] = value;
    }
    for (std::size_t k = 1; k < 8; ++k) {
      for (std::size_t i = 0; i < 256; ++i)
        entries[k][i] = (entries[k - 1][i] >> 8U) ^ entries[0][entries[k - 1][i] & 0xFFU];
    }
    return entries;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    word = swapped_to_little(word) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xFFU];
  }
  for (; at < bytes.size(); ++at) crc = (crc >> 8U) ^ tables[0][(crc ^ static_cast<unsigned char>(bytes[at])) & 0xFFU];
  return ~crc;
}

std::string kernel_file_bytes(const KernelFileHead& head, const std::vector<KernelTable>& tables) {
  std::vector<std::string> bodies;
  for (const KernelTable& table : tables) bodies.push_back(table_bytes(table));
  const auto list = [&](std::uint64_t offset) {
    Writer out;
    for (const std::string* text : {&head.accelerator, &head.source, &head.date}) out.put_text(*text);
    out.put(static_cast<std::uint32_t>(tables.size()));
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const KernelTable& t = tables[i];
      for (const std::string_view text :
           {name(t.op), std::string_view(t.dtype), std::string_view(t.kv_dtype), std::string_view(t.kernel)})
        out.put_text(text);
      out.put(offset);
      out.put(static_cast<std::uint64_t>(bodies[i].size()));
      out.put(crc32_of(bodies[i]));
      offset += bodies[i].size();
    }
    return out.take();
  };
  // Offsets have a fixed size, so a first pass with any offset gives the size of the list.
  const std::string text = list(kPrefix + list(0).size());
  Writer prefix;
  for (const char c : kMagic) prefix.put(c);
  prefix.put(kVersion);
  prefix.put(static_cast<std::uint32_t>(text.size()));
  prefix.put(crc32_of(text));
  std::string bytes = prefix.take() + text;
  for (const std::string& body : bodies) bytes += body;
  return bytes;
}

MeasuredKernel::MeasuredKernel(KernelTable table) : table_(std::move(table)), interpolation_(table_) {}

std::shared_ptr<const KernelRow> MeasuredKernel::row(const KernelKey& key) const {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const KernelRow>& kept = rows_[key];
  if (!kept) kept = std::make_shared<const KernelRow>(interpolation_.row(key));
  return kept;
}

std::shared_ptr<const ResidualTable> MeasuredKernel::grid(std::uint32_t heads, std::uint32_t kv_heads,
                                                          std::uint32_t head_dim) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = grids_.find({heads, kv_heads, head_dim}); found != grids_.end()) return found->second;
  }
  // The lock is not held here, because row() takes it too.
  std::uint32_t largest = 1;
  for (const KernelKey& site : table_.sites) largest = std::max(largest, site[0]);
  ResidualTable grid;
  for (const std::uint32_t column : table_.columns) grid.y.push_back(std::log2(static_cast<double>(column)));
  for (std::uint64_t batch = 1; batch <= largest; batch *= 2) {
    grid.x.push_back(std::log2(static_cast<double>(batch)));
    const auto ratios = row({static_cast<std::uint32_t>(batch), heads, kv_heads, head_dim, 0, 0, 0});
    grid.log_ratio.insert(grid.log_ratio.end(), ratios->log_ratio.begin(), ratios->log_ratio.end());
  }
  const std::scoped_lock lock(mutex_);
  // If another thread has made the same grid meanwhile, keep that one.
  std::shared_ptr<const ResidualTable>& kept = grids_[{heads, kv_heads, head_dim}];
  if (!kept) kept = std::make_shared<const ResidualTable>(std::move(grid));
  return kept;
}

KernelFile::KernelFile(std::string path) : path_(std::move(path)) {
  const auto fail = [this](const std::string& text) { throw InputError(Where{path_, 0, 0}, text); };
  std::ifstream stream(path_, std::ios::binary | std::ios::ate);
  if (!stream) fail("no such file of measured kernels, or it cannot be read");
  file_size_ = static_cast<std::uint64_t>(std::max<std::streamoff>(0, stream.tellg()));
  if (file_size_ < kPrefix) fail("is not a file of measured kernels (too short)");
  const std::string prefix = read_bytes(path_, 0, kPrefix);
  if (!prefix.starts_with(kMagic)) fail("is not a file of measured kernels");
  Reader in(std::string_view(prefix).substr(kMagic.size()));
  if (const auto version = in.get<std::uint32_t>(); version != kVersion) {
    fail(fmt::format("is version {} of the format; this program reads version {}: calibrate again", version, kVersion));
  }
  const auto size = in.get<std::uint32_t>();
  const auto crc = in.get<std::uint32_t>();
  if (size > kMaxListBytes || kPrefix + size > file_size_) fail("is damaged: its list of tables is cut short");
  const std::string list = read_bytes(path_, kPrefix, size);
  if (crc32_of(list) != crc) fail("is damaged: the checksum of its list of tables is wrong");
  try {
    Reader reader(list);
    for (std::string* text : {&head_.accelerator, &head_.source, &head_.date}) *text = reader.get_text();
    for (auto n = reader.get<std::uint32_t>(); n > 0; --n) {
      const std::string op_text = reader.get_text();
      const std::optional<KernelOp> op = op_named(op_text);
      if (!op) throw InputError(fmt::format("holds an unknown op '{}'", op_text));
      Entry entry{.op = *op, .dtype = {}, .kv_dtype = {}, .kernel = {}};
      for (std::string* text : {&entry.dtype, &entry.kv_dtype, &entry.kernel}) *text = reader.get_text();
      entry.offset = reader.get<std::uint64_t>();
      entry.size = reader.get<std::uint64_t>();
      entry.crc = reader.get<std::uint32_t>();
      entries_.push_back(std::move(entry));
    }
  } catch (const InputError& error) {
    fail("its list of tables " + error.text());
  }
  kernels_.resize(entries_.size());
}

bool KernelFile::has(KernelOp op) const {
  return std::any_of(entries_.begin(), entries_.end(), [op](const Entry& e) { return e.op == op; });
}

const MeasuredKernel& KernelFile::kernel(std::size_t index) const {
  const std::scoped_lock lock(mutex_);
  if (kernels_[index]) return *kernels_[index];
  const Entry& entry = entries_[index];
  const auto fail = [&](const std::string& text) {
    throw InputError(Where{path_, 0, 0}, fmt::format("table {}: {}", table_name(entry), text));
  };
  if (entry.size > kMaxTableBytes || entry.offset > file_size_ || entry.size > file_size_ - entry.offset)
    fail("is cut short");
  const std::string bytes = read_bytes(path_, entry.offset, entry.size);
  if (crc32_of(bytes) != entry.crc) fail("is damaged: its checksum is wrong");
  try {
    kernels_[index] = std::make_unique<const MeasuredKernel>(read_table(entry, bytes));
  } catch (const InputError& error) {
    fail(error.text());
  }
  return *kernels_[index];
}

const MeasuredKernel* KernelFile::find(KernelOp op, std::string_view dtype, std::string_view kv_dtype,
                                       const KernelKey& key) const {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].op == op && entries_[i].dtype == dtype && entries_[i].kv_dtype == kv_dtype) candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::size_t a, std::size_t b) { return entries_[a].size > entries_[b].size; });
  const MeasuredKernel* best = nullptr;
  for (const std::size_t i : candidates) {
    const MeasuredKernel& candidate = kernel(i);
    if (candidates.size() == 1 || !candidate.interpolation().is_outside(key)) return &candidate;
    if (best == nullptr || candidate.interpolation().distance(key) < best->interpolation().distance(key))
      best = &candidate;
  }
  return best;
}

}  // namespace plimsoll::model
