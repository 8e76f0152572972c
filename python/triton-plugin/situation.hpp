// A problem as the description's expressions see it, and the kernels that fit it.
#pragma once

#include <cstdint>
#include <vector>

#include "description.hpp"
#include "opdock/plugin.hpp"

namespace opdock::triton {

struct Plugin;

// The object that an implementation's opdock_impl.user_data points to.
struct Registered {
    const Plugin *plugin;
    const Implementation *implementation;
};

// Data shared by the implementations of this library.
struct Plugin {
    std::string_view data;
    Description description;
    std::vector<Registered> registered;
};

class Situation {
  public:
    // Throws a Failure (UNSUPPORTED) if no config could serve the problem.
    explicit Situation(const Problem &problem);

    const Implementation &implementation() const { return *implementation_; }
    const Plugin &plugin() const { return *plugin_; }
    const Problem &problem() const { return problem_; }
    const std::vector<double> &values() const { return values_; }

    void set_config(const std::int64_t *knobs);
    // For each launch, the kernels that may serve it, the best first; none for a launch that this call does not need.
    // Throws a Failure (UNSUPPORTED) that names the failed condition, or the launch without a kernel.
    struct Candidate {
        const Variant *variant;
        const Kernel *kernel;
        std::size_t number; // number of the kernel
    };
    std::vector<std::vector<Candidate>> candidates() const;

    bool is_absent(const Parameter &parameter) const;

  private:
    double value_of(const Variable &variable) const;
    double row_stride(const Variable &variable) const;
    std::size_t find_dtypes() const;
    std::size_t find_architecture() const;
    std::size_t find_key(const Launch &launch) const;
    std::vector<Candidate> candidates_of(const Launch &launch) const;
    // Empty if the numbers of the call meet the variant's assumptions.
    std::string why_not(const Launch &launch, const Variant &variant) const;
    std::string why_not(const Kernel &kernel) const;

    const Problem problem_;
    const Plugin *plugin_;
    const Implementation *implementation_;
    std::vector<double> values_;
    std::size_t dtypes_ = 0, architecture_ = 0;
};

} // namespace opdock::triton
