// Dynamic sections that no linker writes. Real plugins are tested in test_inspect.cpp.
#include "inspect/elf_dynamic.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dynamic_elf_file.hpp"
#include "files/reject.hpp"
#include "inspect/linkage.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::DynamicElfFile;
using opdock::test::file_needing_versions;
using opdock::test::file_with_symbols;
using opdock::test::TemporaryDirectory;

namespace {

template<class Read>
auto with_image(const std::string &bytes, Read read) {
    const TemporaryDirectory directory;
    const PluginFile file(directory.write("libacme.so", bytes));
    return read(ElfImage(file));
}

ElfDynamic read(const std::string &bytes) {
    return with_image(bytes, [](const ElfImage &image) { return read_dynamic(image); });
}

bool exports_entry(const std::string &bytes) {
    return with_image(bytes, [](const ElfImage &image) { return exports_function(image, "opdock_register"); });
}

double cpu_seconds() {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

} // namespace

TEST_CASE("the versions that a file needs are read, but for the weak ones") {
    const ElfDynamic dynamic = read(file_needing_versions(2, 3, 0));
    REQUIRE(dynamic.versions.size() == 6);
    CHECK(dynamic.versions.back().library == "libc.so.6");
    CHECK(dynamic.versions.back().version == "GLIBC_2.2.5");
    CHECK(read(file_needing_versions(2, 3, VER_FLG_WEAK)).versions.empty());
    const TemporaryDirectory directory;
    const auto linkage = read_linkage(directory.write("libacme.so", file_needing_versions(2, 3, 0)));
    REQUIRE(linkage.has_value());
    CHECK(linkage->versions == std::map<std::string, std::string>{{"GLIBC", "2.2.5"}});
}

TEST_CASE("memory of a file is read from the first byte of a segment to the last that the file has of it") {
    const std::string bytes = DynamicElfFile({{DT_NULL, {0}}}, "end").bytes();
    with_image(bytes, [&bytes](const ElfImage &image) {
        std::string text(bytes.size(), '\0');
        image.read(0, std::as_writable_bytes(std::span(text)));
        CHECK(text == bytes);
        CHECK_THROWS_AS(image.read(1, std::as_writable_bytes(std::span(text))), Rejected);
        text.resize(3);
        image.read(bytes.size() - 3, std::as_writable_bytes(std::span(text)));
        CHECK(text == "end");
        return true;
    });
}

TEST_CASE("a file that makes out to need millions of versions is rejected before they are read, weak ones as well") {
    const char *message = "it needs more than 4096 versions";
    CHECK_THROWS_WITH_AS(read(file_needing_versions(1, 4096, 0)), doctest::Contains(message), Rejected);
    CHECK_THROWS_WITH_AS(read(file_needing_versions(1, 4096, VER_FLG_WEAK)), doctest::Contains(message), Rejected);
    CHECK_THROWS_WITH_AS(read(file_needing_versions(4097, 0, 0)), doctest::Contains(message), Rejected);
    CHECK_NOTHROW(read(file_needing_versions(1, 4095, VER_FLG_WEAK)));
    CHECK_NOTHROW(read(file_needing_versions(4096, 0, 0)));
}

TEST_CASE("a symbol is found among others by its whole name") {
    CHECK(exports_entry(file_with_symbols({"other", "opdock_register"}, 3, false)));
    CHECK_FALSE(exports_entry(file_with_symbols({"opdock_registe", "opdock_register_", "register"}, 4, false)));
    CHECK_FALSE(exports_entry(file_with_symbols({}, 1, false)));
    CHECK(exports_entry(file_with_symbols({"other", "opdock_register"}, 0xffffffff, false))); // whatever it claims
}

TEST_CASE("a table of symbols that goes round in circles is left after as many steps as the file has room for") {
    // 4 KiB that claim four billion symbols, with names of the greatest length.
    const std::string circle = file_with_symbols({std::string(4000, 'x')}, 0xffffffff, true);
    const double begin = cpu_seconds();
    CHECK_THROWS_WITH_AS(exports_entry(circle), doctest::Contains("its symbol table is not terminated"), Rejected);
    CHECK(cpu_seconds() - begin < 2); // it once took minutes
}

TEST_CASE("symbols that a file uses are listed, unless their names are longer than anybody's") {
    const auto undefined = [](const std::string &bytes) {
        return with_image(bytes, [](const ElfImage &image) { return undefined_symbols(image); });
    };
    CHECK(undefined(file_with_symbols({"one", "two"}, 3, false, SHN_UNDEF)) == std::vector<std::string>{"one", "two"});
    CHECK(undefined(file_with_symbols({"one", "two"}, 3, false)).empty()); // it defines both
    const std::vector<std::string> many(8000, std::string(4000, 'x'));
    CHECK_THROWS_WITH_AS(undefined(file_with_symbols(many, 8001, false, SHN_UNDEF)),
                         doctest::Contains("the names of the symbols that it uses are longer than"), Rejected);
}

TEST_CASE(
    "filters and auxiliary libraries are libraries that a file brings in, and unknown tags beside them are none") {
    constexpr std::size_t n_entries = 8;
    const std::string strings("\0liba.so\0libb.so\0libc.so\0", 25);
    const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
    const ElfDynamic dynamic = read(DynamicElfFile({{DT_STRTAB, {at}},
                                                    {DT_STRSZ, {strings.size()}},
                                                    {DT_NEEDED, {1}},
                                                    {DT_AUXILIARY, {9}},
                                                    {DT_FILTER - 1, {1}},
                                                    {DT_AUXILIARY - 1, {1}},
                                                    {DT_FILTER, {17}},
                                                    {DT_NULL, {0}}},
                                                   strings)
                                        .bytes());
    CHECK(dynamic.libraries.names == std::vector<std::string>{"liba.so", "libb.so", "libc.so"});
}

TEST_CASE("a dynamic section ends at its first null tag, and at no other number, whatever its sign") {
    constexpr std::size_t n_entries = 6;
    const std::string strings("\0liba.so\0libb.so\0", 17);
    const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
    const ElfDynamic dynamic = read(DynamicElfFile({{DT_STRTAB, {at}},
                                                    {DT_STRSZ, {strings.size()}},
                                                    {-1, {1}},
                                                    {DT_NEEDED, {1}},
                                                    {DT_NULL, {0}},
                                                    {DT_NEEDED, {9}}},
                                                   strings)
                                        .bytes());
    CHECK(dynamic.libraries.names == std::vector<std::string>{"liba.so"});
}

TEST_CASE("a chain of versions ends where its links end or where their number says, whichever comes first") {
    // Two libraries with one version each. The parameters link each version to a next one.
    const auto needs = [](std::uint64_t count, Elf64_Word next_of_first, Elf64_Word next_of_second) {
        constexpr std::size_t n_entries = 5;
        const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
        std::string tables("\0liba.so\0libb.so\0V1\0V2\0", 24);
        const std::size_t strings = tables.size();
        const auto add = [&tables](const auto &value) {
            tables.append(reinterpret_cast<const char *>(&value), sizeof value);
        };
        constexpr Elf64_Word size = sizeof(Elf64_Verneed);
        static_assert(sizeof(Elf64_Vernaux) == size);
        add(Elf64_Verneed{VER_NEED_CURRENT, 1, 1, size, next_of_first});
        add(Elf64_Vernaux{0, 0, 2, 17, 0});
        add(Elf64_Verneed{VER_NEED_CURRENT, 1, 9, size, next_of_second});
        add(Elf64_Vernaux{0, 0, 3, 20, 0});
        std::vector<std::string> found;
        for (const VersionNeed &need : read(DynamicElfFile({{DT_STRTAB, {at}},
                                                            {DT_STRSZ, {strings}},
                                                            {DT_VERNEED, {at + strings}},
                                                            {DT_VERNEEDNUM, {count}},
                                                            {DT_NULL, {0}}},
                                                           tables)
                                                .bytes())
                                           .versions) {
            found.push_back(need.library + " " + need.version);
        }
        return found;
    };
    using Texts = std::vector<std::string>;
    CHECK(needs(2, 32, 0) == Texts{"liba.so V1", "libb.so V2"});
    CHECK(needs(9, 32, 0) == Texts{"liba.so V1", "libb.so V2"});
    CHECK(needs(1, 32, 0) == Texts{"liba.so V1"});
    CHECK(needs(0, 32, 0).empty());
    CHECK(needs(9, 0, 0) == Texts{"liba.so V1"});
}

TEST_CASE("the versions that a file defines are read to the end of their chain, or as many as it says") {
    const auto versions = [](std::uint64_t count, Elf64_Word next_of_first) {
        constexpr std::size_t n_entries = 5;
        const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
        std::string tables("\0V1\0V2\0", 7);
        const std::size_t strings = tables.size();
        const auto add = [&tables](const auto &value) {
            tables.append(reinterpret_cast<const char *>(&value), sizeof value);
        };
        constexpr Elf64_Word size = sizeof(Elf64_Verdef);
        add(Elf64_Verdef{VER_DEF_CURRENT, 0, 1, 1, 0, size, next_of_first});
        add(Elf64_Verdaux{1, 0});
        add(Elf64_Verdef{VER_DEF_CURRENT, 0, 2, 1, 0, size, 0});
        add(Elf64_Verdaux{4, 0});
        const std::string bytes = DynamicElfFile({{DT_STRTAB, {at}},
                                                  {DT_STRSZ, {strings}},
                                                  {DT_VERDEF, {at + strings}},
                                                  {DT_VERDEFNUM, {count}},
                                                  {DT_NULL, {0}}},
                                                 tables)
                                      .bytes();
        return with_image(bytes, [](const ElfImage &image) { return versions_defined(image); });
    };
    constexpr Elf64_Word next = sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux);
    using Texts = std::vector<std::string>;
    CHECK(versions(2, next) == Texts{"V1", "V2"});
    CHECK(versions(9, next) == Texts{"V1", "V2"});
    CHECK(versions(1, next) == Texts{"V1"});
    CHECK(versions(9, 0) == Texts{"V1"});
    CHECK(versions(0, next).empty());
    // A version whose link leads to itself claims that there are millions.
    CHECK(versions(4096, 0).size() == 1);
}

TEST_CASE("a file may define 4096 versions, and one more is told") {
    const auto count_of = [](std::uint64_t count) {
        constexpr std::size_t n_entries = 5;
        constexpr Elf64_Word size = sizeof(Elf64_Verdef);
        const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
        std::string tables("\0V1\0", 4);
        const auto add = [&tables](const auto &value) {
            tables.append(reinterpret_cast<const char *>(&value), sizeof value);
        };
        for (std::uint64_t i = 0; i < count; ++i) {
            add(Elf64_Verdef{VER_DEF_CURRENT, 0, 1, 1, 0, size, size + sizeof(Elf64_Verdaux)});
            add(Elf64_Verdaux{1, 0});
        }
        const std::string bytes =
            DynamicElfFile(
                {{DT_STRTAB, {at}}, {DT_STRSZ, {4}}, {DT_VERDEF, {at + 4}}, {DT_VERDEFNUM, {count}}, {DT_NULL, {0}}},
                tables)
                .bytes();
        return with_image(bytes, [](const ElfImage &image) { return versions_defined(image).size(); });
    };
    CHECK(count_of(4096) == 4096);
    CHECK_THROWS_WITH_AS(count_of(4097), doctest::Contains("it defines more than 4096 versions"), Rejected);
}

namespace {

// A symbol's entry in the newer (GNU) hash table.
struct Hashed {
    std::string name;
    unsigned char bind = STB_GLOBAL;
    unsigned char type = STT_FUNC;
    std::uint16_t section = 1;
    bool ends_chain = true;
    std::uint32_t bucket = 0; // the first symbol of a bucket is its beginning
};

std::uint32_t hash_of(const std::string &name) {
    std::uint32_t hash = 5381;
    for (const char c : name) {
        hash = hash * 33 + static_cast<unsigned char>(c);
    }
    return hash;
}

// One undefined symbol, which precedes the table, and then these symbols. Unused buckets begin at `empty`.
std::string file_with_gnu_table(const std::vector<Hashed> &symbols, std::uint32_t n_buckets, std::uint32_t empty = 0,
                                std::uint32_t n_filter = 1) {
    constexpr std::size_t n_entries = 5;
    constexpr std::uint32_t first = 2; // after the null symbol and the undefined one
    const std::uint64_t at = DynamicElfFile::address_of_tables(n_entries);
    std::string strings(1, '\0'), table, of_symbols(sizeof(Elf64_Sym), '\0'), hashes;
    const auto add = [](std::string &to, const auto &value) {
        to.append(reinterpret_cast<const char *>(&value), sizeof value);
    };
    const auto add_symbol = [&](const Hashed &one) {
        Elf64_Sym symbol{};
        symbol.st_name = static_cast<Elf64_Word>(strings.size());
        symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(one.bind, one.type));
        symbol.st_shndx = one.section;
        strings += one.name + '\0';
        add(of_symbols, symbol);
    };
    add_symbol({"needed", STB_GLOBAL, STT_FUNC, SHN_UNDEF});
    std::vector<std::uint32_t> buckets(n_buckets, empty);
    std::vector<bool> begun(n_buckets);
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        add_symbol(symbols[i]);
        add(hashes, (hash_of(symbols[i].name) & ~1u) | (symbols[i].ends_chain ? 1u : 0u));
        if (symbols[i].bucket < n_buckets && !begun[symbols[i].bucket]) {
            buckets[symbols[i].bucket] = first + static_cast<std::uint32_t>(i);
            begun[symbols[i].bucket] = true;
        }
    }
    add(table, n_buckets);
    add(table, first);
    add(table, n_filter);
    add(table, std::uint32_t{0});
    table.append(n_filter * 8, '\xff');
    for (const std::uint32_t bucket : buckets) {
        add(table, bucket);
    }
    return DynamicElfFile({{DT_STRTAB, {at}},
                           {DT_STRSZ, {strings.size()}},
                           {DT_SYMTAB, {at + strings.size()}},
                           {DT_GNU_HASH, {at + strings.size() + of_symbols.size()}},
                           {DT_NULL, {0}}},
                          strings + of_symbols + table + hashes)
        .bytes();
}

constexpr const char *entry_name = "opdock_register";

Hashed hashed_entry(bool ends_chain, std::uint32_t n_buckets) {
    Hashed entry{entry_name};
    entry.ends_chain = ends_chain;
    entry.bucket = hash_of(entry_name) % n_buckets;
    return entry;
}

bool defines(const std::string &bytes, const std::string &name) {
    return with_image(bytes, [&](const ElfImage &image) { return defines_symbol(image, name); });
}

} // namespace

TEST_CASE("in the newer table a symbol is found in the chain of its bucket, and nowhere else") {
    CHECK(exports_entry(file_with_gnu_table({hashed_entry(true, 1)}, 1)));
    CHECK(exports_entry(file_with_gnu_table({hashed_entry(true, 1)}, 1, 0, 3)));
    CHECK(exports_entry(file_with_gnu_table({hashed_entry(true, 7)}, 7)));
    Hashed other{"other"};
    other.ends_chain = false;
    CHECK(exports_entry(file_with_gnu_table({other, hashed_entry(true, 1)}, 1)));
    other.ends_chain = true; // the symbols after it belong to another bucket
    CHECK_FALSE(exports_entry(file_with_gnu_table({other, hashed_entry(true, 1)}, 1)));
    Hashed elsewhere = hashed_entry(true, 2);
    elsewhere.bucket = 1 - elsewhere.bucket;
    CHECK_FALSE(exports_entry(file_with_gnu_table({elsewhere}, 2)));
    CHECK_FALSE(exports_entry(file_with_gnu_table({elsewhere}, 2, 1))); // a bucket that begins before the table
    CHECK_FALSE(exports_entry(file_with_gnu_table({hashed_entry(true, 1)}, 0)));
    CHECK_FALSE(exports_entry(file_with_gnu_table({}, 1)));
}

TEST_CASE("the entry is a function that the file defines itself, of either kind") {
    const auto is_found = [](unsigned char type, std::uint16_t section) {
        Hashed entry = hashed_entry(true, 1);
        entry.type = type;
        entry.section = section;
        return exports_entry(file_with_gnu_table({entry}, 1));
    };
    CHECK(is_found(STT_FUNC, 1));
    CHECK(is_found(STT_GNU_IFUNC, 1));
    CHECK_FALSE(is_found(STT_OBJECT, 1));
    CHECK_FALSE(is_found(STT_NOTYPE, 1));
    CHECK_FALSE(is_found(STT_TLS, 1));
    CHECK_FALSE(is_found(STT_FUNC, SHN_UNDEF));
    Hashed variable{"variable", STB_GLOBAL, STT_OBJECT};
    CHECK(defines(file_with_gnu_table({variable}, 1), "variable"));
    CHECK_FALSE(defines(file_with_gnu_table({variable}, 1), "variables"));
    CHECK_FALSE(defines(file_with_gnu_table({variable}, 1), "variabl"));
    CHECK_FALSE(defines(file_with_gnu_table({variable}, 1), "needed"));
}

TEST_CASE("a chain of the newer table that has no end is no reason to look for one beyond the file") {
    CHECK_THROWS_AS(defines(file_with_gnu_table({hashed_entry(false, 1)}, 1), "another"), Rejected);
    CHECK(exports_entry(file_with_gnu_table({hashed_entry(false, 1)}, 1))); // it is found first
}

TEST_CASE("what a file defines for others is listed bucket by bucket, as many as are asked for") {
    Hashed one{"one"}, two{"two"}, unique{"unique", STB_GNU_UNIQUE, STT_OBJECT}, gone{"gone"};
    one.ends_chain = false;
    unique.bucket = gone.bucket = 1;
    unique.ends_chain = false;
    gone.section = SHN_UNDEF;
    const std::string bytes = file_with_gnu_table({one, two, unique, gone}, 3);
    using Texts = std::vector<std::string>;
    const auto all = [&](std::size_t most) {
        return with_image(bytes, [&](const ElfImage &image) { return defined_symbols(image, most); });
    };
    CHECK(all(9) == Texts{"one", "two", "unique"});
    CHECK(all(3) == Texts{"one", "two", "unique"});
    CHECK(all(2) == Texts{"one", "two"});
    CHECK(all(1) == Texts{"one"});
    CHECK(all(0).empty());
    const auto uniques = [](const std::string &of) {
        return with_image(of, [](const ElfImage &image) { return unique_symbols(image, 5); });
    };
    CHECK(uniques(bytes) == Texts{"unique"});
    CHECK(uniques(file_with_gnu_table({two}, 1)).empty());
    CHECK(uniques(file_with_symbols({"two"}, 2, false)).empty()); // the older table says nothing about them
    CHECK(with_image(bytes, [](const ElfImage &image) { return undefined_symbols(image); }) == Texts{"needed"});
}

TEST_CASE("symbols that there is one of in the process are looked for among the first 4096") {
    const auto is_found_behind = [](std::size_t others) {
        std::vector<Hashed> symbols(others, Hashed{"f"});
        for (Hashed &one : symbols) {
            one.ends_chain = false;
        }
        symbols.push_back({"unique", STB_GNU_UNIQUE, STT_OBJECT});
        return with_image(file_with_gnu_table(symbols, 1),
                          [](const ElfImage &image) { return !unique_symbols(image, 5).empty(); });
    };
    CHECK(is_found_behind(4095));
    CHECK_FALSE(is_found_behind(4096));
}

TEST_CASE("of what a file shows to others 64 symbols are listed") {
    const TemporaryDirectory directory;
    for (const std::size_t count : {63u, 64u, 65u}) {
        std::vector<Hashed> symbols(count, Hashed{"f"});
        for (Hashed &one : symbols) {
            one.ends_chain = &one == &symbols.back();
        }
        const auto linkage = read_linkage(directory.write("libacme.so", file_with_gnu_table(symbols, 1)));
        REQUIRE(linkage.has_value());
        CHECK(linkage->exports.size() == std::min<std::size_t>(count, 64));
    }
    CHECK_FALSE(read_linkage(directory.write("libacme.so", "no library")));
}

TEST_CASE("a dynamic section has 4096 entries, the last of which ends it") {
    const auto read_entries = [](std::size_t count) {
        std::vector<Elf64_Dyn> entries(count, Elf64_Dyn{DT_DEBUG, {0}});
        entries.back().d_tag = DT_NULL;
        return read(DynamicElfFile(entries, "").bytes());
    };
    CHECK(read_entries(4096).libraries.names.empty());
    CHECK_THROWS_WITH_AS(read_entries(4097), doctest::Contains("its dynamic section is not terminated"), Rejected);
}

TEST_CASE("a name stands within the table of strings, and is no longer than names may be") {
    const auto library = [](const std::string &strings, std::uint64_t size, std::uint64_t at) {
        constexpr std::size_t n_entries = 4;
        const std::uint64_t place = DynamicElfFile::address_of_tables(n_entries);
        return read(DynamicElfFile({{DT_STRTAB, {place}}, {DT_STRSZ, {size}}, {DT_NEEDED, {at}}, {DT_NULL, {0}}},
                                   strings)
                        .bytes())
            .libraries.names.at(0);
    };
    const std::string strings("\0abc\0d\0", 7);
    CHECK(library(strings, 7, 1) == "abc");
    CHECK(library(strings, 7, 3) == "c");
    CHECK(library(strings, 7, 5) == "d");
    CHECK(library(strings, 7, 6).empty());
    CHECK(library(strings, 5, 1) == "abc");
    const char *no_end = "a name in it is not terminated";
    CHECK_THROWS_WITH_AS(library(strings, 4, 1), doctest::Contains(no_end), Rejected);
    CHECK_THROWS_WITH_AS(library(strings, 7, 7), doctest::Contains(no_end), Rejected);
    for (const std::size_t length : {63u, 64u, 65u, 127u, 128u, 4095u, 4096u}) { // read in pieces of 64 bytes
        CAPTURE(length);
        const std::string name(length, 'n');
        CHECK(library(name + '\0', length + 1, 0) == name);
    }
    CHECK_THROWS_WITH_AS(library(std::string(5000, 'n') + '\0', 5001, 0), doctest::Contains(no_end), Rejected);
}
