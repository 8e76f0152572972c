// The expected results of a call: from the op's reference implementation, on the same values as f32. For a standard op
// it is opdock's own and runs here; for a vendor's op it may be the vendor's and runs in a process of its own.
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

// A tensor that a call writes: an output or, after all outputs, an input that is `mut`.
struct Result {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<double> values;
};
using Results = std::vector<Result>;

// Random changes of inputs, up or down, by rounding_of(): for each value separately, or for all of a tensor together.
struct Moved {
    double by = 0;
    bool together = false;
};

class Reference {
  public:
    // Borrows everything. The host has no implementations except opdock's references; `calls` are those of a vendor's
    // reference, or null.
    Reference(const Host &host, const op_call::Signature &signature, Calls *calls = nullptr);
    Reference(const Reference &) = delete;
    Reference &operator=(const Reference &) = delete;
    ~Reference();

    // True if there is one on the CPU.
    bool exists() const { return calls_ != nullptr || !impl_id_.empty(); }

    // True if the op takes f32 inputs of these shapes and so does the reference, as far as it says before running. Bare
    // calls have no optional inputs.
    bool takes(const Shapes &shapes, bool is_bare = false) const;

    // Moves the inputs first. Returns nothing, with the reason in `why`, if the reference declines. Throws Ended and
    // NotTried, as takes() does, if it runs in a process of its own.
    std::optional<Results> run(const Case &one, const std::vector<op_call::Tensors> &inputs, const Moved &moved,
                               std::string &why) const;

    // For draw_inputs.
    std::optional<op_call::HostTensor> forward(const Forward &forward, const Case &one,
                                               const std::map<std::string, op_call::HostTensor *> &known) const;

  private:
    struct ForwardOp;

    // With opdock's reference, and with a vendor's. Throw opdock::Error.
    Results run_here(const Case &one, std::vector<op_call::Tensors> &inputs) const;
    Answer answer_to(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    Results run_there(const Case &one, const std::vector<op_call::Tensors> &inputs) const;

    const Host &host_;
    const op_call::Signature &signature_;
    Calls *calls_;
    std::string impl_id_;                                                 // of opdock's reference
    std::map<std::string, std::unique_ptr<const ForwardOp>> forward_ops_; // those that exist
};

} // namespace opdock::plugin_check
