// SPDX-License-Identifier: Apache-2.0
// A library that is looked for when it is needed, so that one build runs everywhere and says what is missing.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::exec::cuda {

class DynamicLibrary {
 public:
  /// Takes the first of `files` that can be opened, as the loader finds them and then in the folder of the toolkit that
  /// the program was built with. Throws DeviceError "<what> is missing: ...". Stays open until the program ends.
  DynamicLibrary(const std::string& what, const std::vector<std::string>& files);

  /// Points `function` to the symbol. Throws DeviceError if there is none.
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
