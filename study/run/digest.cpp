// SPDX-License-Identifier: Apache-2.0
#include "study/run/digest.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace plimsoll::study {
namespace {

constexpr std::uint64_t kNoteAlignment = 4;  // alignment of names and descriptions in an ELF note section

std::uint64_t aligned(std::uint64_t size) { return (size + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment; }

// Returns the GNU build id from the notes of a segment; empty if there is none.
std::string build_id_in(const char* notes, std::uint64_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof(head));
    const std::uint64_t name = sizeof(head), description = name + aligned(head.n_namesz);
    const std::uint64_t end = description + aligned(head.n_descsz);
    if (end > size) return {};
    const bool gnu = head.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0;
    if (gnu && head.n_type == NT_GNU_BUILD_ID) return {notes + description, head.n_descsz};
    notes += end;
    size -= end;
  }
  return {};
}

// The first object is the program itself; its libraries are not searched.
int read_build_id(dl_phdr_info* info, std::size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader computes addresses in the same way: base plus the segment's offset.
    const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);  // NOLINT
    const std::string id = build_id_in(notes, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(out) = id;
  }
  return 1;
}

}  // namespace

Digest digest_of(std::string_view text) {
  const boost::uuids::name_generator_sha1 generate{boost::uuids::uuid{}};
  const boost::uuids::uuid id = generate(text.data(), text.size());
  Digest digest;
  std::copy(id.begin(), id.end(), digest.begin());
  return digest;
}

Digest digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return digest_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

Digest digest_of_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) names.push_back(at->path().string());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{} {}\n", name.substr(path.size()), hex(digest_of_file(name)));
  return digest_of(text);
}

Digest digest_of_folders(std::span<const std::string> paths) {
  std::string text;
  for (const std::string& path : paths) text += hex(digest_of_folder(path));
  return digest_of(text);
}

Digest program_digest() {
  std::string id;
  dl_iterate_phdr(read_build_id, &id);
  return id.empty() ? digest_of_file("/proc/self/exe") : digest_of(id);
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

}  // namespace plimsoll::study
