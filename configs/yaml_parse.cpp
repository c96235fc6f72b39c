// SPDX-License-Identifier: Apache-2.0
// Parses text to the tree of yaml_node_data.h. It uses yaml-cpp's events instead of its nodes: they carry positions,
// and limits can be enforced during parsing.
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <fmt/format.h>

#include <sstream>
#include <unordered_map>

#include "configs/text_file.h"
#include "configs/yaml_node_data.h"
#include "model/input_file.h"

namespace plimsoll::configs {

namespace {

constexpr std::size_t kMaxNodes = 200'000;

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::shared_ptr<const std::string> file) : file_(std::move(file)) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(node(mark, NodeKind::null, anchor)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "aliases (*name) are not allowed here"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "!") check_tag(mark, tag);
    auto data = node(mark, NodeKind::scalar, anchor);
    data->scalar = value;
    data->quoted = tag == "!";
    if (!data->quoted && tag == "?" && (value == "~" || value == "null" || value.empty())) data->kind = NodeKind::null;
    add(std::move(data));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(node(mark, NodeKind::sequence, anchor), mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(node(mark, NodeKind::map, anchor), mark);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] std::shared_ptr<const NodeData> root() const { return root_; }

 private:
  struct Open {
    std::shared_ptr<NodeData> data;
    std::shared_ptr<NodeData> key;                       // the key whose value has not been read yet
    std::unordered_map<std::string, std::size_t> lines;  // line of each key so far
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& text) const {
    throw InputError(Where{*file_, static_cast<std::size_t>(mark.line + 1), static_cast<std::size_t>(mark.column + 1)},
                     text);
  }

  // yaml-cpp reports "?" and "" for values without a tag.
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?") fail(mark, "tags (!name) are not allowed here");
  }

  std::shared_ptr<NodeData> node(const YAML::Mark& mark, NodeKind kind, YAML::anchor_t anchor) {
    if (anchor != 0) fail(mark, "anchors (&name) are not allowed here");
    if (++nodes_ > kMaxNodes) fail(mark, fmt::format("more than {} values in one file", kMaxNodes));
    auto data = std::make_shared<NodeData>();
    data->kind = kind;
    data->file = file_;
    data->line = static_cast<std::size_t>(mark.line + 1);
    data->column = static_cast<std::size_t>(mark.column + 1);
    return data;
  }

  void open(std::shared_ptr<NodeData> data, const YAML::Mark& mark) {
    if (stack_.size() >= kMaxDepth) fail(mark, fmt::format("nested deeper than {} levels", kMaxDepth));
    stack_.push_back({std::move(data), nullptr, {}});
  }

  void close() {
    std::shared_ptr<NodeData> data = std::move(stack_.back().data);
    stack_.pop_back();
    add(std::move(data));
  }

  void add(std::shared_ptr<NodeData> data) {
    if (stack_.empty()) {
      root_ = std::move(data);
      return;
    }
    Open& top = stack_.back();
    if (top.data->kind == NodeKind::sequence) {
      top.data->entries.push_back({{}, data->line, data->column, data});
    } else if (top.key == nullptr) {
      check_key(top, *data);
      top.key = std::move(data);
    } else {
      if (data->kind == NodeKind::null) {  // an empty value has no position of its own: yaml-cpp reports the next line
        data->line = top.key->line;
        data->column = top.key->column;
      }
      top.data->entries.push_back({top.key->scalar, top.key->line, top.key->column, std::move(data)});
      top.key = nullptr;
    }
  }

  void check_key(Open& map, const NodeData& key) const {
    const Where where{*file_, key.line, key.column};
    if (key.kind != NodeKind::scalar) throw InputError(where, "a key must be a plain word");
    const auto [first, is_new] = map.lines.emplace(key.scalar, key.line);
    if (!is_new)
      throw InputError(where, fmt::format("key '{}' occurs twice in this map; first at line {}", shortened(key.scalar),
                                          first->second));
  }

  std::shared_ptr<const std::string> file_;
  std::shared_ptr<const NodeData> root_;
  std::vector<Open> stack_;
  std::size_t nodes_ = 0;
};

// Returns the position of the first byte that is not text, or npos: control characters other than line ends and tabs,
// and invalid UTF-8.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) return i;
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string::npos;
}

}  // namespace

std::shared_ptr<const NodeData> parse_yaml(const std::string& text, const std::string& name) {
  if (const std::size_t bad = first_bad_byte(text); bad != std::string::npos)
    throw InputError(place_in(text, bad, name), fmt::format("byte 0x{:02x} is not text; expected YAML in UTF-8",
                                                            static_cast<unsigned char>(text[bad])));
  TreeBuilder builder(std::make_shared<const std::string>(name));
  try {
    // yaml-cpp 0.7 treats a quote that is still open at the end as closed if the file ends with a line break or blanks.
    // Appending a comment prevents that and changes nothing else.
    std::istringstream stream(text + (text.ends_with('\n') ? "#" : "\n#"));
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || builder.root() == nullptr)
      throw InputError(Where{name, 1, 1}, "the file is empty; expected YAML");
    const auto root = builder.root();
    if (parser.HandleNextDocument(builder))
      throw InputError(Where{name, builder.root()->line, 1}, "a second YAML document; a file may hold only one");
    return root;
  } catch (const YAML::Exception& error) {
    throw InputError(
        Where{name, static_cast<std::size_t>(error.mark.line + 1), static_cast<std::size_t>(error.mark.column + 1)},
        fmt::format("not valid YAML: {}", error.msg));
  }
}

}  // namespace plimsoll::configs
