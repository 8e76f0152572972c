// Prepares and runs a call in which every tensor is guarded.
#pragma once

#include <memory>
#include <optional>

#include "outcome.hpp"
#include "placed_tensor.hpp"

namespace opdock::plugin_check {

class PlacedRun {
  public:
    // The bytes of outputs before a run: no kernel leaves the first and another one by chance. New memory has zeros.
    static constexpr std::byte poisons[3] = {std::byte{0xff}, std::byte{0x7b}, std::byte{0}};

    // Places the inputs' values. For `at_end`, see Placing. Throws opdock::Error if the op does not take such a call.
    PlacedRun(const Where &where, const Op &op, const op_call::Signature &signature, const Case &one,
              const std::vector<op_call::Tensors> &inputs, size_t alignment, bool at_end);

    // Returns OPDOCK_OK, or the status if the call was not prepared, also if another implementation than `impl` would
    // serve; `message` then has the reason.
    opdock_status prepare(const Op &op, const Policy &policy, const std::string &impl, std::string &message);

    // Restores the inputs' values and poisons everything that is to be written.
    void reset(std::byte poison);

    // Resets everything first. Leaves `message` as it is on success.
    opdock_status run(std::byte poison, std::string &message);
    // Uses zeros for all numbers except integers.
    opdock_status run_on_zeros(std::string &message);
    // Runs on what the previous run left.
    opdock_status run_on(std::string &message);

    bool has_workspace() const { return workspace_ != nullptr; }

    // After a run: changes beside elements, and to inputs that are not to be written.
    std::vector<Finding> trespasses() const;
    // Outputs, then inputs that are written; in the order of Results.
    std::vector<Output> written() const;

    const Args &args() const { return call_->args(); }

  private:
    void place(const Where &where, const std::vector<op_call::Parameter> &parameters, const op_call::Operands &operands,
               const Case &one, size_t alignment, bool at_end,
               std::vector<std::vector<std::shared_ptr<PlacedTensor>>> &to);
    void share_in_place(const op_call::Signature &signature);
    void share_inputs(const op_call::Signature &signature);

    const op_call::Signature &signature_;
    const std::vector<op_call::Tensors> &values_;
    Where where_;
    std::vector<std::vector<std::shared_ptr<PlacedTensor>>> inputs_; // by parameter
    std::vector<std::vector<std::shared_ptr<PlacedTensor>>> outputs_;
    std::vector<bool> is_written_; // by input parameter: `mut`, or the memory of an output
    op_call::Operands in_;
    op_call::Operands out_;
    std::unique_ptr<op_call::Call> call_;
    std::optional<Prepared> prepared_;
    std::unique_ptr<PlacedTensor> workspace_;
    std::byte poison_{};
    size_t placed_ = 0; // number of tensors
};

} // namespace opdock::plugin_check
