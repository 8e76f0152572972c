// The arguments that a module's function is called with: those of a manifest, looked up in the signature of the op.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contents.hpp"
#include "signature/signature.hpp"
#include "tune/yaml_reader.hpp"

namespace opdock::plugin_pack {

class ArgumentReader : core::YamlReader {
  public:
    ArgumentReader(std::vector<core::TuneProblem> &problems, const core::Signature &signature,
                   tvm_ffi::Implementation &implementation)
        : YamlReader(problems), problems_(problems), signature_(signature), implementation_(implementation) {}

    // Null if the implementation `map` has no such field.
    void read(const core::YamlNode &map, const core::YamlNode *knobs, const core::YamlNode *arguments, bool flatten);

  private:
    void read_knob(const core::YamlNode &name, const core::YamlNode &value);
    std::optional<std::int64_t> bound(const core::YamlNode &map, std::string_view field) const;
    void read_argument(const core::YamlNode &node, bool flatten);
    std::optional<tvm_ffi::Argument> named(const std::string &name, bool flatten) const;
    tvm_ffi::Argument tensor(std::size_t parameter, bool flatten) const;
    std::vector<std::string_view> names() const;
    void leave_rest(const core::YamlNode &at);
    void leave_attribute(const core::YamlNode &at, std::size_t index);
    bool is_passed(tvm_ffi::Argument::Source source, std::size_t index) const;

    std::vector<core::TuneProblem> &problems_;
    const core::Signature &signature_;
    tvm_ffi::Implementation &implementation_;
};

} // namespace opdock::plugin_pack
