#include "archive.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

// A higher level costs seconds for a few per cent. For little content it takes 45 MiB of memory and most of the time to
// write a package, without any gain.
const char *compression_level(size_t bytes) {
    constexpr size_t little = size_t{1} << 20;
    return bytes < little ? "6" : "12";
}

struct Free {
    void operator()(archive_entry *entry) const { archive_entry_free(entry); }
};
using Entry = std::unique_ptr<archive_entry, Free>;

class Writer {
  public:
    // For this many bytes of content.
    explicit Writer(size_t bytes) : owned_(archive_write_new(), archive_write_free), archive_(owned_.get()) {
        if (archive_ == nullptr) {
            throw std::bad_alloc();
        }
        check(archive_write_set_format_pax_restricted(archive_));
        check(archive_write_add_filter_zstd(archive_));
        check(archive_write_set_filter_option(archive_, "zstd", "compression-level", compression_level(bytes)));
        check(archive_write_set_bytes_in_last_block(archive_, 1));
        check(archive_write_open(archive_, &packed_, nullptr, append, nullptr));
    }

    void add(const Member &member) {
        const Entry entry(archive_entry_new());
        archive_entry_set_pathname(entry.get(), member.name.c_str());
        archive_entry_set_filetype(entry.get(), AE_IFREG);
        archive_entry_set_perm(entry.get(), 0644);
        archive_entry_set_size(entry.get(), static_cast<int64_t>(member.content.size()));
        check(archive_write_header(archive_, entry.get()));
        if (archive_write_data(archive_, member.content.data(), member.content.size()) !=
            static_cast<la_ssize_t>(member.content.size())) {
            fail();
        }
    }
    std::string take() {
        check(archive_write_close(archive_));
        return std::move(packed_);
    }

  private:
    static la_ssize_t append(archive *, void *to, const void *bytes, size_t count) {
        static_cast<std::string *>(to)->append(static_cast<const char *>(bytes), count);
        return static_cast<la_ssize_t>(count);
    }
    void check(int status) const {
        if (status != ARCHIVE_OK) {
            fail();
        }
    }
    [[noreturn]] void fail() const {
        throw cli::Failure(std::string("cannot write the package: ") + archive_error_string(archive_));
    }

    std::string packed_;
    std::unique_ptr<archive, int (*)(archive *)> owned_;
    archive *archive_;
};

// The header of a member of a tar archive. pack() writes one for each; other kinds of headers are not accepted, and no
// other fields are read. A general reader of tar archives would also follow headers that take unlimited memory, such as
// maps of sparse files.
constexpr size_t block_bytes = 512;
constexpr size_t record_bytes = 20 * block_bytes;

struct Header {
    std::array<char, block_bytes> bytes{};

    bool is_empty() const {
        return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
    }
    bool is_file() const {
        constexpr std::string_view magic("ustar\0", 6); // with its zero; GNU tar has a blank there
        return std::string_view(bytes.data() + 257, magic.size()) == magic && (bytes[156] == '0' || bytes[156] == 0) &&
               bytes[345] == 0; // no prefix of the name
    }
    std::string_view name() const { return {bytes.data(), strnlen(bytes.data(), 100)}; }
    // Nothing if it is not an octal number.
    std::optional<uint64_t> size() const {
        uint64_t size = 0;
        const char *end = bytes.data() + 124 + 11;
        const auto result = std::from_chars(bytes.data() + 124, end, size, 8);
        return result.ec == std::errc() && result.ptr == end ? std::optional(size) : std::nullopt;
    }
};

size_t padding_of(uint64_t bytes) {
    return (block_bytes - bytes % block_bytes) % block_bytes;
}

} // namespace

std::string pack(const std::vector<Member> &members) {
    size_t bytes = 0;
    for (const Member &member : members) {
        bytes += member.content.size();
    }
    Writer writer(bytes);
    for (const Member &member : members) {
        writer.add(member);
    }
    return writer.take();
}

Unpacker::Unpacker(std::string_view packed) : archive_(archive_read_new(), archive_read_free) {
    if (archive_ == nullptr) {
        throw std::bad_alloc();
    }
    archive_entry *whole = nullptr;
    if (archive_read_support_format_raw(archive_.get()) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(archive_.get()) != ARCHIVE_OK ||
        archive_read_open_memory(archive_.get(), packed.data(), packed.size()) != ARCHIVE_OK ||
        archive_read_next_header(archive_.get(), &whole) != ARCHIVE_OK) {
        fail();
    }
    constexpr size_t piece_bytes = size_t{256} << 10;
    piece_.resize(piece_bytes);
}

void Unpacker::next(const ExpectedMember &expected, const std::function<void(std::string_view)> &take) {
    Header header;
    const std::string shown = core::visible_line(expected.name);
    if (read(header.bytes.data(), header.bytes.size()) != header.bytes.size() || header.is_empty()) {
        throw cli::Failure("the package ends before its member " + shown, exit_not_trusted);
    }
    if (!header.is_file() || header.name() != expected.name) {
        throw cli::Failure("the content of the package differs from its manifest: expected " + shown, exit_not_trusted);
    }
    if (header.size() != expected.bytes) {
        throw cli::Failure("the member " + shown + " of the package has " +
                               (header.size() ? std::to_string(*header.size()) : "no number of") +
                               " bytes, but the package lists " + std::to_string(expected.bytes),
                           exit_not_trusted);
    }
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    uint64_t done = 0;
    do {
        const auto count = static_cast<size_t>(std::min<uint64_t>(piece_.size(), expected.bytes - done));
        const size_t got = read(piece_.data(), count);
        done += got;
        if (got != count) {
            throw cli::Failure("the member " + shown + " of the package ends after " + std::to_string(done) +
                                   " of its " + std::to_string(expected.bytes) + " bytes",
                               exit_not_trusted);
        }
        crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char *>(piece_.data()), count);
        take({piece_.data(), count});
    } while (done < expected.bytes);
    core::Digest digest{};
    crypto_hash_sha256_final(&state, digest.data());
    if (digest != expected.sha256) {
        throw cli::Failure("the member " + shown + " is not the one that was signed", exit_not_trusted);
    }
    read(piece_.data(), padding_of(expected.bytes));
}

void Unpacker::end() {
    const size_t rest = read(piece_.data(), record_bytes + 1);
    if (rest > record_bytes || std::any_of(piece_.data(), piece_.data() + rest, [](char c) { return c != 0; })) {
        throw cli::Failure("the package holds more than its manifest lists", exit_not_trusted);
    }
}

size_t Unpacker::read(char *into, size_t most) {
    size_t done = 0;
    while (done < most) {
        const la_ssize_t count = archive_read_data(archive_.get(), into + done, most - done);
        if (count < 0) {
            fail();
        }
        if (count == 0) {
            break;
        }
        done += static_cast<size_t>(count);
    }
    return done;
}

void Unpacker::fail() const {
    const char *reason = archive_error_string(archive_.get());
    throw cli::Failure(std::string("cannot unpack the package: ") + (reason == nullptr ? "it is empty" : reason),
                       exit_not_trusted);
}

} // namespace opdock::plugin_pack
