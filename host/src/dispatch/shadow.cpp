#include "dispatch/shadow.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "dispatch/call_host.hpp"
#include "dispatch/cpu_fallback.hpp"
#include "dispatch/workspace.hpp"
#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "observe/agreement.hpp"
#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::string_view every_op = "all";

// "1/100"; `offset` is where it starts in the value.
uint64_t parse_rate(std::string_view text, const Place &place, std::size_t offset) {
    const std::string_view number = text.starts_with("1/") ? text.substr(2) : "";
    uint64_t one_in = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), one_in);
    if (number.empty() || error != std::errc() || end != number.data() + number.size() || one_in == 0) {
        reject(place, offset, "expected a rate such as 1/1000 behind '@', found " + quote(text));
    }
    return one_in;
}

// Elements in row-major order, without the gaps of strides. `first` is where the first one lies.
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

// The calls that the shadow makes have no shadows of their own.
class InShadow {
  public:
    explicit InShadow(CallThread &thread) : thread_(thread) { thread_.is_in_shadow = true; }
    ~InShadow() { thread_.is_in_shadow = false; }
    InShadow(const InShadow &) = delete;
    InShadow &operator=(const InShadow &) = delete;

  private:
    CallThread &thread_;
};

// One call with a shadow.
class ShadowRun {
  public:
    // Copies what the call reads. Throws Error where it can have no shadow.
    ShadowRun(const Attempt &attempt, const opdock_call &call) : host_(attempt.host), attempt_(attempt) {
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
    }

    // After the program's kernel: runs the shadow. What differs, or empty; throws Error where nothing was computed.
    std::string compare() {
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
                    return fmt::format("in '{}', {}", signature_->parameter(p).name, difference);
                }
            }
        }
        return {};
    }

    const std::string &shadow() const { return shadow_; }

  private:
    [[noreturn]] static void refuse(const std::string &why) { throw Error(OPDOCK_UNSUPPORTED, why); }

    bool is_written(size_t p) const { return p >= signature_->inputs.size() || signature_->parameter(p).mut; }

    static const std::byte *bytes_at(const DLTensor &tensor) {
        return static_cast<const std::byte *>(first_element(&tensor));
    }

    // The call as a program makes it.
    void describe(const opdock_call &call) {
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

    void run_shadow(const Bound &copied) {
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
        refuse(tried.empty() ? "nothing but itself is registered for the CPU in the order " +
                                   order_text(attempt_.shadow.rule->order)
                             : "no shadow takes the call" + tried);
    }

    // False, and why, where this one computes nothing.
    bool run(const Link &link, const CallShape &shape, const Bound &copied, std::string *why) {
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

    std::vector<std::byte> elements_of_program(const DeviceAccess &device, const DLTensor &tensor) const {
        const Extent &extent = *std::find_if(bound_.extents.begin(), bound_.extents.end(),
                                             [&](const Extent &one) { return one.tensor == &tensor; });
        auto *begin = reinterpret_cast<std::byte *>(extent.begin); // NOLINT(performance-no-int-to-ptr)
        std::vector<std::byte> bytes(extent.end - extent.begin);
        device.copy_to_host(bytes.data(), begin, bytes.size());
        return dense_elements(tensor, bytes.data() + (bytes_at(tensor) - begin));
    }

    CallHost &host_;
    const Attempt &attempt_;
    const Signature *signature_ = nullptr;
    std::vector<DLTensor> tensors_;
    std::vector<const DLTensor *> pointers_;
    std::vector<opdock_attribute> attributes_;
    std::vector<uint32_t> list_sizes_;
    opdock_args args_ = {};
    Bound bound_;
    std::optional<CpuCopies> copies_;
    std::string shadow_; // impl_id
};

void tell(const Attempt &attempt, ShadowCount count, const std::string &what) {
    CallHost &host = attempt.host;
    attempt.deployment.counts().add(count);
    if (count == ShadowCount::agreed) {
        return;
    }
    if (const auto more = attempt.deployment.shadow_lines().pass(host.now())) {
        const std::string line = fmt::format("Op '{}' on {}: {}{}", attempt.implementation.op,
                                             host.devices().text(attempt.problem.device), what, *more);
        host.log().write(count == ShadowCount::disagreed ? OPDOCK_LOG_WARNING : OPDOCK_LOG_INFO, line);
    }
}

// Whatever goes wrong beside the program's call is told, and is none of its concern.
template<class Work>
bool beside(const Attempt &attempt, Work work) {
    const Uncancellable host_work;
    try {
        const InShadow no_others(call_thread());
        work();
        return true;
    } catch (const std::exception &error) {
        tell(attempt, ShadowCount::left_out,
             fmt::format("a call of '{}' has no shadow: {}", attempt.implementation.impl_id, error.what()));
        return false;
    }
}

opdock_status run_compared(const Attempt &attempt, const opdock_problem *problem, const opdock_call *call) {
    std::optional<ShadowRun> run;
    beside(attempt, [&] { run.emplace(attempt, *call); });
    const opdock_status status = attempt.shadow.kernel(problem, call);
    if (run && status == OPDOCK_OK) {
        beside(attempt, [&] {
            const std::string difference = run->compare();
            tell(attempt, difference.empty() ? ShadowCount::agreed : ShadowCount::disagreed,
                 fmt::format("'{}' and its shadow '{}' disagree: {}", attempt.implementation.impl_id, run->shadow(),
                             difference));
        });
        thread_state().forget_message(); // the shadow's
    }
    return status;
}

} // namespace

std::vector<ShadowRule> parse_shadow_rules(std::string_view value, const Place &place) {
    std::vector<ShadowRule> rules;
    for (const Piece &piece : split(value, ";")) {
        const size_t equals = piece.text.find('=');
        const size_t at = std::min(piece.text.rfind('@'), piece.text.size());
        if (equals == std::string_view::npos || equals > at) {
            reject(place, piece.offset,
                   "expected OP=TOKEN@1/N, such as gelu=reference@1/1000, found " + quote(piece.text));
        }
        ShadowRule rule;
        const std::string_view op = trimmed(piece.text.substr(0, equals));
        rule.op = op == every_op ? "" : std::string(parse_op_name(op, place, piece.offset));
        rule.order = parse_order(piece.text.substr(equals + 1, at - equals - 1), place, piece.offset + equals + 1);
        if (at < piece.text.size()) {
            rule.one_in = parse_rate(piece.text.substr(at + 1), place, piece.offset + at + 1);
        }
        if (std::any_of(rules.begin(), rules.end(), [&](const ShadowRule &one) { return one.op == rule.op; })) {
            reject(place, piece.offset, quote(op) + " is given twice; keep one");
        }
        rules.push_back(std::move(rule));
    }
    return rules;
}

const ShadowRule *shadow_rule_for(std::span<const ShadowRule> rules, std::string_view op) {
    const ShadowRule *found = nullptr;
    for (const ShadowRule &rule : rules) {
        if (rule.op == op || (rule.op.empty() && found == nullptr)) {
            found = &rule;
        }
    }
    return found;
}

opdock_status run_with_shadow(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = *static_cast<Attempt *>(problem->host_data);
    Shadow &shadow = attempt.shadow;
    const uint64_t number = shadow.calls.fetch_add(1, std::memory_order_relaxed);
    const CallThread *thread = known_call_thread();
    if (number % shadow.rule->one_in != 0 || (thread != nullptr && thread->is_in_shadow)) [[likely]] {
        return shadow.kernel(problem, call);
    }
    return run_compared(attempt, problem, call);
}

} // namespace opdock::core
