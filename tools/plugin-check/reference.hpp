// What a call has to compute: the op's reference implementation, on the same values as f32. That of a standard op is
// opdock's own and runs here; that of an op of a vendor's own may be the vendor's and runs in a process of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "inputs.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// One tensor that a call writes: an output, or an input that is `mut`, after all outputs.
struct Result {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<double> values;
};
using Results = std::vector<Result>;

// How inputs are moved, up or down at random: each value by its rounding_of() so much, or all of a tensor together.
struct Moved {
    double by = 0;
    bool together = false;
};

class Reference {
  public:
    // Borrows all. The host has no implementations but opdock's references; `calls` are those of a vendor's reference,
    // or null.
    Reference(const Host &host, const op_call::Signature &signature, Calls *calls = nullptr);
    Reference(const Reference &) = delete;
    Reference &operator=(const Reference &) = delete;
    ~Reference();

    // Whether there is one on the CPU.
    bool exists() const { return calls_ != nullptr || !impl_id_.empty(); }

    // Whether the op takes f32 inputs of these shapes, and so does the reference, as far as it says before running.
    // Bare calls have no optional inputs.
    bool takes(const Shapes &shapes, bool is_bare = false) const;

    // Inputs are moved first. Nothing, with the reason in `why`, when it declines. Throws Ended and NotTried, as takes
    // does, when it runs in a process of its own.
    std::optional<Results> run(const Case &one, const std::vector<op_call::Tensors> &inputs, const Moved &moved,
                               std::string &why) const;

    // For draw_inputs.
    std::optional<op_call::HostTensor> forward(const Forward &forward, const Case &one,
                                               const std::map<std::string, op_call::HostTensor *> &known) const;

  private:
    struct ForwardOp;

    // Of opdock's reference, and of a vendor's. Throw opdock::Error.
    Results run_here(const Case &one, std::vector<op_call::Tensors> &inputs) const;
    Answer answer_to(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    Results run_there(const Case &one, const std::vector<op_call::Tensors> &inputs) const;

    const Host &host_;
    const op_call::Signature &signature_;
    Calls *calls_;
    std::string impl_id_;                                                 // of opdock's
    std::map<std::string, std::unique_ptr<const ForwardOp>> forward_ops_; // those that there are
};

} // namespace opdock::plugin_check
