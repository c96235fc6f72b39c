// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/tensor_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "exec/weights/strict_json.h"

namespace plimsoll::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxIndex = 64U << 20U;  // bytes; an index of 36 000 tensors takes 3.4 MB
constexpr std::string_view kIndexEnd = ".safetensors.index.json", kFileEnd = ".safetensors";

// {"metadata": …, "weight_map": {"tensor": "shard"}}
class IndexReader final : public StrictReader {
 public:
  using StrictReader::StrictReader;
  [[nodiscard]] std::map<std::string, std::string> shards() && {
    if (!seen_map_) refuse("has no weight_map, which assigns tensors to files");
    return std::move(shards_);
  }

  bool null() override { return skipped() || unexpected("null"); }
  bool boolean(bool) override { return skipped() || unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return skipped() || unexpected("a number"); }
  bool number_unsigned(number_unsigned_t) override { return skipped() || unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override { return skipped() || unexpected("a number"); }

  bool string(string_t& text) override {
    if (skipped()) return true;
    if (!in_map_) return unexpected("text");
    if (!shards_.emplace(name_, text).second)
      refuse(fmt::format("tensor {} occurs twice in weight_map", quoted_name(name_)));
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      section_ = text;
      if (section_ == "weight_map" && seen_map_) refuse("weight_map occurs twice");
    }
    name_ = text;
    return true;
  }
  bool start_object(std::size_t) override {
    const bool map = depth_ == 1 && section_ == "weight_map";
    if (depth_ > 0 && !map && !skipped()) return unexpected("an object");
    in_map_ = map;
    seen_map_ = seen_map_ || map;
    return deeper();
  }
  bool start_array(std::size_t) override { return skipped() ? deeper() : unexpected("a list"); }
  bool end_object() override { return shallower(); }
  bool end_array() override { return shallower(); }

 protected:
  [[noreturn]] bool unexpected(const std::string& found) override {
    if (depth_ == 0) refuse(fmt::format("is {}, expected an index of safetensors files", found));
    if (!in_map_) refuse(fmt::format("{}: found {}, expected an object", quoted_name(section_), found));
    refuse(fmt::format("tensor {}: found {}, expected the name of a file", quoted_name(name_), found));
  }
  [[nodiscard]] std::string part() const override { return "index"; }

 private:
  [[noreturn]] void refuse(const std::string& text) const { throw InputError(where(), text); }

  // Sections other than weight_map are ignored whatever they contain.
  [[nodiscard]] bool skipped() const { return depth_ >= 1 && section_ != "weight_map"; }
  bool deeper() {
    constexpr int kMaxDepth = 64;
    if (++depth_ > kMaxDepth) refuse(fmt::format("nested deeper than {} levels", kMaxDepth));
    return true;
  }
  bool shallower() {
    // weight_map has no nested values, so the end of any level leaves it.
    in_map_ = false;
    --depth_;
    return true;
  }

  int depth_ = 0;
  bool in_map_ = false, seen_map_ = false;
  std::string section_, name_;
  std::map<std::string, std::string> shards_;
};

std::string read_index(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) fail_file(path, fmt::format("cannot be read: {}", error.message()));
  if (size > kMaxIndex) fail_file(path, fmt::format("has {} bytes, an index has at most {}", size, kMaxIndex));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) fail_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  return text.str();
}

// Prefers the file name that transformers saves under, else takes the only file of its kind.
std::string file_in(const std::string& folder) {
  for (const char* const usual : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path path = fs::path(folder) / usual;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path.string();
  }
  std::vector<std::string> indices, files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kIndexEnd)) indices.push_back(entry.path().string());
    if (name.ends_with(kFileEnd)) files.push_back(entry.path().string());
  }
  if (error) fail_file(folder, fmt::format("cannot be read: {}", error.message()));
  // An index takes precedence over single files, which may be its shards.
  if (indices.size() == 1) return indices.front();
  if (indices.empty() && files.size() == 1) return files.front();
  if (indices.empty() && files.empty())
    fail_file(folder, "holds no weights, expected model.safetensors or model.safetensors.index.json");
  std::sort(files.begin(), files.end());
  fail_file(
      folder,
      fmt::format(
          "holds {} indices and {} .safetensors files without a model.safetensors among them: name the one to read",
          indices.size(), files.size()));
}

}  // namespace

TensorFiles::TensorFiles(const std::string& path) : path_(path) {
  std::error_code error;
  if (fs::is_directory(path, error)) path_ = file_in(path);
  if (path_.ends_with(".json")) {
    open_index();
    return;
  }
  files_.push_back(std::make_unique<SafetensorsFile>(path_));
  for (const auto& [name, tensor] : files_.front()->tensors()) tensors_.emplace(name, &tensor);
}

void TensorFiles::open_index() {
  IndexReader reader(Where{path_, 0, 0});
  nlohmann::json::sax_parse(read_index(path_), &reader);
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [name, shard] : std::move(reader).shards()) {
    // Accept plain names only: an index must not point outside its folder.
    if (shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos || !shard.ends_with(kFileEnd))
      fail_file(path_, fmt::format("tensor {}: found {}, expected the name of a .safetensors file in the same folder",
                                   quoted_name(name), quoted_name(shard)));
    // Open each shard once, on the first tensor that it holds.
    const SafetensorsFile*& file = opened[shard];
    if (file == nullptr) file = open_shard(shard, name);
    const auto found = file->tensors().find(name);
    if (found == file->tensors().end())
      fail_file(path_, fmt::format("tensor {} is not in {}, as the index says", quoted_name(name), quoted_name(shard)));
    tensors_.emplace(name, &found->second);
  }
}

const SafetensorsFile* TensorFiles::open_shard(const std::string& shard, const std::string& tensor) {
  const std::string path = (fs::path(path_).parent_path() / shard).string();
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail_file(path_, fmt::format("tensor {}: its file {} {}", quoted_name(tensor), quoted_name(shard),
                                 fs::exists(path, error) ? "is not a regular file" : "is missing"));
  return files_.emplace_back(std::make_unique<SafetensorsFile>(path)).get();
}

const FileTensor* TensorFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace plimsoll::exec
