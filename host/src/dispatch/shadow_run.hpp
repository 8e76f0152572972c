// One call that has a shadow or is written to a file: copies of what it reads, and what the shadow makes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/chain.hpp"
#include "dispatch/cpu_fallback.hpp"
#include "observe/call_files.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

struct Attempt;
class CallHost;

class ShadowRun {
  public:
    // Before the program's kernel: copies what the call reads. Throws Error where that cannot be.
    ShadowRun(const Attempt &attempt, const opdock_call &call, bool may_be_written);
    ShadowRun(const ShadowRun &) = delete;
    ShadowRun &operator=(const ShadowRun &) = delete;
    ~ShadowRun() = default;

    // After it: runs the shadow. Throws Error where nothing was computed.
    void compare();
    // impl_id; empty where none has run.
    const std::string &shadow() const { return shadow_; }
    // Empty where the results agree.
    const std::string &difference() const { return difference_; }

    // The call with what it read, what the program got and what the shadow computed, if any.
    CallFile file() const;
    // Of the tensors in that.
    uint64_t bytes() const;

  private:
    // Of those that are there: `see(parameter, tensor, name)`, where the second of a list is "NAME.1".
    template<class See>
    void for_each_tensor(See see) const;
    bool is_written(size_t p) const;
    // The shadow writes them, too.
    void keep_written_inputs();
    // The call as a program makes it.
    void describe(const opdock_call &call);
    void run_shadow(const Bound &copied);
    // False, and why, where this one computes nothing.
    bool run(const Link &link, const CallShape &shape, const Bound &copied, std::string *why);
    std::vector<std::byte> elements_of_program(const DeviceAccess &device, const DLTensor &tensor) const;

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
    std::map<uint32_t, std::vector<std::byte>> before_; // inputs that the op writes, where a file may be wanted
    std::string shadow_;
    std::string difference_;
};

} // namespace opdock::core
