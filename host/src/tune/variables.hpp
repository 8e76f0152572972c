// The numbers that tuning may depend on: what is known of a call before there is data, by name.
//
//   n, m, ...            dims, as the signature of the plugin names them; for a dim that each element of a list has for
//                        itself, the sum over the elements
//   rows                 how many elements `...` stands for (1 when the signature has none); a dim of that name wins
//   has_bias, ...        1 where an optional input or output is there, 0 where it is absent; a dim or an attribute of
//                        that name wins
//   eps, causal, ...     attributes of type int, float and bool
//   sizeof_T, ...        bytes of an element, for each dtype variable
//   device_memory, device_compute_units, device_warp_size, device_shared_memory, device_cache
//                        as in opdock_device_properties; 0 where the provider does not say
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/plugin.h"
#include "signature/signature.hpp"

namespace opdock::core {

class TuneVariables {
  public:
    // Of a signature, as the plugin declared it; must outlive this.
    explicit TuneVariables(const Signature &form);

    const std::vector<std::string> &names() const { return names_; }
    std::optional<size_t> find(std::string_view name) const;
    // What a key is made of unless a tune file says otherwise: the dims, with `rows` where the signature has an
    // ellipsis, and which optional tensors are there.
    const std::vector<size_t> &sizes() const { return sizes_; }
    const std::vector<size_t> &presences() const { return presences_; }
    bool is_whole(size_t variable) const { return kinds_[variable] != Kind::real; } // never a fraction
    bool may_be_negative(size_t variable) const { return kinds_[variable] >= Kind::integer; }

    // One value for each name. `dtypes` are those of the form's variables; unbound ones count 0 bytes.
    std::vector<double> values(const opdock_problem &problem, std::span<const uint32_t> dtypes,
                               const opdock_device_properties &device) const;

  private:
    enum class Kind { whole, integer, real };

    size_t add(std::string name, Kind kind); // which variable it is

    const Signature &form_;
    std::vector<std::string> names_;
    std::vector<Kind> kinds_;
    std::vector<size_t> optionals_;  // which of the signature's parameters the variables after dims and rows are about
    std::vector<size_t> attributes_; // which of its attributes the variables after those are
    std::vector<size_t> sizes_;
    std::vector<size_t> presences_;
    bool has_rows_ = false;
};

// The value of one dim by name, or of `rows`; nothing when there is none of that name.
std::optional<int64_t> dim_of(const Signature &form, const opdock_problem &problem, std::string_view name);

} // namespace opdock::core
