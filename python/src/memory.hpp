// Memory of a device's provider as a tensor that other libraries import, for those that opdock cannot ask for tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <nanobind/nanobind.h>

#include "exchange.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

namespace nb = nanobind;

class Memory {
  public:
    // Contiguous, its values undefined, in the order of the default stream. `host` stays open as long as it is used.
    Memory(std::shared_ptr<Host> host, DLDataType dtype, std::span<const int64_t> shape, DLDevice device);

    DLTensor tensor() const;

    // As the array API standard has it. What was queued has run when this returns.
    nb::object dlpack(nb::handle max_version) const;
    nb::tuple dlpack_device() const;

  private:
    struct Block;
    std::shared_ptr<Block> block_;
};

} // namespace opdock::python
