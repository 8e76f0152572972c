// The payload of a package: named byte strings in a tar archive, compressed with zstd.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/digest.hpp"

struct archive; // from libarchive

namespace opdock::plugin_pack {

struct Member {
    std::string name;
    std::string content;
};

inline constexpr uint64_t most_bytes = uint64_t{4} << 30; // of all members together, and of each

// Deterministic: the same members give the same bytes.
std::string pack(const std::vector<Member> &members);

struct ExpectedMember {
    std::string name;
    uint64_t bytes = 0;
    core::Digest sha256{};
};

// Reads the members of an archive in order, with only a piece of one in memory. Errors are thrown as cli::Failure.
class Unpacker {
  public:
    // `packed` must outlive this.
    explicit Unpacker(std::string_view packed);

    // Reads the next member, which must be `expected`: any other one is an error before its content is read. Passes the
    // content to `take` in one or more pieces, which may be empty.
    void next(const ExpectedMember &expected, const std::function<void(std::string_view)> &take);
    // Throws unless the archive ends here.
    void end();

  private:
    // Reads up to `most` bytes of the tar archive, fewer at its end.
    size_t read(char *into, size_t most);
    [[noreturn]] void fail() const;

    std::unique_ptr<archive, int (*)(archive *)> archive_;
    std::vector<char> piece_;
};

} // namespace opdock::plugin_pack
