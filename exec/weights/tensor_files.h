// SPDX-License-Identifier: Apache-2.0
// The tensors of a model by name, in one .safetensors file or in shards with an index.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/weights/safetensors_file.h"

namespace plimsoll::exec {

class TensorFiles {
 public:
  /// Opens a .safetensors file, a *.safetensors.index.json, or a folder that contains one of them. Throws InputError if
  /// SafetensorsFile does, if the index is malformed, if a shard is missing or not in the index's folder, or if a shard
  /// lacks a tensor that the index assigns to it.
  explicit TensorFiles(const std::string& path);

  /// Returns the tensor, or nullptr if no tensor has this name. The pointer is valid as long as this object.
  [[nodiscard]] const FileTensor* find(std::string_view name) const;
  /// Returns the file or index that was opened, for messages.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void open_index();
  const SafetensorsFile* open_shard(const std::string& shard, const std::string& tensor);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const FileTensor*, std::less<>> tensors_;
};

}  // namespace plimsoll::exec
