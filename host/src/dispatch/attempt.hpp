// An implementation prepared for one problem: the problem it is given, its config, its plan and its workspace size.
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

    // Prepares it for `shape`, which must outlive it. After OPDOCK_OK the kernel may be called; otherwise `reason` says
    // why not: OPDOCK_UNSUPPORTED for a declared limit, else the status that the plugin's function returned.
    // `ask_supports`: call `supports` as well. `given`: the config to use instead of a chosen one.
    opdock_status prepare(const CallShape &shape, bool ask_supports, const TuneConfig *given = nullptr);
    // The first part of prepare(): the problem and its config, but no plan or workspace size. Shows what would be used.
    opdock_status choose(const CallShape &shape, bool ask_supports, const TuneConfig *given = nullptr);

    // Calls the implementation's plan_destroy, which must exist.
    void destroy_plan() noexcept;

    // The reason why it cannot take the tensors at these addresses; empty when it can.
    std::string misalignment(const CallShape &shape, void *const *data) const;

    CallHost &host;
    Deployment &deployment;
    const Implementation &implementation;
    // True if the call uses nothing that is missing from the form of the signature that the implementation knows.
    bool fits = true;
    bool ready = false;
    bool is_declined = false; // `supports` declined the problem and is not called again
    // Only the kernel has to be called, with its device current: no workspace, no shorter form.
    bool plain = false;
    // Calls to other ops that its kernel has under way. The attempt must not be destroyed until they return.
    std::atomic<uint32_t> pins{0};
    opdock_kernel kernel = nullptr;      // set when it is ready
    struct Prepared *prepared = nullptr; // owns this attempt; null where a thread owns it
    // The row of the thread that owns the memo. A prepared call, which any thread may run, has CallCounts::first_rows.
    CountRow *counts = nullptr;
    uint64_t alignment_mask = 0; // for every data pointer, where it needs more than the dtypes do
    uint64_t workspace_size = 0;
    opdock_problem problem = {};
    const DeviceProvider *provider = nullptr; // null: no device to make current
    // For an implementation that knows a shorter form: indices of the shape's tensors that it is given, in order.
    std::vector<uint32_t> map;
    // The call's attributes, also those missing from a shorter form: another implementation of the chain may know them.
    std::vector<opdock_value> attributes;
    std::string reason;
    bool is_tuned = true;              // false: tuning results are ignored
    bool is_observed = true;           // false: its calls are not the program's own
    bool explains_config = false;      // explain the origin of the config
    ChosenConfig chosen;               // the config and why it was chosen; problem.knobs points to it
    std::vector<std::string> excluded; // configs that `where` excludes for the call, where an explanation is wanted
    std::atomic<uint64_t> observed_calls{0};
    ObservedCall observed; // set when the host is observed: `kernel` then calls the implementation's kernel through it
    Shadow shadow;         // set when the op has shadows: `kernel` then calls the above through it

  private:
    opdock_status declined(const std::string &why);
    opdock_status check_limits(const CallShape &shape);
    void fill_problem(const CallShape &shape);
    opdock_status choose_config(const TuneConfig *given);
    opdock_status ask_heuristic(const DeploymentTuning *tuning);
    void put_observer_before_kernel(const CallShape &shape);
    void put_shadow_beside_kernel();

    std::vector<const DLTensor *> tensors_; // used by the shorter form
    std::vector<uint32_t> first_;           // used by the shorter form
};

} // namespace opdock::core
