#include "files/path_rules.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access_list.hpp"
#include "files/own_folder.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

namespace {

// /tmp/.../outer/inner/libacme.so, all of it owned and writable by us alone.
struct Tree {
    TemporaryDirectory directory;
    std::string outer = (directory.path() / "outer").string();
    std::string inner = outer + "/inner";
    std::string file = directory.write("outer/inner/libacme.so", "x").string();

    Tree() {
        mode(outer, 0755);
        mode(inner, 0755);
        mode(file, 0644);
    }
    static void mode(const std::string &path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }
};

std::string fault_of(const std::string &file, PathRules rules = PathRules()) {
    const auto fault = rules.judge(file);
    return fault ? fault->what : "";
}

} // namespace

TEST_CASE("where a user namespace has no number for this user, nothing is known to be its own") {
    CHECK(own_user() == ::geteuid());
    CHECK(own_group() == ::getegid());
    const pid_t child = fork();
    if (child == 0) {
        const bool is_inside = unshare(CLONE_NEWUSER) == 0; // without a map
        const bool is_right = is_inside ? own_user() == static_cast<uid_t>(-1) && own_group() == static_cast<gid_t>(-1)
                                        : own_user() == ::geteuid();
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("where every user has a number, nobody's is a user's as any other") {
    uint64_t inside = 1, outside = 1, count = 0;
    std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
    if (::geteuid() != 0 || count != 0xffffffff) {
        return; // only root can act as another user
    }
    const pid_t child = fork();
    if (child == 0) {
        const bool is_nobody = setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
        _exit(is_nobody && own_user() == 65534 && own_group() == 65534 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a file of one's own is fine, also below a sticky folder of everybody's") {
    const Tree tree;
    CHECK(fault_of(tree.file) == "");
    Tree::mode(tree.outer, 01777);
    CHECK(fault_of(tree.file) == "");
}

TEST_CASE("a file, its folder and every folder above must not be writable by everybody") {
    for (const auto place : {&Tree::file, &Tree::inner, &Tree::outer}) {
        const Tree tree;
        const std::string &blamed = tree.*place;
        Tree::mode(blamed, 0757);
        PathRules rules;
        const auto fault = rules.judge(tree.file);
        REQUIRE(fault);
        CHECK(fault->place == blamed);
        CHECK(fault->what == "everybody may write to the " + std::string(blamed == tree.file ? "file" : "folder") +
                                 " '" + blamed + "' (mode 0757)");
        CHECK(fault->remedy == "chmod o-w '" + blamed + "'");
        CHECK(fault->is_file == (blamed == tree.file));
    }
}

TEST_CASE("a folder at fault whose name ends a line is shown on one, in the remedy too") {
    const Tree tree;
    const std::string folder = tree.inner + "/a\nb";
    std::filesystem::create_directory(folder);
    Tree::mode(folder, 0757);
    PathRules rules;
    const auto fault = rules.judge(folder + "/libacme.so");
    REQUIRE(fault);
    CHECK(fault->what == "everybody may write to the folder '" + tree.inner + "/a\\x0ab' (mode 0757)");
    CHECK(fault->remedy == "chmod o-w '" + tree.inner + "/a\\x0ab'");
}

TEST_CASE("the sticky bit does not help the folder a file lies in: others may put libraries beside it") {
    const Tree tree;
    Tree::mode(tree.inner, 01777);
    CHECK(fault_of(tree.file) == "everybody may write to the folder '" + tree.inner + "' (mode 1777)");
}

TEST_CASE("the sticky bit does not help a file, which it does not keep others from writing to") {
    const Tree tree;
    Tree::mode(tree.file, 01666);
    CHECK(fault_of(tree.file) == "everybody may write to the file '" + tree.file + "' (mode 1666)");
    Tree::mode(tree.file, 01644);
    CHECK(fault_of(tree.file) == "");
}

TEST_CASE("a group may write if it is the process's own or root's") {
    const Tree tree;
    Tree::mode(tree.inner, 0775);
    CHECK(fault_of(tree.file, PathRules(::geteuid(), ::getegid())) == "");
    if (::geteuid() != 0) {
        return; // only root may give folders away
    }
    REQUIRE(::chown(tree.inner.c_str(), 0, 4242) == 0);
    CHECK(fault_of(tree.file) == "group 4242 may write to the folder '" + tree.inner + "' (mode 0775)");
    CHECK(fault_of(tree.file, PathRules(0, 4242)) == "");
    Tree::mode(tree.inner, 0755);
    CHECK(fault_of(tree.file) == "");
}

TEST_CASE("somebody whom an access list lets write is at fault, wherever it stands") {
    for (const auto place : {&Tree::file, &Tree::inner, &Tree::outer}) {
        for (const int tag : {ACL_USER, ACL_GROUP}) {
            const Tree tree;
            const std::string &blamed = tree.*place;
            opdock::test::let_write(blamed, tag, 4242);
            PathRules rules;
            const auto fault = rules.judge(tree.file);
            REQUIRE(fault);
            CHECK(fault->what == std::string(tag == ACL_USER ? "user" : "group") + " 4242 may write to the " +
                                     (blamed == tree.file ? "file" : "folder") + " '" + blamed + "' (mode 0775)");
            CHECK(fault->remedy == "chmod g-w '" + blamed + "'");
            REQUIRE(::chmod(blamed.c_str(), 0755) == 0); // this removes it from the mask
            CHECK(fault_of(tree.file) == "");
        }
    }
}

TEST_CASE("an access list that lets write root, the process's own user and group, or nobody, is fine") {
    const Tree tree;
    for (const auto &[tag, id] : {std::pair(ACL_USER, 0u), std::pair(ACL_USER, ::geteuid()), std::pair(ACL_GROUP, 0u),
                                  std::pair(ACL_GROUP, ::getegid())}) {
        opdock::test::let_write(tree.file, tag, id);
        CHECK(fault_of(tree.file) == "");
    }
    opdock::test::set_access_list(
        tree.file, {{ACL_USER_OBJ, 6}, {ACL_USER, 6, 4242}, {ACL_GROUP_OBJ, 4}, {ACL_MASK, 4}, {ACL_OTHER, 4}});
    CHECK(fault_of(tree.file) == "");
    // The group bits of the mode are the mask; the group itself may only read.
    opdock::test::set_access_list(
        tree.file, {{ACL_USER_OBJ, 6}, {ACL_USER, 4, 4242}, {ACL_GROUP_OBJ, 4}, {ACL_MASK, 6}, {ACL_OTHER, 4}});
    CHECK(fault_of(tree.file, PathRules(::geteuid(), ::getegid() + 1)) == "");
}

TEST_CASE("a link of /proc is at fault: it leads elsewhere than it says") {
    const Tree tree;
    const int folder = ::open(tree.inner.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(folder >= 0);
    const std::string descriptor = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(folder);
    const std::string root = "/proc/" + std::to_string(::getpid()) + "/root";
    CHECK(fault_of(descriptor + "/libacme.so")
              .starts_with("the link '" + descriptor + "' belongs to /proc and may lead elsewhere"));
    CHECK(fault_of(root + tree.file).starts_with("the link '" + root + "' belongs to /proc and may lead elsewhere"));
    const std::string by_link = (tree.directory.path() / "elsewhere").string();
    std::filesystem::create_directory_symlink(root + tree.inner, by_link);
    CHECK(fault_of(by_link + "/libacme.so").starts_with("the link '" + root + "' need not"));
    const std::string itself = "/proc/" + std::to_string(::getpid()) + "/exe";
    CHECK(fault_of(itself).starts_with("the link '" + itself + "' need not"));
    ::close(folder);
}

TEST_CASE("a folder that is not there is judged by who could make it") {
    const Tree tree;
    const auto fault_of_folder = [](const std::string &folder, PathRules::Missing missing) {
        const auto fault = PathRules().judge_folder(folder, missing);
        return fault ? fault->what : "";
    };
    const std::string absent = tree.inner + "/absent/lib";
    for (const PathRules::Missing missing : {PathRules::Missing::is_fine, PathRules::Missing::is_judged}) {
        CHECK(fault_of_folder(tree.inner, missing) == "");
        CHECK(fault_of_folder(absent, missing) == "");
    }
    Tree::mode(tree.inner, 01777);
    const std::string fault = "everybody may write to the folder '" + tree.inner + "' (mode 1777)";
    CHECK(fault_of_folder(absent, PathRules::Missing::is_judged) == fault);
    CHECK(fault_of_folder(absent, PathRules::Missing::is_fine) == "");
    CHECK(fault_of_folder(tree.inner, PathRules::Missing::is_fine) == fault);
}

TEST_CASE("a file, folder or link of a stranger is at fault") {
    if (::geteuid() != 0) {
        const Tree tree; // seen by another user
        const std::string what = fault_of(tree.file, PathRules(::geteuid() + 1, ::getegid()));
        CHECK(what.find("belongs to user " + std::to_string(::geteuid())) != std::string::npos);
        return;
    }
    for (const auto place : {&Tree::file, &Tree::inner, &Tree::outer}) {
        const Tree tree;
        const std::string &blamed = tree.*place;
        REQUIRE(::chown(blamed.c_str(), 4242, 0) == 0);
        CHECK(fault_of(tree.file).find("'" + blamed + "' belongs to user 4242, not to root") != std::string::npos);
        CHECK(fault_of(tree.file, PathRules(4242, 0)) == "");
    }
    const Tree tree;
    const std::string link = tree.outer + "/link.so";
    std::filesystem::create_symlink(tree.file, link);
    CHECK(fault_of(link) == "");
    REQUIRE(::lchown(link.c_str(), 4242, 0) == 0);
    const auto fault = PathRules().judge(link);
    REQUIRE(fault);
    CHECK(fault->what.starts_with("the link '" + link + "' belongs to user 4242"));
    CHECK(fault->remedy == "chown -h root '" + link + "'");
    CHECK_FALSE(fault->is_file);
    REQUIRE(::chown(tree.file.c_str(), 4242, 0) == 0);
    CHECK(PathRules().judge(tree.file)->remedy == "chown root '" + tree.file + "'");
}

TEST_CASE("where links lead is judged as well as where they lie") {
    const Tree tree;
    const TemporaryDirectory elsewhere;
    const std::string folder_link = (elsewhere.path() / "folder").string();
    const std::string file_link = (elsewhere.path() / "libacme.so").string();
    const std::string link_to_link = (elsewhere.path() / "again.so").string();
    std::filesystem::create_symlink(tree.inner, folder_link);
    std::filesystem::create_symlink(tree.file, file_link);
    std::filesystem::create_symlink("folder/../inner/libacme.so", link_to_link); // ".." relative to the link's target
    const std::string paths[] = {folder_link + "/libacme.so", file_link, link_to_link};
    for (const std::string &path : paths) {
        CHECK(fault_of(path) == "");
    }
    Tree::mode(tree.outer, 0777);
    for (const std::string &path : paths) {
        CAPTURE(path);
        CHECK(fault_of(path) == "everybody may write to the folder '" + tree.outer + "' (mode 0777)");
    }
    Tree::mode(tree.outer, 0755);
    Tree::mode(elsewhere.path().string(), 0777);
    for (const std::string &path : paths) {
        CAPTURE(path);
        CHECK(fault_of(path).find(elsewhere.path().string()) != std::string::npos);
    }
}

TEST_CASE("the command that mends a place can be pasted, however long its name and whatever is in it") {
    const Tree tree;
    const std::string folder = tree.inner + "/it's " + std::string(100, 'x');
    const std::string file = folder + "/libacme.so";
    tree.directory.write(file.substr(tree.directory.path().string().size() + 1), "x");
    Tree::mode(folder, 0777);
    PathRules rules;
    const auto fault = rules.judge(file);
    REQUIRE(fault);
    CHECK(fault->remedy == "chmod o-w '" + tree.inner + "/it'\\''s " + std::string(100, 'x') + "'");
}

TEST_CASE("what cannot be looked at is somebody else's to report") {
    const Tree tree;
    CHECK(fault_of(tree.inner + "/absent.so") == "");
    CHECK(fault_of(tree.outer + "/absent/libacme.so") == "");
    std::filesystem::create_symlink("loop", tree.inner + "/loop");
    CHECK(fault_of(tree.inner + "/loop") == "");
    CHECK(fault_of(tree.inner + "/loop/libacme.so") == "");
}

TEST_CASE("a way that is too long to be looked at hides nothing: the kernel walks it by links") {
    const TemporaryDirectory directory;
    const std::filesystem::path before = std::filesystem::current_path();
    const std::string piece(250, 'x');
    const std::string steps = piece + '/' + piece + '/' + piece + '/' + piece + '/' + piece + '/' + piece;
    std::string link_path = directory.path().string();
    std::filesystem::current_path(directory.path());
    for (int part = 0; part < 3; ++part) {
        std::filesystem::create_directories(steps);
        std::filesystem::create_directory_symlink(steps, "go");
        link_path += "/go";
        std::filesystem::current_path("go");
    }
    directory.write("x", "");
    std::filesystem::copy_file(directory.path() / "x", "libacme.so");
    std::filesystem::current_path(before);
    REQUIRE(std::filesystem::exists(link_path + "/libacme.so"));
    const std::string fault = fault_of(link_path + "/libacme.so");
    CHECK_MESSAGE(fault.ends_with("cannot be inspected: File name too long"), fault.substr(0, 100));
    Tree::mode((directory.path() / piece).string(), 0777);
    CHECK(fault_of(link_path + "/libacme.so") ==
          "everybody may write to the folder '" + (directory.path() / piece).string() + "' (mode 0777)");
}

TEST_CASE("a folder is looked at once") {
    const Tree tree;
    const std::string second = tree.directory.write("outer/inner/libsecond.so", "x").string();
    PathRules rules;
    CHECK_FALSE(rules.judge(tree.file));
    Tree::mode(tree.outer, 0777);
    CHECK_FALSE(rules.judge(second));
    CHECK(PathRules().judge(second));
}

TEST_CASE("a folder of one's own is made for its user alone, with those above it") {
    const TemporaryDirectory directory;
    const std::string outer = (directory.path() / "a").string(), inner = outer + "/b";
    const mode_t mask = ::umask(0);
    CHECK(make_own_folder(inner) == "");
    ::umask(mask);
    for (const std::string &folder : {outer, inner}) {
        struct stat status = {};
        REQUIRE(::stat(folder.c_str(), &status) == 0);
        CHECK((status.st_mode & 07777u) == 0700);
    }
    CHECK(make_own_folder(inner) == ""); // it exists
    Tree::mode(inner, 0770);
    CHECK(make_own_folder(inner) == "other users may write to the folder '" + inner +
                                        "' (mode 0770), so its contents cannot be trusted; run `chmod go-w " + inner +
                                        "` if nobody else wrote to it");
    Tree::mode(inner, 01777);
    CHECK(make_own_folder(inner).ends_with("; use a folder that only its owner may write to"));
}

TEST_CASE("what stands where a folder of one's own should be is told") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "").string();
    CHECK(make_own_folder(file) == "'" + file + "' is not a folder");
    CHECK(make_own_folder(file + "/a").ends_with("Not a directory"));
    const std::string link = (directory.path() / "link").string();
    std::filesystem::create_symlink("nowhere", link);
    CHECK(make_own_folder(link) == "'" + link + "' is not a folder");
    CHECK(fault_of_own_folder("/nonexistent") == "");
}

TEST_CASE("as many links are followed as the kernel follows, of files and of folders") {
    const Tree tree;
    const TemporaryDirectory links;
    const auto path_of = [&](const std::string &name) { return (links.path() / name).string(); };
    std::filesystem::create_symlink(tree.file, path_of("file1"));
    std::filesystem::create_directory_symlink(tree.inner, path_of("folder1"));
    for (int i = 2; i <= 41; ++i) {
        const std::string before = std::to_string(i - 1), now = std::to_string(i);
        std::filesystem::create_symlink("file" + before, path_of("file" + now));
        std::filesystem::create_directory_symlink("folder" + before, path_of("folder" + now));
    }
    Tree::mode(tree.inner, 0777);
    const std::string fault = "everybody may write to the folder '" + tree.inner + "' (mode 0777)";
    CHECK(fault_of(path_of("file1")) == fault);
    CHECK(fault_of(path_of("file40")) == fault);
    CHECK(fault_of(path_of("folder1/libacme.so")) == fault);
    CHECK(fault_of(path_of("folder40/libacme.so")) == fault);
    std::error_code error;
    CHECK(std::filesystem::exists(path_of("file40")));
    CHECK_FALSE(std::filesystem::exists(path_of("file41"), error)); // nor for any other reader
    CHECK(fault_of(path_of("file41")).empty());
    CHECK(fault_of(path_of("folder41/libacme.so")).empty());
}

TEST_CASE("a way with dots and slashes too many is the way that it stands for") {
    const Tree tree;
    Tree::mode(tree.inner, 0777);
    const std::string fault = "everybody may write to the folder '" + tree.inner + "' (mode 0777)";
    CHECK(fault_of(tree.outer + "//./inner/.//libacme.so") == fault);
    CHECK(fault_of(tree.outer + "/inner/../inner/libacme.so") == fault);
    CHECK(fault_of("/.." + tree.file) == fault);
    const std::string link = (tree.directory.path() / "here").string();
    std::filesystem::create_directory_symlink("./outer/../outer//inner", link);
    CHECK(fault_of(link + "/libacme.so") == fault);
}
