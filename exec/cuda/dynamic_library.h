// SPDX-License-Identifier: Apache-2.0
// A library loaded at run time, so that one build runs on every machine and can report what is missing.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::exec::cuda {

class DynamicLibrary {
 public:
  /// Opens the first of `files` that can be opened. Looks in the loader's search path, then in the folder of the
  /// toolkit that the program was built with. Throws DeviceError "<what> is missing: ...". The library stays open until
  /// the program ends.
  DynamicLibrary(const std::string& what, const std::vector<std::string>& files);

  /// Sets `function` to the symbol. Throws DeviceError if the library does not have it.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;

  std::string what_;
  void* handle_ = nullptr;
};

}  // namespace plimsoll::exec::cuda
