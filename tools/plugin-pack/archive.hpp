// What a package carries: named byte strings, packed as a tar archive in zstd.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/digest.hpp"

struct archive; // of libarchive

namespace opdock::plugin_pack {

struct Member {
    std::string name;
    std::string content;
};

inline constexpr uint64_t most_bytes = uint64_t{4} << 30; // of all members, and of one

// The same bytes for the same members.
std::string pack(const std::vector<Member> &members);

struct ExpectedMember {
    std::string name;
    uint64_t bytes = 0;
    core::Digest sha256{};
};

// The members of an archive, one after the other; of each there is a piece in memory. Everything throws cli::Failure.
class Unpacker {
  public:
    // `packed` lives as long as this.
    explicit Unpacker(std::string_view packed);

    // The next member, which has to be this one: whatever else is there ends it before that is read. What it holds goes
    // to `take` in pieces, of which there is one at least, which may be empty.
    void next(const ExpectedMember &expected, const std::function<void(std::string_view)> &take);
    // There has to be nothing more.
    void end();

  private:
    // So many bytes of the tar archive, or fewer at its end.
    size_t read(char *into, size_t most);
    [[noreturn]] void fail() const;

    std::unique_ptr<archive, int (*)(archive *)> archive_;
    std::vector<char> piece_;
};

} // namespace opdock::plugin_pack
