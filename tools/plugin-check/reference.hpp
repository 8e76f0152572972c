// What a call has to compute: the op's reference implementation, on the same values as f32.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
    // Borrows both.
    Reference(const Host &host, const op_call::Signature &signature);
    Reference(const Reference &) = delete;
    Reference &operator=(const Reference &) = delete;
    ~Reference();

    // Whether there is one on the CPU.
    bool exists() const { return !impl_id_.empty(); }

    // Whether the op takes f32 inputs of these shapes, and so does the reference, as far as it says before running.
    bool takes(const Shapes &shapes) const;

    // Inputs are moved first. Nothing, with the reason in `why`, when it declines.
    std::optional<Results> run(const Case &one, const std::vector<op_call::Tensors> &inputs, const Moved &moved,
                               std::string &why) const;

    // For draw_inputs.
    std::optional<op_call::HostTensor> forward(const Forward &forward, const Case &one,
                                               const std::map<std::string, op_call::HostTensor *> &known) const;

  private:
    struct ForwardOp;

    const Host &host_;
    const op_call::Signature &signature_;
    std::string impl_id_;
    std::map<std::string, std::unique_ptr<const ForwardOp>> forward_ops_; // those that there are
};

} // namespace opdock::plugin_check
