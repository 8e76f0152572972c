// Objects that Python holds: a host, its ops, policies and prepared calls. Each keeps the host open.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "form.hpp"
#include "gil.hpp"
#include "jax.hpp"
#include "library.hpp"
#include "opdock/opdock.hpp"
#include "torch.hpp"

namespace opdock::python {

namespace nb = nanobind;

using SharedHost = Held<Host>;

nb::object from_json(const std::string &text);

class PreparedObject {
  public:
    PreparedObject(SharedHost host, Op op, std::shared_ptr<const Form> form, const nb::args &positional,
                   const nb::kwargs &named);

    // Throws opdock::Error with the kernel's message.
    nb::object run(const nb::args &positional, const nb::kwargs &named) const;

    bool stale() const { return prepared_->stale(); }
    std::string impl() const { return prepared_->impl(); }

  private:
    // Required properties of later tensors.
    struct Expected {
        bool is_given;
        DLDataType dtype;
        DLDevice device;
        std::vector<int64_t> shape;
        std::vector<int64_t> strides;
        uint64_t alignment_mask;
    };

    void expect_same(size_t position, const DLTensor *tensor) const;
    void find_only_output();
    const Library &library_of(nb::handle object, size_t position) const;
    // True for the usual form, all inputs by position and one output, which needs no matching by name.
    bool is_simple(const nb::args &positional, const nb::kwargs &named) const;
    nb::object run_simple(const nb::args &positional, const nb::kwargs &named) const;

    SharedHost host_;
    Op op_;
    std::shared_ptr<const Form> form_;
    Held<const Prepared> prepared_;
    std::vector<Expected> expected_;
    std::vector<uint32_t> list_sizes_;
    std::optional<TensorSpec> only_output_; // present if there is one output and no list
    size_t only_output_at_ = 0;             // in expected_
};

class OpObject {
  public:
    OpObject(SharedHost host, Op op)
        : host_(std::move(host)), op_(op), form_(std::make_shared<const Form>(form_of(op))) {}

    nb::object call(const nb::args &positional, const nb::kwargs &named) const;
    PreparedObject prepare(const nb::args &positional, const nb::kwargs &named) const {
        return {host_, op_, form_, positional, named};
    }
    // Returns the JSON as Python objects.
    nb::object explain(const nb::args &positional, const nb::kwargs &named) const;
    nb::object tune(double budget, const nb::args &positional, const nb::kwargs &named) const;
    const Form &form() const { return *form_; }
    // Returns the JSON as Python objects; see opdock_signature_json.
    nb::object parsed_signature() const { return from_json(op_.signature_json()); }
    void keep_for_jax() const { python::keep_for_jax(host_, op_, form_); }
    void implement_for_torch(const std::string &name, bool all_outputs) const {
        implement_torch_op(host_, op_, *form_, name, all_outputs);
    }

  private:
    SharedHost host_;
    Op op_;
    std::shared_ptr<const Form> form_;
};

// A policy in force in a `with` statement, on its thread.
class PolicyObject {
  public:
    PolicyObject(SharedHost host, const nb::kwargs &settings);
    // Blocks of one thread must end in reverse order. Throws RuntimeError for a block that does not.
    void enter() const;
    void exit() const;
    const Policy &policy() const { return policy_; }

  private:
    SharedHost host_;
    Policy policy_;
};

class HostObject {
  public:
    HostObject(const std::vector<nb::object> &modules, const std::string &prefix, bool rescan);
    // A host whose workspaces are torch's memory.
    static HostObject for_torch();

    // Throws opdock::Error if no plugin declares the op.
    OpObject op(const std::string &name) const;
    PolicyObject policy(const nb::kwargs &settings) const { return {host_, settings}; }
    void set_policy(const PolicyObject *policy) const;
    void reload_policy() const;
    void load(nb::handle path) const;
    void reset_health() const;
    uint64_t served(const std::string &op, const std::string &impl) const;
    nb::object counters() const;
    // Returns the JSON as Python objects.
    nb::object describe() const;
    nb::object explain(const std::string &op, const std::string &device, const std::string &dtypes) const;
    nb::object devices() const;
    nb::object freeze(nb::handle expected) const;

  private:
    explicit HostObject(Options options);

    SharedHost host_;
};

// The value of a setting as the environment spells it: True is "1", ["a", "b"] is "a,b", and {"gelu": "reference",
// "silu": ["vendor:acme", "default"]} is "gelu=reference;silu=vendor:acme|default".
std::string setting_text(nb::handle value, const char *separator = ",");

} // namespace opdock::python
