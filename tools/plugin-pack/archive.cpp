#include "archive.hpp"

#include <memory>

#include <archive.h>
#include <archive_entry.h>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

// More costs seconds for a few per cent. Of little content the level takes 45 MiB of memory, and most of the time to
// write a package, for none.
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
    // For so many bytes of content.
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
        throw cli::Failure(std::string("the package cannot be written: ") + archive_error_string(archive_));
    }

    std::string packed_;
    std::unique_ptr<archive, int (*)(archive *)> owned_;
    archive *archive_;
};

class Reader {
  public:
    explicit Reader(std::string_view packed) : owned_(archive_read_new(), archive_read_free), archive_(owned_.get()) {
        if (archive_ == nullptr) {
            throw std::bad_alloc();
        }
        check(archive_read_support_format_tar(archive_));
        check(archive_read_support_filter_zstd(archive_));
        check(archive_read_open_memory(archive_, packed.data(), packed.size()));
    }

    Member next(const ExpectedMember &expected) {
        archive_entry *entry = nullptr;
        check(archive_read_next_header(archive_, &entry));
        const char *name = archive_entry_pathname(entry);
        if (name == nullptr || expected.name != name || archive_entry_filetype(entry) != AE_IFREG ||
            archive_entry_hardlink(entry) != nullptr ||
            archive_entry_size(entry) != static_cast<int64_t>(expected.bytes)) {
            throw cli::Failure("the package does not hold what its manifest lists: expected " +
                                   core::visible_name(expected.name),
                               exit_not_trusted);
        }
        Member member{expected.name, std::string(static_cast<size_t>(expected.bytes), '\0')};
        size_t done = 0;
        while (done < member.content.size()) {
            const la_ssize_t count =
                archive_read_data(archive_, member.content.data() + done, member.content.size() - done);
            if (count <= 0) {
                fail();
            }
            done += static_cast<size_t>(count);
        }
        return member;
    }
    void end() {
        archive_entry *entry = nullptr;
        if (archive_read_next_header(archive_, &entry) != ARCHIVE_EOF) {
            throw cli::Failure("the package holds more than its manifest lists", exit_not_trusted);
        }
    }

  private:
    void check(int status) const {
        if (status != ARCHIVE_OK) {
            fail();
        }
    }
    [[noreturn]] void fail() const {
        const char *reason = archive_error_string(archive_);
        throw cli::Failure(std::string("the package cannot be unpacked: ") +
                               (reason == nullptr ? "it ends too early" : reason),
                           exit_not_trusted);
    }

    std::unique_ptr<archive, int (*)(archive *)> owned_;
    archive *archive_;
};

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

std::vector<Member> unpack(std::string_view packed, const std::vector<ExpectedMember> &expected) {
    Reader reader(packed);
    std::vector<Member> members;
    for (const ExpectedMember &one : expected) {
        members.push_back(reader.next(one));
    }
    reader.end();
    return members;
}

} // namespace opdock::plugin_pack
