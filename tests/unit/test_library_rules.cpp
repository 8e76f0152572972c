// Folders from which libraries would be taken, and other users who could put a library there.
#include "inspect/library_rules.hpp"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access_list.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

namespace {

namespace fs = std::filesystem;

// Folders a and b, which only we can write to, and a plugin in `plugins` that needs libdependency.so.
struct Place {
    TemporaryDirectory directory;
    std::string plugins = folder("plugins");
    std::string a = folder("a");
    std::string b = folder("b");
    std::string library_path;
    std::string program_rpath;

    std::string folder(const std::string &name) const {
        fs::create_directories(directory.path() / name);
        REQUIRE(::chmod((directory.path() / name).c_str(), 0755) == 0);
        return (directory.path() / name).string();
    }
    static std::string put(const std::string &folder, const std::string &library = "libdependency.so") {
        const fs::path file = fs::path(folder) / library;
        fs::copy_file(opdock::test::fixtures_folder() / "libraries" / library, file);
        REQUIRE(::chmod(file.c_str(), 0644) == 0);
        return file.string();
    }
    static void open_to_all(const std::string &path) { REQUIRE(::chmod(path.c_str(), 0777) == 0); }

    std::optional<LibraryFault> fault(const LibraryNeeds &needs) const {
        PathRules rules;
        return LibraryRules().judge(needs, plugins, library_path, program_rpath, rules);
    }
    // The path that is blamed; empty if there is none.
    std::string blamed(const LibraryNeeds &needs) const {
        const auto found = fault(needs);
        return found ? found->place : "";
    }
};

LibraryNeeds needs(std::optional<std::string> runpath, std::optional<std::string> rpath = {},
                   std::vector<std::string> names = {"libdependency.so", "libc.so.6"}) {
    return {"", std::move(names), std::move(rpath), std::move(runpath)};
}

bool contains(const std::string &text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

} // namespace

TEST_CASE("libraries of the system are the system's") {
    const Place place;
    CHECK_FALSE(place.fault(needs({})));
    CHECK_FALSE(place.fault({}));
}

TEST_CASE("a library in a folder of one's own is fine, whatever names the folder") {
    Place place;
    Place::put(place.a);
    Place::put(place.plugins);
    for (const std::string &path : {place.a, std::string("$ORIGIN"), std::string("${ORIGIN}/../a"),
                                    place.directory.path().string() + "/absent:" + place.a}) {
        CAPTURE(path);
        CHECK_FALSE(place.fault(needs(path)));
        CHECK_FALSE(place.fault(needs({}, path)));
    }
    CHECK_FALSE(place.fault(needs({}, {}, {place.a + "/libdependency.so", "$ORIGIN/libdependency.so"})));
    place.library_path = place.b + ":" + place.a;
    CHECK_FALSE(place.fault(needs({})));
}

TEST_CASE("an empty or relative element of a search path is the working directory") {
    const Place place;
    Place::put(place.a);
    for (const char *path : {"", "lib", "./lib", ":", "/usr/lib:", "$ORIGIN::/usr/lib", "$ORIGINAL", "x$ORIGIN"}) {
        for (const bool is_runpath : {true, false}) {
            CAPTURE(path);
            const auto fault = is_runpath ? place.fault(needs(path)) : place.fault(needs({}, path));
            REQUIRE(fault);
            CHECK(fault->code == RejectCode::unsafe_search);
            CHECK(contains(fault->what, is_runpath ? "an element of its RUNPATH is" : "an element of its RPATH is"));
        }
    }
    CHECK(contains(place.fault(needs("lib"))->what, "the working directory of whoever runs it"));
    CHECK(contains(place.fault(needs("/opt/$LIB"))->what, "only the dynamic loader knows"));
    CHECK(contains(place.fault(needs("a\nb"))->what, "an element of its RUNPATH is 'a\\x0ab'."));
    // An RPATH, which the loader ignores if there is a RUNPATH.
    CHECK_FALSE(place.fault(needs(place.a, "lib")));
}

TEST_CASE("a needed library that is named by a path must be named by an absolute one") {
    const Place place;
    for (const char *name : {"lib/libdependency.so", "./libdependency.so", "../libdependency.so"}) {
        CAPTURE(name);
        const auto fault = place.fault(needs({}, {}, {name}));
        REQUIRE(fault);
        CHECK(fault->code == RejectCode::unsafe_search);
        CHECK(contains(fault->what, std::string("the name of a library that it needs is '") + name + "'"));
    }
}

TEST_CASE("a needed library whose name has a word of the loader's is blamed: it becomes a path") {
    Place place;
    Place::put(place.a);
    for (const char *name : {"$LIB", "${LIB}.so", "$PLATFORM.so", "lib$ORIGIN.so"}) {
        CAPTURE(name);
        for (const auto &runpath : {std::optional<std::string>(), std::optional(place.a)}) {
            const auto fault = place.fault(needs(runpath, {}, {name}));
            REQUIRE(fault);
            CHECK(fault->code == RejectCode::unsafe_search);
            CHECK(contains(fault->what, "a place that only the dynamic loader knows"));
        }
    }
}

TEST_CASE("LD_LIBRARY_PATH with an empty element is the working directory for what is not found before it") {
    Place place;
    place.library_path = place.a + ":";
    const auto fault = place.fault(needs({}));
    REQUIRE(fault);
    CHECK(fault->code == RejectCode::unsafe_search);
    CHECK(fault->place == "LD_LIBRARY_PATH");
    CHECK_FALSE(place.fault(needs({}, {}, {"libc.so.6"}))); // already loaded
    Place::put(place.a);
    CHECK_FALSE(place.fault(needs({})));
}

TEST_CASE("every folder that is searched before a library is found is judged, and none behind it") {
    Place place;
    Place::put(place.a);
    Place::open_to_all(place.b);
    CHECK(place.blamed(needs(place.b + ":" + place.a)) == place.b);
    CHECK(place.blamed(needs(place.a + ":" + place.b)) == "");
    CHECK(place.blamed(needs({}, place.b + ":" + place.a)) == place.b);
    // LD_LIBRARY_PATH comes before RUNPATH and after RPATH.
    place.library_path = place.b;
    CHECK(place.blamed(needs(place.a)) == place.b);
    CHECK(place.blamed(needs({}, place.a)) == "");
    place.library_path = place.b + ";" + place.a;
    CHECK(place.blamed(needs({})) == place.b);
}

TEST_CASE("a folder that is not there is judged by who could make it") {
    const Place place;
    REQUIRE(::chmod(place.a.c_str(), 01777) == 0);
    CHECK(place.blamed(needs(place.a + "/build/lib")) == place.a);
    CHECK(place.blamed(needs(place.b + "/build/lib")) == "");
}

TEST_CASE("a link that leads nowhere is judged by who could make what it leads to") {
    const Place place;
    Place::put(place.b);
    const std::string others = place.folder("others"), path = place.a + ":" + place.b;
    const auto link = [&](const std::string &target, const std::string &at) {
        const fs::path made = fs::path(place.a) / at;
        fs::create_directories(made.parent_path());
        fs::remove_all(made);
        fs::create_symlink(target, made);
    };
    for (const char *at :
         {"libdependency.so", "glibc-hwcaps/x86-64-v2/libdependency.so", "glibc-hwcaps/x86-64-v2", "glibc-hwcaps"}) {
        for (const char *target : {"/absent.so", "/absent/folder"}) {
            CAPTURE(at);
            CAPTURE(target);
            Place::open_to_all(others);
            link(others + target, at);
            CHECK(place.blamed(needs(path)) == others);
            PathRules rules;
            const auto fault = LibraryRules().judge_searched(place.a, rules);
            REQUIRE(fault);
            CHECK(fault->place == others);
            place.folder("others"); // only we can write to it again
            CHECK(place.blamed(needs(path)).empty());
        }
        fs::remove_all(fs::path(place.a) / "glibc-hwcaps");
        fs::remove(fs::path(place.a) / "libdependency.so");
    }
    link("libdependency.so", "libdependency.so"); // a link to itself
    CHECK(place.blamed(needs(path)).empty());
}

TEST_CASE("all files of a folder that a command is given for its libraries are judged, whatever they are called") {
    const Place place;
    for (const char *name : {"libdependency.so", "libdependency", "DATA.TXT"}) {
        const std::string file = Place::put(place.a);
        const fs::path named = fs::path(place.a) / name;
        fs::rename(file, named);
        PathRules rules;
        CHECK_FALSE(LibraryRules().judge_searched(place.a, rules));
        Place::open_to_all(named.string());
        PathRules again;
        const auto fault = LibraryRules().judge_searched(place.a, again);
        REQUIRE(fault);
        CHECK(fault->place == named.string());
        fs::remove(named);
    }
}

TEST_CASE("a folder with builds for newer processors is searched before the folder it lies in") {
    const Place place;
    Place::put(place.a);
    const std::string newer = place.folder("a/glibc-hwcaps/x86-64-v3");
    CHECK(place.blamed(needs(place.a)) == "");
    Place::open_to_all(newer);
    CHECK(place.blamed(needs(place.a)) == newer);
}

TEST_CASE("a library that others may write to is blamed") {
    const Place place;
    const std::string library = Place::put(place.a);
    Place::open_to_all(library);
    const auto fault = place.fault(needs(place.a));
    REQUIRE(fault);
    CHECK(fault->code == RejectCode::unsafe_library);
    CHECK(fault->place == library);
    CHECK(contains(fault->what, "'" + library + "': everybody may write to the file"));
    REQUIRE(::chmod(library.c_str(), 0644) == 0);
    opdock::test::let_write(library, ACL_USER, 4242);
    CHECK(contains(place.fault(needs(place.a))->what, "user 4242 may write to the file"));
}

TEST_CASE("a library of a stranger is blamed, and so is a link of one") {
    if (::geteuid() != 0) {
        return; // only root may give files away
    }
    const Place place;
    const std::string library = Place::put(place.plugins);
    REQUIRE(::chown(library.c_str(), 65534, 65534) == 0);
    CHECK(place.blamed(needs("$ORIGIN")) == library);
    CHECK(place.blamed(needs({}, {}, {library})) == library);
    Place::put(place.a);
    fs::create_symlink(place.a + "/libdependency.so", place.b + "/libdependency.so");
    CHECK(place.blamed(needs(place.b)) == "");
    REQUIRE(::lchown((place.b + "/libdependency.so").c_str(), 65534, 65534) == 0);
    CHECK(place.blamed(needs(place.b)) == place.b + "/libdependency.so");
}

TEST_CASE("libraries of libraries are judged by their own search paths") {
    const Place place;
    Place::put(place.a, "libneeds_another.so"); // it looks in its own folder
    const std::string last = Place::put(place.a);
    const LibraryNeeds one = needs(place.a, {}, {"libneeds_another.so"});
    CHECK(place.blamed(one) == "");
    Place::open_to_all(last);
    CHECK(place.blamed(one) == last);
    // The RPATH would apply to its libraries as well.
    fs::remove(last);
    Place::open_to_all(place.b);
    CHECK(place.blamed(needs({}, place.a + ":" + place.b, {"libneeds_another.so"})) == "");
    CHECK(place.blamed(needs({}, place.a + ":" + place.b, {"libneeds_another.so", "libdependency.so"})) == place.b);
}

TEST_CASE("what the loader would pass over is not taken, so that the search goes on") {
    const Place place;
    place.directory.write("a/libdependency.so", "no library");
    Place::open_to_all(place.b);
    CHECK(place.blamed(needs(place.a + ":" + place.b)) == place.b);
}

TEST_CASE("a library whose name is a path is blamed: the loader would give it to whoever asks for that") {
    const Place place;
    const std::string library = Place::put(place.a, "libby_path.so");
    const auto fault = place.fault(needs(place.a, {}, {"libby_path.so"}));
    REQUIRE(fault);
    CHECK(fault->code == RejectCode::unsafe_search);
    CHECK(fault->place == library);
    CHECK(contains(fault->what, "has a path as its name, 'lib/libdependency.so'"));
}

TEST_CASE("folders that lie in each other without end are no reason to go on without end") {
    const Place place;
    fs::create_directory_symlink(place.a, place.a + "/tls");
    fs::create_directory_symlink(place.a, place.a + "/haswell");
    CHECK(place.blamed(needs(place.a)) == "");
}

TEST_CASE("hundreds of libraries in hundreds of folders are no reason to go on for minutes") {
    const Place place;
    std::string folders;
    for (int i = 0; i < 900; ++i) {
        folders += place.a + "/absent" + std::to_string(i) + ":";
    }
    std::vector<std::string> names;
    for (int i = 0; i < 300; ++i) {
        names.push_back("lib" + std::to_string(i) + ".so");
    }
    const auto fault = place.fault(needs(folders + place.a, {}, names));
    REQUIRE(fault);
    CHECK(contains(fault->what, "more than 200000 places"));
    names.resize(200);
    CHECK_FALSE(place.fault(needs(folders + place.a, {}, names)));
}

TEST_CASE("the RPATH of the program counts for a plugin without a RUNPATH, as the dynamic loader has it") {
    Place place;
    Place::open_to_all(place.a);
    place.program_rpath = place.b + ":" + place.a;
    CHECK(place.blamed(needs({})) == place.a);
    CHECK(place.blamed(needs(place.b)).empty()); // it has a RUNPATH
    Place::put(place.b);
    CHECK(place.blamed(needs({})).empty()); // it is found earlier
    place.program_rpath = "lib:" + place.b;
    CHECK(contains(place.fault(needs({}))->what, "an element of the RPATH of the program is 'lib'"));
}

TEST_CASE("a plugin may need 1024 libraries, counting theirs, and no more") {
    const Place place;
    const std::string library = Place::put(place.a);
    std::vector<std::string> names;
    for (int i = 0; i < 1024; ++i) {
        names.push_back("lib" + std::to_string(i) + ".so");
        fs::create_hard_link(library, fs::path(place.a) / names.back());
    }
    CHECK(place.blamed(needs(place.a, {}, names)).empty());
    names.emplace_back("libdependency.so");
    const auto fault = place.fault(needs(place.a, {}, names));
    REQUIRE(fault);
    CHECK(fault->place == library);
    CHECK(contains(fault->what, "it needs more than 1024 libraries, including indirect ones"));
}

TEST_CASE("a library named by a path may lie in the root folder") {
    CHECK(Place().blamed(needs({}, {}, {"/libopdock_absent.so"})).empty());
}

TEST_CASE("the C library and the dynamic loader are looked for nowhere") {
    Place place;
    Place::open_to_all(place.a);
    CHECK(place.blamed(needs(place.a, {}, {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})).empty());
    CHECK(place.blamed(needs(place.a, {}, {"libc.so.60"})) == place.a);
    CHECK(place.blamed(needs(place.a, {}, {"libld-linux.so"})) == place.a);
}
