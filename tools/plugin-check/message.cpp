#include "message.hpp"

#include <cerrno>

#include <unistd.h>

namespace opdock::plugin_check {
namespace {

using nlohmann::json;
using op_call::AttributeArgument;
using op_call::Tensors;

struct ValueAsJson {
    json operator()(DLDataType value) const { return {{"dtype", opdock_dtype_pack(value)}}; }
    json operator()(const std::vector<int64_t> &list) const { return {{"ints", list}}; }
    json operator()(const std::vector<double> &list) const { return {{"floats", list}}; }
    json operator()(const std::vector<std::string> &list) const { return {{"strings", list}}; }
    template<class T>
    json operator()(const T &value) const {
        return value;
    }
};

void read_value(const json &from, AttributeArgument &to) {
    if (from.is_boolean()) {
        to.value = from.get<bool>();
    } else if (from.is_number_integer()) {
        to.value = from.get<int64_t>();
    } else if (from.is_number()) {
        to.value = from.get<double>();
    } else if (from.is_string()) {
        to.value = from.get<std::string>();
    } else if (from.contains("ints")) {
        to.value = from.at("ints").get<std::vector<int64_t>>();
    } else if (from.contains("floats")) {
        to.value = from.at("floats").get<std::vector<double>>();
    } else if (from.contains("strings")) {
        to.value = from.at("strings").get<std::vector<std::string>>();
    } else {
        to.value = opdock_dtype_unpack(from.at("dtype").get<uint32_t>());
    }
}

} // namespace

json as_json(const Case &one, const op_call::Operands &inputs) {
    json attributes = json::array();
    for (const AttributeArgument &attribute : one.attributes) {
        attributes.push_back({{"name", attribute.name}, {"value", std::visit(ValueAsJson(), attribute.value)}});
    }
    json lists = json::array();
    for (const auto &operands : inputs) {
        json list = json::array();
        for (const op_call::Operand &tensor : operands) {
            list.push_back({{"dtype", tensor.dtype}, {"shape", tensor.shape}});
        }
        lists.push_back(std::move(list));
    }
    return {{"attributes", attributes},
            {"without", one.without},
            {"exercise", static_cast<int>(one.exercise)},
            {"inputs", lists}};
}

Case case_of(const json &json) {
    Case one;
    for (const auto &attribute : json.at("attributes")) {
        read_value(attribute.at("value"), one.attributes.emplace_back());
        attribute.at("name").get_to(one.attributes.back().name);
    }
    json.at("without").get_to(one.without);
    one.exercise = static_cast<Exercise>(json.at("exercise").get<int>());
    return one;
}

op_call::Operands operands_in(const json &json, DLDevice device) {
    op_call::Operands inputs;
    for (const auto &list : json.at("inputs")) {
        std::vector<op_call::Operand> &operands = inputs.emplace_back();
        for (const auto &tensor : list) {
            operands.push_back(
                {nullptr, tensor.at("dtype").get<uint32_t>(), tensor.at("shape").get<std::vector<int64_t>>(), device});
        }
    }
    return inputs;
}

std::vector<Tensors> inputs_of(const json &json) {
    std::vector<Tensors> inputs;
    for (const auto &operands : operands_in(json, cpu)) {
        Tensors &tensors = inputs.emplace_back();
        for (const op_call::Operand &operand : operands) {
            tensors.emplace_back(operand.dtype, operand.shape);
        }
    }
    return inputs;
}

bool write_exchange(int exchange, const void *from, size_t bytes, size_t offset) {
    const auto *at = static_cast<const std::byte *>(from);
    while (bytes > 0) {
        const ssize_t count = pwrite(exchange, at, bytes, static_cast<off_t>(offset));
        if (count <= 0) {
            if (count < 0 && errno == EINTR) {
                continue;
            }
            return false;
        }
        at += count;
        bytes -= static_cast<size_t>(count);
        offset += static_cast<size_t>(count);
    }
    return true;
}

bool read_exchange(int exchange, void *to, size_t bytes, size_t offset) {
    auto *at = static_cast<std::byte *>(to);
    while (bytes > 0) {
        const ssize_t count = pread(exchange, at, bytes, static_cast<off_t>(offset));
        if (count <= 0) {
            if (count < 0 && errno == EINTR) {
                continue;
            }
            return false;
        }
        at += count;
        bytes -= static_cast<size_t>(count);
        offset += static_cast<size_t>(count);
    }
    return true;
}

} // namespace opdock::plugin_check
