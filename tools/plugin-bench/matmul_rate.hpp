// The device's matrix multiplication rate, with the fastest implementation available: the yardstick for linear ops.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"
#include "device_facts.hpp"
#include "op-call/job.hpp"

namespace opdock::plugin_bench {

class MatmulRate {
  public:
    // For one dtype, such as "bf16". Uses all implementations of matmul and linear_fwd on the device, except references
    // and those that would take longer than two seconds.
    MatmulRate(const Host &host, const DeviceFacts &facts, std::string dtype);

    struct Best {
        double flops_per_second;
        std::string op;
        std::string impl_id;
    };
    // Multiplies 2048 x 2048 x 2048. Returns the fastest by median over the rounds; nothing if nothing can run it.
    std::optional<Best> measure();
    const std::string &dtype() const { return dtype_; }

  private:
    // The tensors of one op, and the implementations that multiply them.
    struct Problem {
        std::string op;
        std::unique_ptr<op_call::PlacedCall> call;
        std::unique_ptr<Rotation> rotation;
        std::vector<std::pair<std::string, std::unique_ptr<Contender>>> contenders;
    };

    void add(const Host &host, const DeviceFacts &facts, const std::string &op, const std::vector<std::string> &inputs);

    std::string dtype_;
    std::vector<Problem> problems_;
};

} // namespace opdock::plugin_bench
