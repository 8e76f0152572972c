#include "run.hpp"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "op-call/call.hpp"
#include "op-call/placed_call.hpp"
#include "op-call/requested.hpp"

namespace opdock::plugin_run {
namespace {

using nlohmann::json;
using op_call::HostTensor;

std::vector<Tensors> allocate(const op_call::Operands &outputs, const Signature &signature) {
    std::vector<Tensors> tensors;
    for (size_t i = 0; i < outputs.size(); ++i) {
        Tensors &list = tensors.emplace_back();
        for (const op_call::Operand &output : outputs[i]) {
            try {
                list.emplace_back(output.dtype, output.shape);
            } catch (const op_call::NoMemory &error) {
                throw cli::Failure("output " + signature.outputs[i].name + ": " + error.what());
            }
        }
    }
    return tensors;
}

// Copies of the inputs that the op overwrites, for repeated calls.
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

// The tensors on the device: the host's own on the CPU, copies on other devices.
class Placement {
  public:
    Placement(const Host &host, DLDevice device, const Signature &signature, CallTensors &tensors)
        : host_(host), device_(device), inputs(op_call::operands_of(tensors.inputs)),
          outputs(op_call::operands_of(tensors.outputs)) {
        if (is_elsewhere()) {
            place(inputs, signature.inputs, tensors.inputs, [&](size_t i) { return signature.inputs[i].mut; });
            place(outputs, signature.outputs, tensors.outputs, [](size_t /*unused*/) { return true; });
            fill();
        }
        op_call::put_on(inputs, signature.inputs, device);
        op_call::put_on(outputs, signature.outputs, device);
    }
    Placement(const Placement &) = delete;
    Placement &operator=(const Placement &) = delete;

    // Copies inputs to the device.
    void fill() const {
        for (const Copy &copy : copies_) {
            if (copy.is_input) {
                detail::check(opdock_device_copy(host_.c(), copy.there.get(), device_, copy.here->memory.get(), cpu,
                                                 copy.here->bytes, nullptr));
            }
        }
        synchronize();
    }

    // Copies back the tensors that the op wrote.
    void fetch() const {
        for (const Copy &copy : copies_) {
            if (copy.is_written) {
                detail::check(opdock_device_copy(host_.c(), copy.here->memory.get(), cpu, copy.there.get(), device_,
                                                 copy.here->bytes, nullptr));
            }
        }
        synchronize();
    }

    // Waits for the device to finish its work.
    void synchronize() const {
        if (is_elsewhere()) {
            detail::check(opdock_device_synchronize(host_.c(), device_, nullptr));
        }
    }

  private:
    struct Copy {
        HostTensor *here;
        op_call::DeviceBuffer there;
        bool is_input;
        bool is_written;
    };

    template<class IsWritten>
    void place(op_call::Operands &operands, const std::vector<op_call::Parameter> &parameters,
               std::vector<Tensors> &tensors, IsWritten is_written) {
        for (size_t i = 0; i < operands.size(); ++i) {
            for (size_t k = 0; k < operands[i].size() && !parameters[i].host; ++k) {
                HostTensor &here = tensors[i][k];
                copies_.push_back(
                    {&here, op_call::DeviceBuffer(host_, device_, here.bytes), &operands == &inputs, is_written(i)});
                operands[i][k].data = copies_.back().there.get();
            }
        }
    }

    bool is_elsewhere() const { return device_.device_type != kDLCPU; }

    const Host &host_;
    const DLDevice device_;
    std::vector<Copy> copies_;

  public:
    op_call::Operands inputs;
    op_call::Operands outputs;
};

// Includes the device's work.
double microseconds_of(const Op &op, const Args &args, const Placement &placement) {
    const auto begin = std::chrono::steady_clock::now();
    const opdock_status status = op.try_call(args);
    if (status == OPDOCK_OK) {
        placement.synchronize();
    }
    const auto end = std::chrono::steady_clock::now();
    if (status != OPDOCK_OK) {
        throw Error(status, opdock_last_error());
    }
    return std::chrono::duration<double, std::micro>(end - begin).count();
}

// The error of a call that only one implementation may serve, for the original `error`.
Error failed_with_impl(const Error &error, const Op &op, const Args &args, const Request &request) {
    std::string text = error.what();
    if (error.status() == OPDOCK_ALL_DROPPED) { // the host's message mentions an order, which the user did not give
        text = "op '" + request.op + "' is not served:";
        const json explained = json::parse(op.explain(args));
        for (const json &dropped : explained.at("dropped")) {
            if (cli::same_name(dropped.at("impl_id").get<std::string>(), request.impl)) {
                text += "\n  " + dropped.at("impl_id").get<std::string>() + ": " +
                        dropped.at("reason").get<std::string>() + " (" + dropped.at("rule").get<std::string>() + ")";
            }
        }
    }
    return {error.status(), text + "\nNothing else is tried because of --impl " + request.impl + "."};
}

} // namespace

CallTensors make_tensors(const Op &op, const Request &request, const Signature &signature, const Arguments &arguments,
                         const std::optional<CallFile> &replayed) {
    CallTensors tensors;
    tensors.inputs = op_call::make_inputs(arguments, signature, op_call::sources_spelling, request.seed);
    tensors.outputs = allocate(
        op_call::infer_outputs(op, signature, op_call::operands_of(tensors.inputs), arguments.attributes,
                               [&](size_t output) { return is_wanted(replayed, arguments, signature, output); }),
        signature);
    if (replayed) {
        lay_out(*replayed, signature, tensors);
    }
    return tensors;
}

Outcome call(const Host &host, const Request &request, DLDevice device, const Signature &signature,
             const Arguments &arguments, CallTensors &tensors) {
    std::optional<Policy> forced;
    std::optional<ScopedPolicy> scope;
    if (!request.impl.empty()) {
        forced = op_call::only(host, request.op, request.impl);
        scope.emplace(host, *forced);
    }
    Placement placement(host, device, signature, tensors);
    const op_call::Call call(signature, placement.inputs, placement.outputs, arguments.attributes, device);

    std::optional<Originals> originals;
    if (request.repeat != 0) {
        originals.emplace(signature, tensors.inputs);
    }
    const Op op = host.op(request.op);
    Outcome outcome;
    try {
        outcome.first_microseconds = microseconds_of(op, call.args(), placement);
        for (uint32_t i = 0; i < request.repeat; ++i) {
            originals->put_back();
            placement.fill();
            outcome.microseconds.push_back(microseconds_of(op, call.args(), placement));
        }
        placement.fetch();
    } catch (const Error &error) {
        if (request.impl.empty()) {
            throw;
        }
        throw failed_with_impl(error, op, call.args(), request);
    }
    uint64_t left = uint64_t{1} + request.repeat; // number of calls; an op may have thousands of implementations
    for (const op_call::Implementation &impl : op_call::implementations_of(host, request.op)) {
        if (const uint64_t calls = left != 0 ? host.served(request.op, impl.id) : 0; calls != 0) {
            if (!request.impl.empty() && !cli::same_name(impl.id, request.impl)) {
                throw cli::Failure("--impl " + request.impl + ": " + op_call::not_served_by(request.impl, impl.id));
            }
            outcome.served.emplace_back(impl.id, calls);
            left -= std::min(left, calls);
            outcome.fell_back |= device.device_type != kDLCPU && impl.device == "cpu";
        }
    }
    return outcome;
}

} // namespace opdock::plugin_run
