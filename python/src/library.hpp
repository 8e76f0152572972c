// Tensor libraries: viewing their tensors, making new ones, and finding the stream that they work on. All functions
// need the GIL.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "exchange.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

namespace nb = nanobind;

// A tensor of any library that supports DLPack; valid as long as this view and its object live.
struct View {
    DLTensor tensor{};
    bool read_only = false;
    nb::object keeps; // owner of the tensor's shape, if its object is not
};

// Describes one type of tensors, such as torch.Tensor or numpy.ndarray.
class Library {
  public:
    // Returns the library of `object`'s type, cached. Throws TypeError if `object` is not a tensor.
    static const Library &of(nb::handle object);

    // Throws the library's own exceptions, such as BufferError for a dtype that DLPack lacks.
    View view(nb::handle object) const;

    // The stream of the device on which the library queues its work. Null is the default stream.
    void *stream(DLDevice device) const;

    // Reports that a tensor of the caller was written, to torch's autograd.
    void note_written(nb::handle object) const;
    // Waits for the device if the library does not tell which stream it works on.
    void wait_for(const std::shared_ptr<Host> &host, DLDevice device) const;

    // Makes a contiguous, uninitialized tensor for an output; imported() converts it to a tensor of this library.
    nb::object make(const std::shared_ptr<Host> &host, const TensorSpec &spec, DLDevice device) const;
    nb::object imported(const nb::object &made, nb::handle example) const;

  private:
    explicit Library(nb::handle type);

    enum class Way { exchange, numpy, cupy, dlpack, memory };

    void refuse_gradient(nb::handle object) const;

    const ExchangeApi *exchange_ = nullptr;
    nb::object gradients_are_recorded_; // torch.is_grad_enabled
    nb::object increment_version_;      // torch.autograd.graph.increment_version
    bool immutable_ = false;
    Way way_ = Way::dlpack;
};

} // namespace opdock::python
