// An implementation made ready for one problem: the problem it is given, its config, plan and workspace size.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/deployment.hpp"
#include "dispatch/shadow.hpp"
#include "load/registration.hpp"
#include "observe/observed_call.hpp"
#include "signature/call_shape.hpp"
#include "tune/deployment_tuning.hpp"

namespace opdock::core {

class CallHost;
struct CountRow;

struct Attempt {
    Attempt(CallHost &of, Deployment &on) : host(of), deployment(on), implementation(on.implementation()) {}
    Attempt(const Attempt &) = delete;
    Attempt &operator=(const Attempt &) = delete;
    ~Attempt();

    // Makes it ready for `shape`, which must outlive it. On OPDOCK_OK the kernel may be called; otherwise `reason` says
    // why not: OPDOCK_UNSUPPORTED for a limit stated as data and what the plugin's functions return. With
    // `ask_supports`, `supports` is asked too. `given` is the config to use, where that is not to be chosen.
    opdock_status prepare(const CallShape &shape, bool ask_supports, const TuneConfig *given = nullptr);
    // The first part of that: the problem and its config, without plan and workspace size. To know what would be used.
    opdock_status choose(const CallShape &shape, bool ask_supports, const TuneConfig *given = nullptr);

    // By the implementation's function, which is there.
    void destroy_plan() noexcept;

    // Why it cannot take the tensors at these addresses; empty when it can.
    std::string misalignment(const CallShape &shape, void *const *data) const;

    CallHost &host;
    Deployment &deployment;
    const Implementation &implementation;
    // Whether the call uses nothing that the form of the signature it knows lacks.
    bool fits = true;
    bool ready = false;
    bool is_declined = false; // `supports` declined the problem, and is not asked again
    // Nothing but the kernel has to be called, its device being current: no workspace, no other form.
    bool plain = false;
    // How many calls to other ops its kernel has under way: until they return, it must not go.
    std::atomic<uint32_t> pins{0};
    opdock_kernel kernel = nullptr;      // when it is ready
    struct Prepared *prepared = nullptr; // that owns this; null where a thread does
    // The row of the memo's thread. A prepared call, which any thread may run, has CallCounts::first_rows.
    CountRow *counts = nullptr;
    uint64_t alignment_mask = 0; // of every data pointer, where it asks for more than the dtypes do
    uint64_t workspace_size = 0;
    opdock_problem problem = {};
    const DeviceProvider *provider = nullptr; // null: no device to make current
    // For an implementation that knows a shorter form: which of the shape's tensors it is given, in order.
    std::vector<uint32_t> map;
    // The call's, also those that a shorter form lacks: another implementation of the chain may know them.
    std::vector<opdock_value> attributes;
    std::string reason;
    bool is_tuned = true;              // false: what tuning found does not count
    bool is_observed = true;           // false: its calls are none of the program's
    bool explains_config = false;      // the origin of the config is wanted
    ChosenConfig chosen;               // the config, and why that; problem.knobs points to it
    std::vector<std::string> excluded; // what `where` excludes for the call, where an explanation is wanted
    std::atomic<uint64_t> observed_calls{0};
    ObservedCall observed; // where the host is observed: `kernel` calls the implementation's through it
    Shadow shadow;         // where calls of the op have shadows: `kernel` calls the above through it

  private:
    opdock_status declined(const std::string &why);
    opdock_status check_limits(const CallShape &shape);
    void fill_problem(const CallShape &shape);
    opdock_status choose_config(const TuneConfig *given);
    opdock_status ask_heuristic(const DeploymentTuning *tuning);
    void put_observer_before_kernel(const CallShape &shape);
    void put_shadow_beside_kernel();

    std::vector<const DLTensor *> tensors_; // of the shorter form
    std::vector<uint32_t> first_;           // of the shorter form
};

} // namespace opdock::core
