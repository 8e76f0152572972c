// A problem's plan: its kernels loaded, and their arguments packed except for the pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver.hpp"
#include "situation.hpp"

namespace opdock::triton {

class Plan {
  public:
    // Throws a Failure if the call cannot be served.
    explicit Plan(Situation &situation);

    std::uint64_t workspace_size() const { return workspace_size_; }
    Status run(const Call &call) const;

  private:
    struct Pointer {
        std::uint32_t offset; // in the arguments
        std::uint32_t tensor;
    };
    struct Scratch {
        std::uint32_t offset;
        std::uint64_t workspace_offset;
    };
    // One candidate for a launch.
    struct Choice {
        void *function = nullptr;
        Driver::Grid grid = {};
        unsigned threads = 0, shared_bytes = 0;
        std::vector<char> arguments;
        std::vector<Pointer> pointers;
        std::vector<Scratch> scratch;
        std::vector<std::uint32_t> aligned; // tensors
        std::string unless;                 // reason why it does not serve other calls
    };
    using Step = std::vector<Choice>;

    std::uint64_t reserve(std::uint64_t bytes);
    Step make_step(const Situation &situation, const Launch &launch,
                   const std::vector<Situation::Candidate> &candidates);
    void pack(const Situation &situation, const Launch &launch, const Variant &variant, Choice &choice) const;

    const Driver *driver_;
    std::vector<std::uint64_t> workspaces_; // offset of each workspace
    std::vector<Step> steps_;
    std::uint64_t workspace_size_ = 0;
};

} // namespace opdock::triton
