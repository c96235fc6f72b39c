// SPDX-License-Identifier: Apache-2.0
// .safetensors files built by hand, valid and invalid.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exec/weights/tensor_names.h"

namespace plimsoll::exec {

/// Returns length, header and data; the length is the header's unless another is given.
inline std::string safetensors_bytes(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return safetensors_bytes(header, data, header.size());
}

/// The position of a tensor's data.
struct ByteRange {
  std::size_t begin = 0, end = 0;
};
/// Returns "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, ByteRange bytes) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(bytes.begin) + ',' + std::to_string(bytes.end) + "]}";
}

/// Returns every tensor that a model has, or every one that it lacks although others of its family have it.
inline std::vector<TensorRef> tensors_of(const model::Architecture& architecture, Presence asked = Presence::there) {
  std::vector<TensorRef> tensors;
  visit_tensors(architecture, [&](const TensorRef& tensor, Presence presence) {
    if (presence == asked) tensors.push_back(tensor);
    return true;
  });
  return tensors;
}

/// One f32 tensor to write.
struct PlainTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using PlainTensors = std::map<std::string, PlainTensor>;

inline std::string safetensors_of(const PlainTensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape = "[";
    for (const std::int64_t size : tensor.shape) shape += (shape.size() > 1 ? "," : "") + std::to_string(size);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header += (header.size() > 1 ? "," : "") + entry(name, "F32", shape + "]", {begin, data.size()});
  }
  return safetensors_bytes(header + "}", data);
}

}  // namespace plimsoll::exec
