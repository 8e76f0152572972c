// The tensors of a call for consecutive runs: always the same ones, or, to defeat caches, copies in turn.
#pragma once

#include <cstddef>
#include <vector>

#include "op-call/placed_call.hpp"

namespace opdock::plugin_bench {

class Rotation {
  public:
    // `copies` of every tensor; 1 uses the call's own tensors. `host` and `call` must outlive it. Throws opdock::Error.
    Rotation(const Host &host, const op_call::Signature &signature, const op_call::PlacedCall &call, DLDevice device,
             size_t copies);

    // Pointers for the next run, in the form that Prepared::run takes.
    void *const *next() { return pointers_[turn_++ % pointers_.size()].data(); }
    // Restores the original contents of inputs that the op writes, in stream order.
    void put_back();

  private:
    // An input that the op both reads and writes.
    struct Kept {
        op_call::DeviceBuffer original;
        DLDevice device;
        std::vector<void *> places; // in all copies
        uint64_t bytes;
    };

    void keep(const op_call::Operand &tensor, size_t index);

    const Host &host_;
    std::vector<op_call::DeviceBuffer> buffers_;
    std::vector<std::vector<void *>> pointers_; // by turn
    std::vector<Kept> kept_;
    size_t turn_ = 0;
};

// The number of copies needed so that nothing of a copy is left in a cache of this size when its turn comes again.
// Limited to a quarter of the memory and to 65,536.
size_t copies_against(uint64_t cache, uint64_t memory, uint64_t bytes);

} // namespace opdock::plugin_bench
