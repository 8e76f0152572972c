// One call of an implementation, run on a stream and replayed from a CUDA graph.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "graph.hpp"
#include "inputs.hpp"
#include "op-call/call.hpp"
#include "op-call/placed_call.hpp"
#include "opdock/opdock.hpp"

namespace gpu_tests {

class CapturedCall {
  public:
    // Places the inputs. Throws opdock::Error if the op does not take such a call.
    CapturedCall(const opdock::Host &host, const opdock::Op &op, const opdock::op_call::Signature &signature,
                 const opdock::plugin_check::Case &one, const std::vector<opdock::op_call::Tensors> &inputs,
                 DLDevice device, cudaStream_t stream);

    // Returns false if the implementation declines the call or does
    // not belong to the op. Throws opdock::Error on any other failure.
    bool prepare(const opdock::Op &op, const opdock::Policy &policy);

    // Returns "" if a replayed graph gives the same bits as the preceding run, or, if the implementation does not
    // promise that, numbers within 1 % of the largest. Otherwise it says what differs. Throws on any failure.
    std::string compare_replay(bool is_deterministic);

  private:
    struct Placed {
        std::string name;
        void *memory;
        size_t bytes;
        const std::byte *values; // null for outputs
        bool is_written;
        uint32_t dtype;
    };

    static size_t count_different(const Placed &of, const std::vector<std::byte> &eager,
                                  const std::vector<std::byte> &replayed, bool is_deterministic);
    void *place(const opdock::Host &host, DLDevice device, Placed placed);
    void reset(int poison) const;
    void run() const;
    std::vector<std::vector<std::byte>> written() const;

    cudaStream_t stream_;
    std::vector<opdock::op_call::DeviceBuffer> buffers_;
    std::vector<Placed> placed_;
    opdock::op_call::Operands inputs_;
    opdock::op_call::Operands outputs_;
    std::vector<void *> pointers_;
    std::unique_ptr<opdock::op_call::Call> call_;
    std::optional<opdock::Prepared> prepared_;
    std::optional<opdock::op_call::DeviceBuffer> workspace_;
    const opdock::Host &host_;
    DLDevice device_;
};

} // namespace gpu_tests
