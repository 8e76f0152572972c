// Contracts: promises of an implementation about its results, which a policy may require.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/setting_text.hpp"

namespace opdock::core {

struct Contracts {
    std::uint32_t flags = 0; // OPDOCK_IMPL_DETERMINISTIC, OPDOCK_IMPL_BATCH_INVARIANT

    bool operator==(const Contracts &) const = default;
};

// "deterministic", "batch_invariant".
std::vector<std::string> names_of(Contracts contracts);

// Parses the name of one contract. `offset` is where it starts in the value at `place`.
Contracts parse_contract(std::string_view name, const Place &place, std::size_t offset = 0);

// "deterministic,batch_invariant"; empty for none.
Contracts parse_contracts(std::string_view value, const Place &place, std::size_t offset = 0);

struct Required {
    std::optional<Contracts> everywhere; // nullopt: no requirement for ops that it does not name
    std::map<std::string, Contracts, std::less<>> per_op;
};

// Parses "deterministic;rmsnorm_fwd=deterministic,batch_invariant". Repetitions are errors.
Required parse_require(std::string_view value, const Place &place);

} // namespace opdock::core
