// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/dynamic_library.h"

#include <dlfcn.h>

#include "model/error.h"

namespace plimsoll::exec::cuda {

DynamicLibrary::DynamicLibrary(const std::string& what, const std::vector<std::string>& files) : what_(what) {
  std::string problem;
  for (const std::string folder : {"", PLIMSOLL_CUDA_LIBRARIES "/"}) {
    for (const std::string& file : files) {
      handle_ = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (problem.empty()) problem = dlerror();
    }
  }
  throw DeviceError(what + " is missing: " + problem);
}

void* DynamicLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) throw DeviceError(what_ + " is too old: it has no " + name);
  return address;
}

}  // namespace plimsoll::exec::cuda
