// What a package carries: named byte strings, packed as a tar archive in zstd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::plugin_pack {

struct Member {
    std::string name;
    std::string content;
};

inline constexpr uint64_t most_bytes = uint64_t{4} << 30; // of all members, and of one

// The same bytes for the same members.
std::string pack(const std::vector<Member> &members);

// What unpack may expect: a member, in its place.
struct ExpectedMember {
    std::string name;
    uint64_t bytes = 0;
};

// Exactly these, in this order; whatever else is in there ends it before more than that is read. Throws cli::Failure.
std::vector<Member> unpack(std::string_view packed, const std::vector<ExpectedMember> &expected);

} // namespace opdock::plugin_pack
