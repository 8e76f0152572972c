#include "op-call/call_file.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/variables.hpp"
#include "metadata.hpp"
#include "text/spelling.hpp"

namespace opdock::op_call {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string &path, const std::string &why) {
    throw cli::Failure(cli::printable_line("'" + path + "': " + why));
}

class Reader {
  public:
    explicit Reader(const std::string &path) : path_(path), metadata_(files::read_safetensors_metadata(path)) {}

    CallFile read() const {
        const auto format = metadata_.find("format");
        if (format == metadata_.end() || format->second != "opdock.call/1") {
            fail(path_, "not a call file: its metadata has " +
                            (format == metadata_.end() ? "no format" : "the format " + core::quote(format->second)) +
                            ", expected opdock.call/1, which a host writes if " + cli::variable_name("CALL_FILES") +
                            " names a folder");
        }
        CallFile file;
        file.path = path_;
        file.op = text("op");
        file.device = text("device");
        file.impl = text("implementation");
        file.shadow = text("shadow", false);
        file.difference = text("difference", false);
        try {
            const json attributes = json::parse(text("attributes"));
            for (const auto &[name, value] : attributes.items()) {
                file.attributes.push_back({name, value.get<std::string>()});
            }
            json::parse(text("outputs")).get_to(file.outputs);
            json::parse(text("strides")).get_to(file.strides);
        } catch (const json::exception &error) {
            fail(path_, std::string("malformed metadata: ") + error.what());
        }
        file.tensors = files::read_safetensors(path_);
        return file;
    }

  private:
    // Made printable, since messages show it.
    std::string text(const char *name, bool is_needed = true) const {
        const auto found = metadata_.find(name);
        if (found == metadata_.end() && is_needed) {
            fail(path_, std::string("its metadata has no '") + name + "'");
        }
        return found == metadata_.end() ? "" : cli::printable_line(found->second);
    }

    const std::string &path_;
    const files::Metadata metadata_;
};

// Bytes from the first element to the end of the last; nothing if no tensor can have such strides.
std::optional<uint64_t> extent_of(const HostTensor &tensor, const std::vector<int64_t> &strides) {
    if (strides.size() != tensor.shape.size() || tensor.bytes == 0) {
        return std::nullopt;
    }
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
        int64_t steps = 0;
        if (strides[d] < 0 || __builtin_mul_overflow(strides[d], tensor.shape[d] - 1, &steps) ||
            __builtin_add_overflow(last, steps, &last)) {
            return std::nullopt;
        }
    }
    int64_t bytes = 0;
    const auto size = static_cast<int64_t>(files::element_size(tensor.dtype));
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, size, &bytes)) {
        return std::nullopt;
    }
    return static_cast<uint64_t>(bytes);
}

// Calls `see(row-major offset, strided offset)`, in bytes, for each element.
template<class See>
void for_each_element(const HostTensor &tensor, const std::vector<int64_t> &strides, See see) {
    const size_t size = files::element_size(tensor.dtype);
    std::vector<int64_t> index(tensor.shape.size(), 0);
    int64_t count = 1;
    for (const int64_t dim : tensor.shape) {
        count *= dim;
    }
    for (int64_t i = 0; i < count; ++i) {
        int64_t there = 0;
        for (size_t d = 0; d < index.size(); ++d) {
            there += index[d] * strides[d];
        }
        see(static_cast<size_t>(i) * size, static_cast<size_t>(there) * size);
        for (size_t d = index.size(); d-- > 0 && ++index[d] == tensor.shape[d];) {
            index[d] = 0;
        }
    }
}

} // namespace

const files::TensorData *CallFile::find(const std::string &name) const {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const files::TensorData &one) { return one.name == name; });
    return found == tensors.end() ? nullptr : &*found;
}

std::string CallFile::text() const {
    const std::string served = "'" + impl + "' on " + device;
    return shadow.empty() ? served : served + "; its shadow '" + shadow + "' disagreed: " + difference;
}

bool is_call_file(std::string_view word) {
    return word.ends_with(".safetensors");
}

CallFile read_call_file(const std::string &path) {
    try {
        return Reader(path).read();
    } catch (const files::Error &error) { // its message contains names from the file
        throw cli::Failure(cli::printable_line(error.what()));
    }
}

std::string name_in_file(const std::string &parameter, size_t element) {
    return parameter + (element == 0 ? "" : "." + std::to_string(element));
}

std::vector<Tensors> inputs_of(const CallFile &file, const Signature &signature) {
    std::vector<Tensors> inputs;
    size_t taken = 0;
    for (const Parameter &parameter : signature.inputs) {
        Tensors &tensors = inputs.emplace_back();
        while (const files::TensorData *data = file.find(name_in_file(parameter.name, tensors.size()))) {
            HostTensor &tensor = tensors.emplace_back(data->dtype, data->shape);
            std::copy(data->bytes.begin(), data->bytes.end(), tensor.memory.get());
            ++taken;
            if (!parameter.list) {
                break;
            }
        }
        if (tensors.empty() && !parameter.optional && !parameter.list) {
            fail(file.path,
                 "it has no tensor '" + parameter.name + "', which op '" + signature.op + "' takes: " + signature.text);
        }
    }
    const auto n_inputs = std::count_if(file.tensors.begin(), file.tensors.end(), [](const files::TensorData &one) {
        return !one.name.starts_with("program.") && !one.name.starts_with("shadow.");
    });
    if (static_cast<size_t>(n_inputs) != taken) {
        fail(file.path, "it has tensors that op '" + signature.op + "' does not take: " + signature.text);
    }
    return inputs;
}

void lay_out(const CallFile &file, const std::string &name, HostTensor &tensor) {
    const auto found = file.strides.find(name);
    const std::optional<uint64_t> extent =
        found == file.strides.end() ? std::nullopt : extent_of(tensor, found->second);
    if (!extent) {
        return;
    }
    const size_t size = files::element_size(tensor.dtype);
    HostTensor laid(tensor.dtype, {static_cast<int64_t>(*extent / size)});
    for_each_element(tensor, found->second, [&](size_t dense, size_t there) {
        std::memcpy(laid.memory.get() + there, tensor.memory.get() + dense, size);
    });
    laid.shape = tensor.shape;
    laid.values = tensor.values;
    laid.strides = found->second;
    tensor = std::move(laid);
}

void gather(HostTensor &tensor) {
    if (tensor.strides.empty()) {
        return;
    }
    HostTensor dense(tensor.dtype, tensor.shape);
    const size_t size = files::element_size(tensor.dtype);
    for_each_element(tensor, tensor.strides, [&](size_t to, size_t from) {
        std::memcpy(dense.memory.get() + to, tensor.memory.get() + from, size);
    });
    tensor = std::move(dense);
}

} // namespace opdock::op_call
