#include "files/safetensors.hpp"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "opdock/cpp/dtype.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string &why) {
    throw Error(OPDOCK_INVALID_ARGUMENT, why);
}

std::string type_of(const SafetensorsTensor &tensor) {
    const auto *type = std::find_if(safetensors_types.begin(), safetensors_types.end(),
                                    [&](const SafetensorsType &known) { return known.dtype == tensor.dtype; });
    if (type == safetensors_types.end()) {
        const auto *named = std::find_if(std::begin(named_dtypes), std::end(named_dtypes),
                                         [&](const NamedDtype &known) { return known.packed == tensor.dtype; });
        refuse(".safetensors cannot hold " + std::string(named == std::end(named_dtypes) ? "unknown" : named->name));
    }
    return std::string(type->text);
}

uint32_t bits_of(uint32_t dtype) {
    const DLDataType type = opdock_dtype_unpack(dtype);
    return uint32_t{type.bits} * type.lanes;
}

} // namespace

SafetensorsFile safetensors_file(std::span<const SafetensorsTensor> tensors,
                                 const std::map<std::string, std::string> &metadata) {
    // Sorting by element size, largest first, keeps every tensor in a mapped file aligned to its element size.
    std::vector<const SafetensorsTensor *> order;
    std::set<std::string_view> names;
    for (const SafetensorsTensor &tensor : tensors) {
        if (tensor.name == safetensors_metadata) {
            refuse("a tensor cannot be named '__metadata__'");
        }
        if (!names.insert(tensor.name).second) {
            refuse("two tensors are named '" + tensor.name + "'");
        }
        order.push_back(&tensor);
    }
    std::stable_sort(order.begin(), order.end(), [](const SafetensorsTensor *a, const SafetensorsTensor *b) {
        return bits_of(a->dtype) > bits_of(b->dtype);
    });

    json header = json::object();
    if (!metadata.empty()) {
        header[std::string(safetensors_metadata)] = metadata;
    }
    SafetensorsFile file;
    uint64_t offset = 0;
    for (const SafetensorsTensor *tensor : order) {
        header[tensor->name] = {{"dtype", type_of(*tensor)},
                                {"shape", tensor->shape},
                                {"data_offsets", {offset, offset + tensor->bytes.size()}}};
        offset += tensor->bytes.size();
        file.pieces.push_back(tensor->bytes);
    }
    try {
        file.header = header.dump();
    } catch (const json::exception &) {
        refuse("the name of a tensor is not UTF-8");
    }
    file.header.append((8 - file.header.size() % 8) % 8, ' ');
    std::array<char, 8> size{};
    for (size_t i = 0; i < size.size(); ++i) {
        size.at(i) = static_cast<char>((file.header.size() >> (8 * i)) & 0xff);
    }
    file.header.insert(0, size.data(), size.size());
    return file;
}

} // namespace opdock::core
