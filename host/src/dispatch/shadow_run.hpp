// One call that has a shadow or is written to a file: copies of its inputs, and what the shadow computes from them.
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
    // Before the program's kernel: copies the call's inputs. Throws Error if that is impossible.
    ShadowRun(const Attempt &attempt, const opdock_call &call, bool may_be_written);
    ShadowRun(const ShadowRun &) = delete;
    ShadowRun &operator=(const ShadowRun &) = delete;
    ~ShadowRun() = default;

    // After it: runs the shadow. Throws Error if nothing was computed.
    void compare();
    // The shadow's impl_id; empty if none has run.
    const std::string &shadow() const { return shadow_; }
    // Empty if the results agree.
    const std::string &difference() const { return difference_; }

    // The call with its inputs, the program's results and those of the shadow, if any.
    CallFile file() const;
    // Size of the tensors in that file.
    uint64_t bytes() const;

  private:
    // Calls `see(parameter, tensor, name)` for each tensor present; the second one of a list is named "NAME.1".
    template<class See>
    void for_each_tensor(See see) const;
    bool is_written(size_t p) const;
    // Keeps the inputs that the op writes, because the shadow writes them, too.
    void keep_written_inputs();
    // Describes the call in the form in which a program makes it.
    void describe(const opdock_call &call);
    void run_shadow(const Bound &copied);
    // Returns false and sets *why if this implementation computes nothing.
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
    std::map<uint32_t, std::vector<std::byte>> before_; // inputs that the op writes, if a file may be needed
    std::string shadow_;
    std::string difference_;
};

} // namespace opdock::core
