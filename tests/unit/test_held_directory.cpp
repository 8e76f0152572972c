#include "files/held_directory.hpp"

#include <exception>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/bounded_file.hpp"
#include "files/descriptor.hpp"
#include "files/plugin_file.hpp"
#include "files/reject.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

TEST_CASE("the folder of a file is what stands before its name, and the root's for what lies there") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    HeldDirectories directories;
    CHECK(directories.of("/x")->path() == "/");
    CHECK(directories.of("/nonexistent.so")->path() == "/");
    CHECK(directories.of(folder + "/libacme.so")->path() == folder);
    CHECK(directories.of(folder + "/")->path() == folder);
    CHECK(directories.of("libacme.so")->path() == std::filesystem::current_path().string());
    CHECK((directories.of(folder + "/a")->identity() == *identity_of_folder(folder)));
    CHECK_FALSE(identity_of_folder(folder + "/none").has_value());
}

TEST_CASE("a folder that files lie in is opened once, as long as somebody has it") {
    const TemporaryDirectory directory;
    HeldDirectories directories;
    const HeldDirectoryPtr first = directories.of(directory.path() / "liba.so");
    CHECK(directories.of(directory.path() / "libb.so") == first);
    CHECK(first->descriptor() >= 0);
    CHECK(first->name_for_loader("liba.so") == "/proc/self/fd/" + std::to_string(first->descriptor()) + "/liba.so");
}

TEST_CASE("a folder that cannot be opened is told with what is wrong") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "x").string();
    HeldDirectories directories;
    const auto code_of = [&](const std::string &path) {
        try {
            (void)directories.of(path);
        } catch (const Rejected &rejected) {
            return rejected.code();
        }
        return RejectCode::conflict; // it threw nothing
    };
    CHECK((code_of(directory.path().string() + "/none/liba.so") == RejectCode::not_found));
    CHECK((code_of(file + "/liba.so") == RejectCode::not_found));
    CHECK((code_of("/" + std::string(300, 'x') + "/liba.so") == RejectCode::unreadable));
    CHECK_THROWS_WITH_AS((void)directories.of(file + "/liba.so"),
                         doctest::Contains(("the folder '" + file + "' cannot be opened: Not a directory").c_str()),
                         Rejected);
}

TEST_CASE("as many links are followed as the kernel follows, and one more is an error") {
    const TemporaryDirectory directory;
    directory.write("file", "x");
    std::string target = "file";
    for (int i = 1; i <= 41; ++i) {
        const std::string link = "link" + std::to_string(i);
        std::filesystem::create_symlink(target, directory.path() / link);
        target = link;
    }
    HeldDirectories directories;
    CHECK(directories.follow(directory.path() / "file").name == "file");
    CHECK(directories.follow(directory.path() / "link40").name == "file");
    CHECK(std::filesystem::exists(directory.path() / "link40"));
    CHECK_THROWS_WITH_AS((void)directories.follow(directory.path() / "link41"),
                         doctest::Contains("'link1' is a link that leads through more than 40 other links"), Rejected);
    std::error_code error;
    CHECK_FALSE(std::filesystem::exists(directory.path() / "link41", error)); // the kernel rejects it too
    // After a link into another folder, the file's folder is the one that the link leads to.
    std::filesystem::create_directory(directory.path() / "inner");
    std::filesystem::create_symlink("../file", directory.path() / "inner" / "back");
    const HeldFile back = directories.follow(directory.path() / "inner" / "back");
    CHECK(back.name == "file");
    CHECK(directories.follow(directory.path() / "none").name == "none");
    CHECK(directories.follow(directory.path() / "inner" / "..").name == "..");
}

TEST_CASE("a link to a name that ends a line is refused") {
    const TemporaryDirectory directory;
    std::filesystem::create_symlink("a\nb", directory.path() / "link");
    HeldDirectories directories;
    CHECK_THROWS_WITH_AS((void)directories.follow(directory.path() / "link"),
                         doctest::Contains("'link' is a link to 'a\\x0ab', a name that contains a line break"),
                         Rejected);
}

TEST_CASE("a folder that is kept is given to whoever asks for it by the same path, while it is the same folder") {
    const TemporaryDirectory directory;
    const std::filesystem::path folder = directory.path() / "plugins";
    std::filesystem::create_directory(folder);
    HeldDirectoryPtr kept;
    {
        HeldDirectories directories;
        kept = directories.of(folder / "liba.so");
        KeptDirectory keeps(kept);
        keeps.keep();
    }
    HeldDirectories others;
    CHECK(others.of(folder / "libb.so") == kept);
    std::filesystem::rename(folder, directory.path() / "aside");
    std::filesystem::create_directory(folder);
    HeldDirectories later;
    const HeldDirectoryPtr fresh = later.of(folder / "liba.so");
    CHECK(fresh != kept);
    CHECK((fresh->identity() != kept->identity()));
    CHECK(later.of(directory.path() / "aside" / "liba.so") != kept); // through another path
}

TEST_CASE("a link is followed whatever its name begins with") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.write("liba.so", "x");
    for (const char *name : {"!link.so", "-link.so", ".link.so", "..link.so", "~link.so"}) {
        CAPTURE(name);
        std::filesystem::create_symlink(file, directory.path() / name);
        CHECK(HeldDirectories().follow(directory.path() / name).name == "liba.so");
    }
    CHECK(HeldDirectories().follow(directory.path() / "..").name == "..");
    CHECK(HeldDirectories().follow(directory.path() / "").name.empty());
}

TEST_CASE("files and folders are opened also by a process without a standard input") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.write("liba.so", "text");
    const pid_t child = fork();
    if (child == 0) {
        int opened = 0;
        try {
            close(STDIN_FILENO); // its number goes to the next file or folder that is opened
            opened += HeldDirectories().of(file)->descriptor() == STDIN_FILENO ? 1 : 0;
            opened += PluginFile(file).size() == 4 ? 1 : 0;
            opened += read_bounded_file(file.string(), OPDOCK_FAILED, 4) == "text" ? 1 : 0;
            const Descriptor still_free(open("/dev/null", O_RDONLY | O_CLOEXEC)); // each of them was closed again
            opened += still_free.get() == STDIN_FILENO ? 1 : 0;
        } catch (const std::exception &) {
            opened = -1;
        }
        _exit(opened == 4 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
