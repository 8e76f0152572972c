#include "files/digest.hpp"

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "load/load.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

TEST_CASE("a digest is SHA-256, of a file as of a text") {
    const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    CHECK(hex(sha256_of(std::string_view("abc"))) == abc);
    const TemporaryDirectory directory;
    CHECK(hex(sha256_of(PluginFile(directory.write("abc", "abc")))) == abc);
    const std::string large(1'000'003, 'x'); // read in pieces
    CHECK(sha256_of(PluginFile(directory.write("large", large))) == sha256_of(large));
}

TEST_CASE("a file without content, or whose size nobody says, has no digest") {
    const TemporaryDirectory directory;
    for (const std::filesystem::path &path : {directory.write("empty", ""), std::filesystem::path("/proc/cpuinfo")}) {
        CAPTURE(path);
        try {
            sha256_of(PluginFile(path));
            FAIL("nothing was thrown");
        } catch (const Rejected &rejected) {
            CHECK(rejected.code() == RejectCode::truncated);
        }
    }
}

TEST_CASE("a file that is written to while it is read has no digest") {
    const TemporaryDirectory directory;
    const PluginFile file(directory.write("library", "one"));
    directory.write("library", "two");
    try {
        sha256_of(file);
        FAIL("nothing was thrown");
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == RejectCode::file_changed);
    }
}

TEST_CASE("bytes have one spelling") {
    std::array<unsigned char, 2> bytes{};
    CHECK(parse_hex("00ff", bytes));
    CHECK(hex(bytes) == "00ff");
    for (const char *wrong : {"", "00f", "00ff0", "00FF", "00fg", " 0ff", "0x00"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_hex(wrong, bytes));
    }
}

TEST_CASE("a digit of a digest is one of sixteen characters, and none of those beside them") {
    std::array<unsigned char, 8> bytes{};
    CHECK(parse_hex("0123456789abcdef", bytes));
    CHECK(hex(bytes) == "0123456789abcdef");
    CHECK(bytes[0] == 0x01);
    CHECK(bytes[7] == 0xef);
    for (const char wrong : {'/', ':', '`', 'g', 'A', 'F', ' '}) {
        CAPTURE(wrong);
        std::string text = "0123456789abcdef";
        for (const std::size_t at : {0u, 1u, 14u, 15u}) {
            std::string changed = text;
            changed[at] = wrong;
            CHECK_FALSE(parse_hex(changed, bytes));
        }
    }
}

TEST_CASE("a file of just one piece, one byte less or more, has the digest of its bytes") {
    const TemporaryDirectory directory;
    for (const std::size_t size : {1u, 262143u, 262144u, 262145u, 524288u}) {
        CAPTURE(size);
        std::string text(size, 'x');
        text.back() = 'y';
        CHECK(sha256_of(PluginFile(directory.write("library", text))) == sha256_of(std::string_view(text)));
    }
}
