// SPDX-License-Identifier: Apache-2.0
// The tensors of a model by name, whether they lie in one .safetensors file or in shards with an index.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/weights/safetensors_file.h"

namespace plimsoll::exec {

class TensorFiles {
 public:
  /// A .safetensors file, a *.safetensors.index.json, or a folder that holds one of them. Throws InputError for what
  /// SafetensorsFile refuses, an index that is none, shards that are missing or not beside it, and names that their
  /// shard lacks.
  explicit TensorFiles(const std::string& path);

  /// nullptr: there is none of this name. Valid as long as this object.
  [[nodiscard]] const FileTensor* find(std::string_view name) const;
  /// The file or index that was opened, for messages.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void open_index();
  const SafetensorsFile* open_shard(const std::string& shard, const std::string& tensor);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const FileTensor*, std::less<>> tensors_;
};

}  // namespace plimsoll::exec
