#include "dispatch/shadow_run.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "dispatch/call_host.hpp"
#include "dispatch/workspace.hpp"
#include "load/plugin_call.hpp"
#include "observe/agreement.hpp"
#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "tune/implementation_tuning.hpp"

namespace opdock::core {
namespace {

// Elements in row-major order, without the gaps of strides. `first`: address of the first element.
std::vector<std::byte> dense_elements(const DLTensor &tensor, const std::byte *first) {
    const size_t size = bytes_of(tensor.dtype);
    std::vector<std::byte> elements;
    std::array<int64_t, OPDOCK_MAX_RANK> index{};
    for (int32_t d = 0; d >= 0;) {
        int64_t offset = 0;
        for (int32_t i = 0; i < tensor.ndim; ++i) {
            offset += index.at(static_cast<size_t>(i)) * tensor.strides[i];
        }
        const std::byte *element = first + offset * static_cast<int64_t>(size);
        elements.insert(elements.end(), element, element + size);
        for (d = tensor.ndim - 1; d >= 0 && ++index.at(static_cast<size_t>(d)) == tensor.shape[d]; --d) {
            index.at(static_cast<size_t>(d)) = 0;
        }
    }
    return elements;
}

const std::byte *bytes_at(const DLTensor &tensor) {
    return static_cast<const std::byte *>(first_element(&tensor));
}

std::vector<std::byte> elements_of_copy(const DLTensor &tensor) {
    return has_elements(tensor) ? dense_elements(tensor, bytes_at(tensor)) : std::vector<std::byte>();
}

[[noreturn]] void refuse(const std::string &why) {
    throw Error(OPDOCK_UNSUPPORTED, why);
}

} // namespace

template<class See>
void ShadowRun::for_each_tensor(See see) const {
    for (size_t p = 0; p < signature_->n_params(); ++p) {
        for (uint32_t t = bound_.first[p]; t < bound_.first[p + 1]; ++t) {
            const uint32_t element = t - bound_.first[p];
            if (bound_.tensors[t] != nullptr) {
                see(p, t, signature_->parameter(p).name + (element == 0 ? "" : "." + std::to_string(element)));
            }
        }
    }
}

bool ShadowRun::is_written(size_t p) const {
    return p >= signature_->inputs.size() || signature_->parameter(p).mut;
}

ShadowRun::ShadowRun(const Attempt &attempt, const opdock_call &call, bool may_be_written)
    : host_(attempt.host), attempt_(attempt) {
    const opdock_problem &problem = attempt.problem;
    if (!attempt.map.empty()) {
        refuse("'" + attempt.implementation.impl_id + "' knows a shorter signature of the op");
    }
    if (host_.devices().is_capturing(problem.device, call.stream)) {
        refuse("the stream is being captured");
    }
    describe(call);
    signature_ = host_.catalog().declared(attempt.implementation.op).signature.get();
    bound_ = bind(*signature_, args_);
    for (size_t p = 0; p < signature_->n_params(); ++p) {
        if (signature_->parameter(p).host && is_written(p)) {
            refuse("the op writes to host memory");
        }
    }
    copies_.emplace(host_.devices(), *signature_, bound_, args_);
    if (may_be_written) {
        keep_written_inputs();
    }
}

void ShadowRun::compare() {
    if (signature_->counted_dims != 0) { // a right result may have anything past its count
        refuse("the op counts how much of its outputs is filled");
    }
    const Bound copied = bind(*signature_, copies_->args());
    run_shadow(copied);
    const DeviceAccess device(host_.devices(), bound_.device, args_.stream);
    const DeviceInUse current(device);
    for (size_t p = 0; p < signature_->n_params(); ++p) {
        for (uint32_t t = bound_.first[p]; t < bound_.first[p + 1]; ++t) {
            if (bound_.tensors[t] == nullptr || !is_written(p) || !has_elements(*bound_.tensors[t])) {
                continue;
            }
            const std::string difference =
                disagreement(opdock_dtype_pack(bound_.tensors[t]->dtype),
                             dense_elements(*copied.tensors[t], bytes_at(*copied.tensors[t])),
                             elements_of_program(device, *bound_.tensors[t]));
            if (!difference.empty()) {
                difference_ = fmt::format("in '{}', {}", signature_->parameter(p).name, difference);
                return;
            }
        }
    }
}

CallFile ShadowRun::file() const {
    const CallShape shape(*signature_, bound_);
    const std::vector<Knob> &knobs = attempt_.implementation.knobs;
    const TuneConfig &config = attempt_.chosen.config;
    CallFile file;
    file.text = describe_call(attempt_.implementation, shape, bound_.attributes, host_.devices().text(bound_.device),
                              config.empty() ? "" : config_text(knobs, config));
    file.shadow = shadow_;
    file.difference = difference_;
    const Bound copied = bind(*signature_, copies_->args());
    const DeviceAccess device(host_.devices(), bound_.device, args_.stream);
    const DeviceInUse current(device);
    for_each_tensor([&](size_t p, uint32_t t, const std::string &name) {
        const DLTensor &copy = *copied.tensors[t];
        if (!shape.tensors[t].contiguous) {
            file.strides.push_back({name, {copy.strides, copy.strides + copy.ndim}});
        }
        const auto add = [&](const char *prefix, std::vector<std::byte> elements) {
            file.tensors.push_back({prefix + name,
                                    opdock_dtype_pack(copy.dtype),
                                    {copy.shape, copy.shape + copy.ndim},
                                    std::move(elements)});
        };
        const auto before = before_.find(t);
        if (p < signature_->inputs.size()) {
            add("", before != before_.end() ? before->second : elements_of_copy(copy));
        }
        if (is_written(p)) {
            const DLTensor &theirs = *bound_.tensors[t];
            add("program.", has_elements(theirs) ? elements_of_program(device, theirs) : std::vector<std::byte>());
            if (!shadow_.empty()) {
                add("shadow.", elements_of_copy(copy));
            }
        }
    });
    return file;
}

uint64_t ShadowRun::bytes() const {
    uint64_t bytes = 0;
    for_each_tensor([&](size_t p, uint32_t t, const std::string & /*name*/) {
        const DLTensor &tensor = *bound_.tensors[t];
        uint64_t of_tensor = bytes_of(tensor.dtype);
        for (int32_t d = 0; d < tensor.ndim; ++d) {
            of_tensor *= static_cast<uint64_t>(tensor.shape[d]);
        }
        const uint64_t results = is_written(p) ? (shadow_.empty() ? 1 : 2) : 0;
        bytes += of_tensor * (results + (p < signature_->inputs.size() ? 1 : 0));
    });
    return bytes;
}

void ShadowRun::keep_written_inputs() {
    const Bound copied = bind(*signature_, copies_->args());
    for_each_tensor([&](size_t p, uint32_t t, const std::string & /*name*/) {
        if (p < signature_->inputs.size() && is_written(p)) {
            before_.emplace(t, elements_of_copy(*copied.tensors[t]));
        }
    });
}

void ShadowRun::describe(const opdock_call &call) {
    const opdock_problem &problem = attempt_.problem;
    tensors_.reserve(problem.n_tensors);
    for (uint32_t t = 0; t < problem.n_tensors; ++t) {
        if (problem.tensors[t] == nullptr) {
            pointers_.push_back(nullptr);
            continue;
        }
        DLTensor &tensor = tensors_.emplace_back(*problem.tensors[t]);
        tensor.data = call.data[t];
        tensor.byte_offset = 0;
        pointers_.push_back(&tensor);
    }
    for (uint32_t a = 0; a < problem.n_attributes; ++a) {
        attributes_.push_back({nullptr, problem.attributes[a]});
    }
    const Signature &form = *attempt_.implementation.form;
    for (uint32_t p = 0; p < form.n_params(); ++p) {
        if (form.parameter(p).list) {
            list_sizes_.push_back(problem.tensor_offsets[p + 1] - problem.tensor_offsets[p]);
        }
    }
    args_.struct_size = sizeof args_;
    args_.n_inputs = problem.tensor_offsets[problem.n_inputs];
    args_.n_outputs = problem.n_tensors - args_.n_inputs;
    args_.n_attributes = problem.n_attributes;
    args_.n_lists = static_cast<uint32_t>(list_sizes_.size());
    args_.inputs = pointers_.data();
    args_.outputs = pointers_.data() + args_.n_inputs;
    args_.attributes = attributes_.data();
    args_.stream = call.stream;
    args_.list_sizes = list_sizes_.empty() ? nullptr : list_sizes_.data();
    args_.device = problem.device;
}

void ShadowRun::run_shadow(const Bound &copied) {
    PolicySection section;
    section.per_op[attempt_.implementation.op] = {attempt_.shadow.rule->order, host_.shadow_source()};
    Policy policy;
    policy.everywhere = std::move(section);
    PolicyStack stack = host_.effective_policy();
    stack.scopes.push_back(std::make_shared<const Policy>(std::move(policy)));
    const HeldTarget held = host_.target_under(host_.op(attempt_.implementation.op), std::move(stack));
    const std::shared_ptr<const Chain> chain = host_.chain_for(*held.target, copied.device, copied.dtypes);
    const CallShape shape(*signature_, copied);
    std::string tried;
    for (const Link &link : chain->links) {
        if (link.implementation == &attempt_.implementation || is_active(call_thread(), *link.implementation)) {
            continue;
        }
        std::string why;
        if (run(link, shape, copied, &why)) {
            shadow_ = link.implementation->impl_id;
            return;
        }
        tried += fmt::format("; '{}': {}", link.implementation->impl_id, why);
    }
    refuse(tried.empty()
               ? "nothing but itself is registered for the CPU in the order " + order_text(attempt_.shadow.rule->order)
               : "no shadow takes the call" + tried);
}

bool ShadowRun::run(const Link &link, const CallShape &shape, const Bound &copied, std::string *why) {
    Attempt attempt(host_, *link.deployment);
    attempt.is_observed = false;
    attempt.fits = fits_form(*link.implementation->form, *signature_, copied);
    std::vector<void *> data;
    for (const DLTensor *tensor : copied.tensors) {
        data.push_back(first_element(tensor));
    }
    if (attempt.prepare(shape, true) != OPDOCK_OK) {
        *why = attempt.reason;
        return false;
    }
    if (*why = attempt.misalignment(shape, data.data()); !why->empty()) {
        return false;
    }
    std::vector<void *> ordered = data;
    if (!attempt.map.empty()) {
        ordered.clear();
        std::transform(attempt.map.begin(), attempt.map.end(), std::back_inserter(ordered),
                       [&](uint32_t tensor) { return data[tensor]; });
    }
    Workspace workspace(attempt, copies_->args());
    if (workspace.provide(why) != OPDOCK_OK) {
        return false;
    }
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                           0,
                           attempt.problem.n_tensors,
                           0,
                           ordered.data(),
                           nullptr,
                           workspace.memory(),
                           workspace.memory() != nullptr ? attempt.workspace_size : 0};
    Journal::Open entry = host_.note_first_call(attempt.deployment);
    const opdock_status status = call_plugin([&] { return attempt.kernel(&attempt.problem, &call); });
    entry.close();
    *why = status == OPDOCK_OK ? "" : fmt::format("{}: {}", status_text(status), take_message(status));
    return status == OPDOCK_OK;
}

std::vector<std::byte> ShadowRun::elements_of_program(const DeviceAccess &device, const DLTensor &tensor) const {
    Extent extent{&tensor, {}, false, 0, 0};
    measure(*signature_, extent);
    auto *begin = reinterpret_cast<std::byte *>(extent.begin); // NOLINT(performance-no-int-to-ptr)
    std::vector<std::byte> bytes(extent.end - extent.begin);
    device.copy_to_host(bytes.data(), begin, bytes.size());
    return dense_elements(tensor, bytes.data() + (bytes_at(tensor) - begin));
}

} // namespace opdock::core
