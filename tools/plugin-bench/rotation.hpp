// The tensors of a call for runs one after the other: always the same, or, against caches, copies that take turns.
#pragma once

#include <cstddef>
#include <vector>

#include "op-call/placed_call.hpp"

namespace opdock::plugin_bench {

class Rotation {
  public:
    // `copies` of every tensor; 1 takes those of the call itself. Both must outlive it. Throws opdock::Error.
    Rotation(const Host &host, const op_call::Signature &signature, const op_call::PlacedCall &call, DLDevice device,
             size_t copies);

    // Pointers for the next run, as Prepared::run takes them.
    void *const *next() { return pointers_[turn_++ % pointers_.size()].data(); }
    // Inputs that the op writes hold again what they held at first, in stream order.
    void put_back();

  private:
    // What the op writes and reads.
    struct Kept {
        op_call::DeviceBuffer original;
        DLDevice device;
        std::vector<void *> places; // of all copies
        uint64_t bytes;
    };

    void keep(const op_call::Operand &tensor, size_t index);

    const Host &host_;
    std::vector<op_call::DeviceBuffer> buffers_;
    std::vector<std::vector<void *>> pointers_; // of each turn
    std::vector<Kept> kept_;
    size_t turn_ = 0;
};

// How many copies it takes that a run finds nothing of the run before it but one in a cache of this size; as many as
// fit in a quarter of the memory, and at most 65,536.
size_t copies_against(uint64_t cache, uint64_t memory, uint64_t bytes);

} // namespace opdock::plugin_bench
