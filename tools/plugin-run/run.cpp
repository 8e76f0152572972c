#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::plugin_run {
namespace {

using nlohmann::json;

// Different for each tensor of a call.
uint64_t seed_of(uint64_t seed, uint64_t tensor) {
    return seed * 0x9e3779b97f4a7c15u + tensor;
}

// Says of which argument there is too much.
template<class Function>
void with_name(const std::string &argument, Function make) {
    try {
        make();
    } catch (const NoMemory &error) {
        throw cli::Failure(argument + ": " + error.what());
    }
}

std::vector<Tensors> make_inputs(const Request &request, const Signature &signature, const Arguments &arguments) {
    std::vector<Tensors> inputs;
    uint64_t count = 0;
    for (size_t i = 0; i < arguments.inputs.size(); ++i) {
        Tensors &tensors = inputs.emplace_back();
        for (const Source &source : arguments.inputs[i]) {
            ++count;
            const std::string argument = "--in " + signature.inputs[i].name;
            with_name(argument, [&] {
                if (const auto *made_up = std::get_if<MadeUp>(&source)) {
                    tensors.push_back(make_up(*made_up, seed_of(request.seed, count)));
                } else {
                    tensors.push_back(read_tensor(std::get<FilePart>(source), signature.inputs[i].name));
                }
            });
            const HostTensor &tensor = tensors.back();
            if (tensor.shape.size() > OPDOCK_MAX_RANK) {
                throw cli::Failure(argument + ": " + type_text(tensor.dtype, tensor.shape) + " has " +
                                   std::to_string(tensor.shape.size()) + " dims; a tensor has at most " +
                                   std::to_string(OPDOCK_MAX_RANK));
            }
        }
    }
    return inputs;
}

opdock::Tensor describe(const HostTensor &tensor) {
    return {tensor.memory.get(), opdock_dtype_unpack(tensor.dtype), tensor.shape};
}

// One side of a call, in the form the host takes; a parameter without tensors is one null.
class Side {
  public:
    Side(const std::vector<Parameter> &parameters, const std::vector<Tensors> &tensors) {
        for (size_t i = 0; i < parameters.size(); ++i) {
            for (const HostTensor &tensor : tensors[i]) {
                descriptions_.push_back(describe(tensor));
            }
        }
        size_t next = 0;
        for (size_t i = 0; i < parameters.size(); ++i) {
            for (size_t k = 0; k < tensors[i].size(); ++k) {
                arguments_.emplace_back(descriptions_[next++]);
            }
            if (parameters[i].list) {
                list_sizes_.push_back(static_cast<uint32_t>(tensors[i].size()));
            } else if (tensors[i].empty()) {
                arguments_.emplace_back(nullptr);
            }
        }
    }
    Side(const Side &) = delete;
    Side &operator=(const Side &) = delete;

    TensorArgs arguments() const { return arguments_; }
    const std::vector<uint32_t> &list_sizes() const { return list_sizes_; }

  private:
    std::vector<opdock::Tensor> descriptions_;
    std::vector<TensorArg> arguments_;
    std::vector<uint32_t> list_sizes_;
};

std::vector<Attribute> borrow(const std::vector<AttributeArgument> &arguments) {
    std::vector<Attribute> attributes;
    for (const AttributeArgument &argument : arguments) {
        std::visit([&](const auto &value) { attributes.emplace_back(argument.name.c_str(), value); }, argument.value);
    }
    return attributes;
}

std::vector<Tensors> allocate_outputs(const Op &op, const Signature &signature, const Arguments &arguments,
                                      const Side &inputs, std::span<const Attribute> attributes) {
    Args args(inputs.arguments(), {}, attributes);
    args.lists(inputs.list_sizes());
    std::vector<Tensors> outputs(signature.outputs.size());
    for (const TensorSpec &spec : op.infer_outputs(args)) {
        const bool wanted = !signature.outputs[spec.parameter].optional || !arguments.outputs[spec.parameter].empty();
        if (wanted) {
            with_name("output " + spec.name,
                      [&] { outputs[spec.parameter].emplace_back(opdock_dtype_pack(spec.dtype), spec.shape); });
        }
    }
    return outputs;
}

// What the call would destroy and a repetition needs again.
class Originals {
  public:
    Originals(const Signature &signature, std::vector<Tensors> &inputs) {
        for (size_t i = 0; i < inputs.size(); ++i) {
            for (HostTensor &tensor : inputs[i]) {
                if (signature.inputs[i].mut) {
                    const std::byte *begin = tensor.memory.get();
                    kept_.push_back({&tensor, {begin, begin + tensor.bytes}});
                }
            }
        }
    }

    void put_back() const {
        for (const auto &[tensor, bytes] : kept_) {
            std::copy(bytes.begin(), bytes.end(), tensor->memory.get());
        }
    }

  private:
    std::vector<std::pair<HostTensor *, std::vector<std::byte>>> kept_;
};

double microseconds_of(const Op &op, const Args &args) {
    const auto begin = std::chrono::steady_clock::now();
    const opdock_status status = op.try_call(args);
    const auto end = std::chrono::steady_clock::now();
    if (status != OPDOCK_OK) {
        throw Error(status, opdock_last_error());
    }
    return std::chrono::duration<double, std::micro>(end - begin).count();
}

std::vector<std::string> implementations_of(const Host &host, const std::string &op) {
    std::vector<std::string> ids;
    const json document = json::parse(host.describe());
    for (const json &one : document.at("ops")) {
        if (one.at("op") == op) {
            for (const json &implementation : one.at("implementations")) {
                ids.push_back(implementation.at("impl_id").get<std::string>());
            }
        }
    }
    return ids;
}

// Nothing but `impl` may serve the op.
Policy only(const Host &host, const std::string &op, const std::string &impl) {
    const std::vector<std::string> ids = implementations_of(host, op);
    if (std::none_of(ids.begin(), ids.end(), [&](const std::string &id) { return cli::same_name(id, impl); })) {
        throw cli::Failure("--impl " + impl + ": op '" + op + "' has no such implementation" +
                           cli::did_you_mean(impl, ids) + "\n'plugin-ls --op " + op + "' lists those there are.");
    }
    return host.policy({{"per_op", op + "=impl:" + impl}});
}

// The host's words for a call under the policy of only(), without what they say of that policy: the user wrote --impl,
// and no order.
std::string in_words_of_impl(const std::string &message, const std::string &impl) {
    std::istringstream lines(message);
    std::string text;
    for (std::string line; std::getline(lines, line);) {
        if (!line.ends_with(" (order)") && !line.starts_with("The order is ") && line != "Not tried:") {
            text += line + "\n";
        }
    }
    return text + "Nothing else is tried because of --impl " + impl + ".";
}

} // namespace

CallTensors make_tensors(const Op &op, const Request &request, const Signature &signature, const Arguments &arguments) {
    CallTensors tensors;
    tensors.inputs = make_inputs(request, signature, arguments);
    const Side inputs(signature.inputs, tensors.inputs);
    const std::vector<Attribute> attributes = borrow(arguments.attributes);
    tensors.outputs = allocate_outputs(op, signature, arguments, inputs, attributes);
    return tensors;
}

Outcome call(const Host &host, const Request &request, const Signature &signature, const Arguments &arguments,
             CallTensors &tensors) {
    std::optional<Policy> forced;
    std::optional<ScopedPolicy> scope;
    if (!request.impl.empty()) {
        forced = only(host, request.op, request.impl);
        scope.emplace(host, *forced);
    }
    const Side inputs(signature.inputs, tensors.inputs);
    const Side outputs(signature.outputs, tensors.outputs);
    const std::vector<Attribute> attributes = borrow(arguments.attributes);
    std::vector<uint32_t> list_sizes = inputs.list_sizes();
    list_sizes.insert(list_sizes.end(), outputs.list_sizes().begin(), outputs.list_sizes().end());
    Args args(inputs.arguments(), outputs.arguments(), attributes);
    args.lists(list_sizes);

    std::optional<Originals> originals;
    if (request.repeat != 0) {
        originals.emplace(signature, tensors.inputs);
    }
    const Op op = host.op(request.op);
    Outcome outcome;
    try {
        outcome.first_microseconds = microseconds_of(op, args);
        for (uint32_t i = 0; i < request.repeat; ++i) {
            originals->put_back();
            outcome.microseconds.push_back(microseconds_of(op, args));
        }
    } catch (const Error &error) {
        if (request.impl.empty()) {
            throw;
        }
        throw Error(error.status(), in_words_of_impl(error.what(), request.impl));
    }
    for (const std::string &impl : implementations_of(host, request.op)) {
        if (const uint64_t calls = host.served(request.op, impl); calls != 0) {
            outcome.served.emplace_back(impl, calls);
        }
    }
    return outcome;
}

void check_modules(const Host &host, const Request &request) {
    const json document = json::parse(host.describe());
    for (const std::string &module : request.modules) {
        if (!std::filesystem::is_regular_file(module)) {
            continue; // of a folder, whatever is sound may serve
        }
        for (const json &plugin : document.at("plugins")) {
            std::error_code not_there;
            if (plugin.at("status") != "loaded" &&
                std::filesystem::equivalent(plugin.at("path").get<std::string>(), module, not_there)) {
                throw cli::Failure("--modules " + module + ": " + plugin.at("status").get<std::string>() + " (" +
                                   plugin.at("code").get<std::string>() +
                                   "): " + plugin.at("reason").get<std::string>());
            }
        }
        for (const json &problem : document.at("problems")) {
            const auto message = problem.at("message").get<std::string>();
            if (!problem.at("taken") && message.find(module) != std::string::npos) {
                throw cli::Failure("--modules " + module + " was not taken: " + message);
            }
        }
    }
}

void check_device(const std::string &device) {
    if (device != "cpu" && device != "cpu:0") {
        throw cli::Failure("--device " + device +
                           ": plugin-run makes its tensors in the host's memory, and no plugin offers to copy them to "
                           "this device. Use --device cpu.");
    }
}

} // namespace opdock::plugin_run
