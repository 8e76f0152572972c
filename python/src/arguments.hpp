// Matches the arguments of a Python call with an op's signature: views of its tensors, its attributes, and the outputs
// to be made. Throws TypeError with the op's signature if anything is wrong.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "form.hpp"
#include "library.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

namespace nb = nanobind;

class CallArguments {
  public:
    // Takes inputs by position or name, attributes by name, and also `out`, `outputs`, `stream` and `device`.
    CallArguments(const std::shared_ptr<Host> &host, const Op &op, const Form &form, const nb::args &positional,
                  const nb::kwargs &named);

    // The arguments for the C++ API; valid as long as this object.
    Args args() const;
    // Inputs and then outputs, null for absent ones; the tensors of a list follow each other.
    const std::vector<const DLTensor *> &inputs() const { return inputs_; }
    const std::vector<const DLTensor *> &outputs() const { return outputs_; }
    void *stream() const { return stream_; }
    const std::vector<uint32_t> &list_sizes() const { return list_sizes_; } // of inputs and outputs
    bool has_attributes() const { return !attributes_.empty(); }

    // After a call: notifies libraries of the tensors that were written.
    void finish() const;

    // The outputs after they are computed: a single one as it is, several as a tuple, none as None.
    nb::object results() const;

  private:
    const DLTensor *view(const std::string &name, nb::handle object, bool is_written);
    void add(const Parameter &parameter, nb::handle value, bool is_output);
    void add_attribute(const AttributeForm &attribute, nb::handle value);
    void find_device(nb::handle device);
    void expect_output(const std::string &name) const;
    void read_outputs(nb::handle out, nb::handle wanted);
    nb::object make(const TensorSpec &spec, DLDevice device) const;
    void add_output(const Parameter &output, nb::object object);
    void make_outputs(const std::vector<std::string> &wanted);
    [[noreturn]] void refuse(const std::string &why) const;

    std::shared_ptr<Host> host_;
    Op op_;
    const Form &form_;
    std::array<View, 8> first_views_;
    size_t n_views_ = 0;
    std::list<View> more_views_;
    std::vector<const DLTensor *> inputs_;
    std::vector<const DLTensor *> outputs_;
    std::vector<uint32_t> list_sizes_;
    std::vector<Attribute> attributes_;
    std::list<std::string> strings_;
    std::list<std::vector<int64_t>> ints_;
    std::list<std::vector<double>> floats_;
    std::list<std::vector<opdock_text>> texts_;
    const Library *library_ = nullptr; // of the first tensor
    nb::object example_;               // that tensor
    DLDevice device_{kDLCPU, 0};
    bool has_tensors_ = false;
    void *stream_ = nullptr;
    std::vector<nb::handle> written_; // tensors of the caller
    std::vector<nb::object> results_; // one for each output that is present
};

} // namespace opdock::python
