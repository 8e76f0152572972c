// The libraries whose tensors are given: how each is viewed, made, and which stream it works on. All of it with the
// GIL.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "exchange.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

namespace nb = nanobind;

// A tensor of any library that speaks DLPack, as long as this and its object live.
struct View {
    DLTensor tensor{};
    bool read_only = false;
    nb::object keeps; // what holds the tensor's shape, where its object does not
};

// Describes one type of tensors, such as torch.Tensor or numpy.ndarray.
class Library {
  public:
    // Of the type of `object`, remembered. Throws TypeError for what is no tensor.
    static const Library &of(nb::handle object);

    // Throws what its library throws, such as BufferError for a dtype that DLPack lacks.
    View view(nb::handle object) const;

    // The stream of the device that its work is queued on. Null: the default stream.
    void *stream(DLDevice device) const;

    // What is due of a tensor of the caller's that was written: torch's autograd is told.
    void note_written(nb::handle object) const;
    // Waits for the device where the library does not say on which stream its own work goes.
    void wait_for(const std::shared_ptr<Host> &host, DLDevice device) const;

    // A contiguous tensor with undefined values, for an output; imported() makes it one of this library.
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
