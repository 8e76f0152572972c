#include "subject.hpp"

#include <stdlib.h> // setenv

#include "op-call/source.hpp"

namespace numerics {

namespace {

using nlohmann::json;

// The name lives in `attributes`.
opdock::Attribute attribute_of(const std::string &name, const json &value) {
    if (value.is_boolean())
        return {name.c_str(), value.get<bool>()};
    if (value.is_number_integer())
        return {name.c_str(), value.get<std::int64_t>()};
    if (value.is_string())
        return {name.c_str(), opdock_dtype_unpack(opdock::op_call::parse_dtype(value.get<std::string>()))};
    return {name.c_str(), value.get<double>()};
}

// Arguments of a call. Attributes borrow their names from the JSON object.
struct Given {
    std::vector<opdock::TensorArg> inputs, outputs;
    std::vector<opdock::Attribute> attributes;

    Given(const std::vector<const DLTensor *> &with_inputs, const std::vector<const DLTensor *> &with_outputs,
          const json &with_attributes)
        : inputs(with_inputs.begin(), with_inputs.end()), outputs(with_outputs.begin(), with_outputs.end()) {
        for (auto item = with_attributes.begin(); item != with_attributes.end(); ++item)
            attributes.push_back(attribute_of(item.key(), item.value()));
    }

    opdock::Args arguments() const { return {inputs, outputs, attributes}; }
};

} // namespace

std::unique_ptr<opdock::Host> open_host(const std::vector<std::string> &modules) {
    setenv("OPDOCK_NUMERICS_PLUGIN_MODULES_ONLY", "1", 1);
    setenv("OPDOCK_NUMERICS_DEFAULT_PLUGINS", "opdock", 1); // as built, not installed beside the library
    opdock::Options options;
    options.modules = modules;
    options.prefix = "OPDOCK_NUMERICS_";
    options.log = [](std::int32_t, std::string_view) {
    }; // the policy changes with each subject, and each change would log a line
    return std::make_unique<opdock::Host>(options);
}

std::vector<Implementation> implementations(const opdock::Host &host) {
    const json described = json::parse(host.describe());
    std::vector<Implementation> result;
    for (const json &op : described.at("ops"))
        for (const json &implementation : op.at("implementations"))
            if (implementation.at("device") == "cpu")
                result.push_back({op.at("op"), implementation.at("impl_id"), implementation.at("kind")});
    return result;
}

Subject::Subject(const opdock::Host &host, Implementation implementation)
    : host_(host), implementation_(std::move(implementation)), op_(host.op(implementation_.op)),
      only_this_(host.policy({{"strict", "1"}, {"per_op", implementation_.op + "=impl:" + implementation_.impl_id}})) {}

Outcome Subject::call(const std::vector<const DLTensor *> &inputs, const std::vector<const DLTensor *> &outputs,
                      const json &attributes, const std::vector<std::uint32_t> &list_sizes) const {
    const Given given(inputs, outputs, attributes);
    opdock::Args arguments = given.arguments();
    if (!list_sizes.empty())
        arguments.lists(list_sizes);
    const opdock::ScopedPolicy scope(host_, only_this_);
    const opdock_status status = op_.try_call(arguments);
    return {status, status == OPDOCK_OK ? "" : opdock_last_error()};
}

std::string Subject::refusal(const std::vector<const DLTensor *> &inputs, const std::vector<const DLTensor *> &outputs,
                             const json &attributes) const {
    const Given given(inputs, outputs, attributes);
    try {
        const opdock::Prepared prepared = op_.prepare(given.arguments(), only_this_);
    } catch (const std::exception &exception) {
        return exception.what();
    }
    return {};
}

} // namespace numerics
