// A host for tests: it ignores the machine's environment and directories, keeps its log lines, and its implementations
// are made with a few words each.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/host.hpp"
#include "opdock/opdock.hpp"
#include "opdock/plugin.hpp"
#include "text/environment.hpp"

namespace opdock::test {

// An implementation whose kernel adds `bias` to its first input, or does something else that a test defines.
struct Made {
    Made(std::string id, uint32_t of_kind, std::string of_vendor = {}, float adds = 0)
        : impl_id(std::move(id)), kind(of_kind), vendor(std::move(of_vendor)), bias(adds) {}

    std::string impl_id;
    uint32_t kind;
    std::string vendor;
    float bias;
    std::string op = "test.add";
    std::string dtypes;
    std::string device = "cpu";
    int32_t priority = 0;
    uint32_t alignment = 0;
    uint32_t required_flags = 0;
    std::function<void(opdock_impl &)> adjust; // sets any other field of the registration

    std::atomic<opdock_status> status{OPDOCK_OK};
    std::function<opdock_status(const opdock_problem &, const opdock_call &)> work; // instead of adding
    std::atomic<int> calls{0};
};

inline constexpr const char *test_ops[] = {
    "test.add(input: T[..., n], *, scale: float = 1.0, name: string = \"\") -> (output ~ input: T[..., n])",
    "test.update(mut state: T[n], input: T[n]) -> (output: T[n])",
    "test.pair(a: T[n], b: U[n]?) -> (output: T[n], extra: U[n]?)",
};

inline opdock_status made_kernel(const opdock_problem *problem, const opdock_call *call) {
    Made &made = *static_cast<Made *>(problem->user_data);
    ++made.calls;
    if (made.work) {
        return made.work(*problem, *call);
    }
    const opdock_status status = made.status;
    if (status != OPDOCK_OK) {
        return problem->host->fail(problem->host, status, (made.impl_id + " was told to").c_str());
    }
    const DLTensor &input = *problem->tensors[0];
    const uint32_t output = problem->tensor_offsets[problem->n_inputs];
    int64_t elements = 1;
    for (int32_t d = 0; d < input.ndim; ++d) {
        elements *= input.shape[d];
    }
    for (int64_t i = 0; i < elements; ++i) {
        static_cast<float *>(call->data[output])[i] = static_cast<const float *>(call->data[0])[i] + made.bias;
    }
    return OPDOCK_OK;
}

inline void register_made(opdock_registry *registry, Made &made) {
    opdock_impl impl = {};
    impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
    impl.kind = made.kind;
    impl.op = made.op.c_str();
    impl.impl_id = made.impl_id.c_str();
    impl.vendor = made.vendor.empty() ? nullptr : made.vendor.c_str();
    impl.device = made.device.c_str();
    impl.dtypes = made.dtypes.empty() ? nullptr : made.dtypes.c_str();
    impl.priority = made.priority;
    impl.alignment = made.alignment;
    impl.required_flags = made.required_flags;
    impl.user_data = &made;
    impl.kernel = made_kernel;
    if (made.adjust) {
        made.adjust(impl);
    }
    registry->register_impl(registry, &impl);
}

// Registers for the next entry: entries are plain functions, without captures.
inline std::function<opdock_status(opdock_registry *)> next_entry;

inline opdock_status run_next_entry(opdock_registry *registry) {
    return next_entry(registry);
}

inline opdock_status declare(opdock_registry *registry, const char *signature) {
    opdock_op_declaration op = {};
    op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
    op.signature = signature;
    return registry->register_op(registry, &op);
}

// True if this machine's cpuid can be made to trap (ARCH_SET_CPUID).
inline bool can_forbid_cpuid() {
    std::ifstream file("/proc/cpuinfo");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find(" cpuid_fault") != std::string::npos;
}

// Lines of a log. They have no lock, because a forked child could find it held for good.
class Lines {
  public:
    Lines() = default;
    Lines(const Lines &) = delete;
    Lines &operator=(const Lines &) = delete;
    ~Lines() {
        for (const Line *line = newest_; line != nullptr;) {
            const std::unique_ptr<const Line> owned(line);
            line = line->older;
        }
    }

    void add(const char *text) {
        Line *added = new Line{text, newest_.load()};
        while (!newest_.compare_exchange_weak(added->older, added)) {
        }
    }
    std::vector<std::string> texts() const {
        std::vector<std::string> texts;
        for (const Line *line = newest_.load(); line != nullptr; line = line->older) {
            texts.push_back(line->text);
        }
        std::reverse(texts.begin(), texts.end());
        return texts;
    }

  private:
    struct Line {
        std::string text;
        Line *older;
    };
    std::atomic<Line *> newest_{nullptr};
};

class MadeHost {
  public:
    // The clock of hosts made from now on.
    static inline core::Deployment::Clock::time_point (*clock)() = core::Deployment::Clock::now;

    explicit MadeHost(const core::RawEnvironment &environment = {}, const std::string &system_policy = "/nonexistent",
                      std::vector<std::string> modules = {}, core::WorkspaceAllocator workspace = {},
                      std::optional<std::string> probe = {}, bool rescan = false,
                      const std::string &system_trust = "/nonexistent", const std::string &own_folder = {})
        : host_(std::make_unique<core::Host>(options(environment, system_policy, std::move(modules), workspace,
                                                     std::move(probe), rescan, system_trust, own_folder))) {}

    MadeHost(const MadeHost &) = delete;
    MadeHost &operator=(const MadeHost &) = delete;
    core::Host &operator*() { return *host_; }
    core::Host *operator->() { return host_.get(); }
    void close() { host_.reset(); }

    // Registers a module with one implementation and the ops of test_ops.
    Made &add(std::string impl_id, uint32_t kind, std::string vendor = {}, float bias = 0) {
        return add(std::make_unique<Made>(std::move(impl_id), kind, std::move(vendor), bias));
    }
    Made &add(std::unique_ptr<Made> made) {
        Made &added = *made_.emplace_back(std::move(made));
        module("module-" + std::to_string(made_.size()), [&](opdock_registry *registry) {
            for (const char *signature : test_ops) {
                declare(registry, signature);
            }
            register_made(registry, added);
            return OPDOCK_OK;
        });
        return added;
    }
    void module(const std::string &id, std::function<opdock_status(opdock_registry *)> entry,
                const std::string &vendor = "testvendor") {
        next_entry = std::move(entry);
        host_->register_module(id, vendor, run_next_entry);
    }

    Op op(const char *name = "test.add") { return Op(&host_->op(name)); }
    core::PolicyPtr policy(const std::string &name, const std::string &value) const {
        const core::Setting setting{name, value};
        return std::make_shared<const core::Policy>(host_->make_policy(std::span(&setting, 1)));
    }

    std::vector<std::string> log() const { return lines_.texts(); }
    // Number of log lines that contain `text`.
    int64_t logged(const std::string &text) const {
        const std::vector<std::string> lines = log();
        return std::count_if(lines.begin(), lines.end(),
                             [&](const std::string &line) { return line.find(text) != std::string::npos; });
    }

  private:
    core::HostOptions options(const core::RawEnvironment &environment, const std::string &system_policy,
                              std::vector<std::string> modules, core::WorkspaceAllocator workspace,
                              std::optional<std::string> probe, bool rescan, const std::string &system_trust,
                              const std::string &own_folder) {
        core::HostOptions made;
        made.now = clock;
        made.probe = std::move(probe);
        made.rescan = rescan;
        made.workspace = workspace;
        made.modules = std::move(modules);
        made.environment = core::make_environment("PLUGIN_", environment, false);
        made.system_policy_file = system_policy;
        made.system_trust_folder = system_trust;
        made.standard_directories = std::vector<core::SearchDirectory>{};
        if (!own_folder.empty()) {
            made.standard_directories->push_back({own_folder, "install"});
        }
        made.log = core::Log(
            [](void *self, int32_t, const char *line) { static_cast<MadeHost *>(self)->lines_.add(line); }, this);
        return made;
    }

    Lines lines_; // outlives the host, which logs while it closes
    std::deque<std::unique_ptr<Made>> made_;
    std::unique_ptr<core::Host> host_;
};

// Two rows of three f32, and the call that adds to them.
struct Rows {
    std::vector<float> in = {1, 2, 3, 4, 5, 6};
    std::vector<float> out = std::vector<float>(6, -1);
    Tensor x{in.data(), f32, {2, 3}};
    Tensor y{out.data(), f32, {2, 3}};

    opdock_status call(Op op) { return op.try_call({x}, {y}); }
    // The amount that was added, or -1000 if the call failed.
    float added(Op op) { return call(op) == OPDOCK_OK ? out[0] - in[0] : -1000; }
};

inline std::string last_error() {
    return opdock_last_error();
}

inline bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

} // namespace opdock::test
