// A device provider's memory as a tensor that other libraries import, for libraries that opdock cannot ask for tensors.
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
    // Contiguous and uninitialized, allocated in the order of the default stream. Keeps `host` open while it is in use.
    Memory(std::shared_ptr<Host> host, DLDataType dtype, std::span<const int64_t> shape, DLDevice device);

    DLTensor tensor() const;

    // Implements __dlpack__ of the array API standard. Queued work has finished when this returns.
    nb::object dlpack(nb::handle max_version) const;
    nb::tuple dlpack_device() const;

  private:
    struct Block;
    std::shared_ptr<Block> block_;
};

} // namespace opdock::python
