// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "exec/weights/safetensors_file.h"
#include "exec/weights/strict_json.h"

namespace plimsoll::exec {
namespace {

constexpr std::size_t kMaxDimensions = 8;

// Reads the header as events instead of a tree: it sees keys that occur twice, which a tree would hide.
class HeaderReader final : public StrictReader {
 public:
  using StrictReader::StrictReader;
  [[nodiscard]] std::map<std::string, HeaderTensor, std::less<>> tensors() && { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    switch (level_) {
      case Level::outside: level_ = Level::header; return true;
      case Level::header: level_ = name_ == "__metadata__" ? Level::metadata : Level::tensor; break;
      case Level::metadata:
      case Level::tensor:
      case Level::list: unexpected("an object");
    }
    tensor_ = {};
    field_.clear();
    seen_type_ = seen_shape_ = seen_offsets_ = false;
    return true;
  }

  bool key(string_t& text) override {
    if (level_ == Level::metadata) return true;
    if (level_ == Level::header) {
      name_ = text;
      if (tensors_.contains(name_) || (name_ == "__metadata__" && seen_metadata_)) fail("occurs twice in the header");
      seen_metadata_ = seen_metadata_ || name_ == "__metadata__";
      return true;
    }
    field_ = text;
    // A field that occurs twice may mean two things to two readers, so it is refused.
    bool* const seen = field_ == "dtype"          ? &seen_type_
                       : field_ == "shape"        ? &seen_shape_
                       : field_ == "data_offsets" ? &seen_offsets_
                                                  : nullptr;
    if (seen == nullptr)
      fail(fmt::format("unknown field {}, expected dtype, shape and data_offsets", quoted_name(field_)));
    if (*seen) fail(fmt::format("{} occurs twice", field_));
    return *seen = true;
  }

  bool string(string_t& text) override {
    if (level_ == Level::metadata) return true;
    if (level_ != Level::tensor || field_ != "dtype") return unexpected("text");
    tensor_.type = text;
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::tensor || field_ == "dtype") return unexpected("a list");
    level_ = Level::list;
    list_.clear();
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::list) return unexpected("a number");
    // Refuses the list at its first surplus number, so that a damaged header cannot make it grow.
    if (list_.size() == (field_ == "shape" ? kMaxDimensions : 2)) fail(fmt::format("{} has too many numbers", field_));
    list_.push_back(value);
    return true;
  }

  bool end_array() override {
    level_ = Level::tensor;
    if (field_ == "shape") {
      tensor_.shape = list_;
      return true;
    }
    if (list_.size() != 2) fail(fmt::format("data_offsets has {} numbers, expected 2", list_.size()));
    tensor_.begin = list_[0];
    tensor_.end = list_[1];
    return true;
  }

  bool end_object() override {
    if (level_ == Level::tensor) {
      if (!seen_type_ || !seen_shape_ || !seen_offsets_)
        fail(fmt::format("has no {}", !seen_type_ ? "dtype" : !seen_shape_ ? "shape" : "data_offsets"));
      tensors_.emplace(name_, std::move(tensor_));
    }
    // Metadata and tensors are inside the header's object; the header itself is the outermost one.
    level_ = level_ == Level::header ? Level::outside : Level::header;
    return true;
  }

 protected:
  [[noreturn]] bool unexpected(const std::string& found) override {
    if (level_ == Level::outside) throw InputError(where(), fmt::format("the header is {}, expected an object", found));
    if (level_ == Level::header) fail(fmt::format("found {}, expected an object", found));
    if (level_ == Level::metadata) fail(fmt::format("found {}, expected text only", found));
    fail(fmt::format("{}: found {}, expected {}", field_, found,
                     field_ == "dtype" ? "text" : "a list of whole numbers from 0"));
  }
  [[nodiscard]] std::string part() const override { return "header"; }

 private:
  enum class Level : unsigned char { outside, header, metadata, tensor, list };

  [[noreturn]] void fail(const std::string& text) const {
    throw InputError(where(), fmt::format("tensor {}: {}", quoted_name(name_), text));
  }

  Level level_ = Level::outside;
  std::string name_, field_;
  HeaderTensor tensor_;
  std::vector<std::uint64_t> list_;
  bool seen_type_ = false, seen_shape_ = false, seen_offsets_ = false, seen_metadata_ = false;
  std::map<std::string, HeaderTensor, std::less<>> tensors_;
};

}  // namespace

std::map<std::string, HeaderTensor, std::less<>> read_header(std::string_view text, const std::string& file) {
  HeaderReader reader(Where{file, 0, 0});
  // The format requires the brace as the first byte; the JSON parser would accept a byte order mark.
  if (!text.starts_with('{')) throw InputError(Where{file, 0, 0}, "the header is not a JSON object");
  nlohmann::json::sax_parse(text, &reader);
  return std::move(reader).tensors();
}

}  // namespace plimsoll::exec
