// An implementation under test. Calls of its op are served by it or not at all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "opdock/opdock.hpp"

namespace numerics {

struct Implementation {
    std::string op;
    std::string impl_id;
    std::string kind; // "default", "vendor", "reference"
};

// A host with exactly these plugins, whatever the environment says.
std::unique_ptr<opdock::Host> open_host(const std::vector<std::string> &modules);

// The host's implementations, by op and then in the order of its report. Those for devices other than the CPU are left
// out, because their tensors would have to be in device memory.
std::vector<Implementation> implementations(const opdock::Host &host);

struct Outcome {
    opdock_status status;
    std::string message;
};

class Subject {
  public:
    Subject(const opdock::Host &host, Implementation implementation);

    const Implementation &implementation() const { return implementation_; }

    // `attributes` is an object. Null tensors are absent. Lists are flattened; `list_sizes` has the size of each.
    Outcome call(const std::vector<const DLTensor *> &inputs, const std::vector<const DLTensor *> &outputs,
                 const nlohmann::json &attributes, const std::vector<std::uint32_t> &list_sizes) const;

    // The reason why such a call cannot be prepared; empty if it can.
    std::string refusal(const std::vector<const DLTensor *> &inputs, const std::vector<const DLTensor *> &outputs,
                        const nlohmann::json &attributes) const;

    // Number of calls it has served so far.
    std::uint64_t served() const { return host_.served(implementation_.op, implementation_.impl_id); }

  private:
    const opdock::Host &host_;
    Implementation implementation_;
    opdock::Op op_;
    opdock::Policy only_this_;
};

} // namespace numerics
