// The numbers that tuning may depend on: what is known of a call before there is data, by name.
//
//   n, m, ...            dims, as named in the plugin's signature; for a dim that differs between elements of a list,
//                        the sum over the elements
//   rows                 number of elements in the dims of `...` (1 if the signature has none); a dim of that name wins
//   has_bias, ...        1 if an optional input or output is present, 0 if absent; a dim or an attribute of that name
//                        wins
//   eps, causal, ...     attributes of type int, float and bool
//   sizeof_T, ...        bytes of an element, for each dtype variable
//   device_memory, device_compute_units, device_warp_size, device_shared_memory, device_cache
//                        as in opdock_device_properties; 0 if the provider does not report it
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
    // For a signature as the plugin declared it; `form` must outlive this.
    explicit TuneVariables(const Signature &form);

    const std::vector<std::string> &names() const { return names_; }
    std::optional<size_t> find(std::string_view name) const;
    // The default key without a tune file's `key`: the dims, with `rows` if the signature has an
    // ellipsis, and the presence of optional tensors.
    const std::vector<size_t> &sizes() const { return sizes_; }
    const std::vector<size_t> &presences() const { return presences_; }
    bool is_whole(size_t variable) const { return kinds_[variable] != Kind::real; } // never a fraction
    bool may_be_negative(size_t variable) const { return kinds_[variable] >= Kind::integer; }

    // One value for each name. `dtypes`: those of the form's variables; an unbound one has 0 bytes.
    std::vector<double> values(const opdock_problem &problem, std::span<const uint32_t> dtypes,
                               const opdock_device_properties &device) const;

  private:
    enum class Kind { whole, integer, real };

    size_t add(std::string name, Kind kind); // returns its index

    const Signature &form_;
    std::vector<std::string> names_;
    std::vector<Kind> kinds_;
    std::vector<size_t> optionals_;  // parameters that the variables after dims and rows stand for
    std::vector<size_t> attributes_; // attributes that the variables after those stand for
    std::vector<size_t> sizes_;
    std::vector<size_t> presences_;
    bool has_rows_ = false;
};

// The value of one dim by name, or of `rows`; nothing if there is no such name.
std::optional<int64_t> dim_of(const Signature &form, const opdock_problem &problem, std::string_view name);

} // namespace opdock::core
