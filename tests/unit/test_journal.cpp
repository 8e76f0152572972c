#include "probe/journal.hpp"

#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "made_host.hpp"
#include "mappings.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::can_forbid_cpuid;
using opdock::test::contains;
using opdock::test::is_mapped;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

// Runs `work` in a child that must end with this signal; 0: it must exit normally.
template<class Work>
void in_child(int signal, Work work) {
    std::cout.flush(); // or a child that exits would write it too
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL); // not the test framework's handler
        if (signal == SIGSEGV) {
            std::signal(SIGSEGV, SIG_DFL); // nor a sanitizer's
        }
        work();
        _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) ? WTERMSIG(status) : 0) == signal);
}

MadeHost host_in(const TemporaryDirectory &directory, const std::string &fixture) {
    return MadeHost({{"XDG_CACHE_HOME", directory.path().string()}}, "/nonexistent", {(fixtures / fixture).string()});
}

opdock_status call_next(MadeHost &host) {
    float in[] = {1, 2, 3};
    float out[] = {0, 0, 0};
    return host.op("badco.next")
        .try_call({opdock::Tensor(in, opdock::f32, {3})}, {opdock::Tensor(out, opdock::f32, {3})});
}

std::size_t files_in(const std::filesystem::path &folder) {
    std::error_code none;
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder, none), {}));
}

} // namespace

TEST_CASE("what a process was doing when it was killed is found by the next") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        journal.write({JournalEntry::Doing::opening, "/opt/libdone.so", "", ""}).close();
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        const auto calling = journal.write({JournalEntry::Doing::calling, "/opt/libbeta.so", "gelu", "vendor.beta"});
        raise(SIGKILL);
    });
    const std::vector<Death> deaths = Journal::collect(folder);
    REQUIRE(deaths.size() == 2);
    CHECK(deaths[0].entry.doing == JournalEntry::Doing::opening);
    CHECK(deaths[0].entry.path == "/opt/libacme.so");
    CHECK(deaths[1].entry.doing == JournalEntry::Doing::calling);
    CHECK(deaths[1].entry.path == "/opt/libbeta.so");
    CHECK(deaths[1].entry.op == "gelu");
    CHECK(deaths[1].entry.impl_id == "vendor.beta");
    CHECK(Journal::collect(folder).empty());
    CHECK(files_in(folder) == 0);
}

TEST_CASE("a process is found dead though a child that shares its descriptors lives") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    int gate[2];
    REQUIRE(pipe2(gate, O_CLOEXEC) == 0);
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        if (syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
            char end;
            close(gate[1]);
            _exit(static_cast<int>(read(gate[0], &end, 1))); // blocks until the test closes its end
        }
        raise(SIGKILL);
    });
    CHECK(Journal::collect(folder).size() == 1);
    CHECK(files_in(folder) == 0);
    close(gate[0]);
    close(gate[1]);
}

TEST_CASE("a copy of a process that was made without libc's fork closes no entry of it") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        const auto copy = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
        if (copy == 0) {
            opening.close();
            _exit(0);
        }
        (void)waitpid(copy, nullptr, 0);
        raise(SIGKILL);
    });
    CHECK(Journal::collect(folder).size() == 1);
}

TEST_CASE("a process that lives, or ends well, leaves nothing to be found") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    Journal journal(folder);
    const auto open = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
    CHECK(files_in(folder) == 1);
    CHECK(Journal::collect(folder).empty());
    CHECK(files_in(folder) == 1);
    in_child(0, [&] {
        CHECK(Journal::collect(folder).empty());
        Journal other(folder);
        other.write({JournalEntry::Doing::opening, "/opt/libbeta.so", "", ""}).close();
    });
    CHECK(files_in(folder) == 1);
}

TEST_CASE("a journal that is over leaves no file open and nothing mapped, and neither does who collects others") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    const std::size_t open_before = files_in("/proc/self/fd");
    {
        Journal journal(folder);
        auto entry = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        CHECK(is_mapped(folder));
        CHECK(files_in("/proc/self/fd") == open_before + 1);
        entry.close();
    }
    CHECK_FALSE(is_mapped(folder));
    CHECK(files_in("/proc/self/fd") == open_before);
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        raise(SIGKILL);
    });
    CHECK(Journal::collect(folder).size() == 1);
    CHECK(files_in("/proc/self/fd") == open_before);
}

TEST_CASE("what is in the folder and is no journal is not taken for one, and stays") {
    const TemporaryDirectory directory;
    const std::vector<std::string> names = {"1-abcdef.journal", "2-abcdef.journal", "notes.txt", "diary.journal",
                                            "-abcdef.journal"};
    for (const std::string &name : names) {
        directory.write(name, name == "2-abcdef.journal" ? std::string(100'000, '\xff') : "mine");
    }
    // An empty file with the name of a journal would be taken for one that was just begun.
    const std::vector<std::string> empty = {"diary-2.journal",  "4-abcde.journal",  "5-abcdefg.journal",
                                            "-bcdefg.journal",  "6_abcdef.journal", "7abcdef.journal",
                                            "8-abcdef.journals"};
    for (const std::string &name : empty) {
        directory.write(name, "");
    }
    const std::filesystem::path pipe = directory.path() / "3-abcdef.journal";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(Journal::collect(directory.path().string()).empty());
    for (const std::string &name : names) {
        CAPTURE(name);
        CHECK(std::filesystem::exists(directory.path() / name));
    }
    for (const std::string &name : empty) {
        CAPTURE(name);
        CHECK(std::filesystem::exists(directory.path() / name));
    }
    CHECK(std::filesystem::exists(pipe));
    CHECK(Journal::collect("/nonexistent").empty());
}

TEST_CASE("a journal that its process had only begun to make is removed") {
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        Journal journal(directory.path().string());
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        raise(SIGKILL);
    });
    REQUIRE(files_in(directory.path()) == 1);
    const std::filesystem::path whole = *std::filesystem::directory_iterator(directory.path());
    directory.write("2-abcdef.journal", std::string(std::filesystem::file_size(whole), '\0'));
    directory.write("1-abcdef.journal", "");
    CHECK(Journal::collect(directory.path().string()).size() == 1);
    CHECK(files_in(directory.path()) == 0);
}

TEST_CASE("a journal of somebody else is neither believed nor removed") {
    if (::geteuid() != 0) {
        return; // only root may give files away
    }
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        raise(SIGKILL);
    });
    REQUIRE(files_in(folder) == 1);
    const std::filesystem::path file = *std::filesystem::directory_iterator(folder);
    REQUIRE(::chown(file.c_str(), 4242, 4242) == 0);
    CHECK(Journal::collect(folder).empty());
    CHECK(std::filesystem::exists(file));
}

TEST_CASE("the journal's folders are their user's alone, and what lies where others may write is not believed") {
    const TemporaryDirectory directory;
    const std::string folder = (directory.path() / "cache" / "opdock" / "journal").string();
    const mode_t before = umask(0);
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        raise(SIGKILL);
    });
    umask(before);
    for (const std::string &made : {folder, (directory.path() / "cache" / "opdock").string()}) {
        struct stat status = {};
        REQUIRE(stat(made.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0700);
    }
    REQUIRE(files_in(folder) == 1);
    REQUIRE(chmod(folder.c_str(), 0777) == 0);
    CHECK(Journal::collect(folder).empty());
    {
        Journal journal(folder);
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        CHECK(files_in(folder) == 1);
    }
    REQUIRE(chmod(folder.c_str(), 0700) == 0);
    CHECK(Journal::collect(folder).size() == 1);
}

TEST_CASE("a journal's folder that cannot be used is one warning, with the reason and what to do") {
    const TemporaryDirectory directory;
    const std::string folder = (directory.path() / "opdock" / "journal").string();
    { auto host = host_in(directory, "libgood.so"); }
    const auto replaced_by = [&](const std::function<bool()> &make, const std::string &reason) {
        CAPTURE(reason);
        std::filesystem::remove_all(folder);
        REQUIRE(make());
        auto host = host_in(directory, "libgood.so");
        CHECK(host->describe()["plugins"][0]["status"] == "loaded");
        CHECK(host.logged("The journal of opened plugins is not kept: ") == 1);
        CHECK(host.logged(reason) == 1);
        CHECK(host.logged("Remove '" + folder + "'; hosts then create the folder again.") == 1);
    };
    replaced_by([&] { return mkfifo(folder.c_str(), 0600) == 0; }, "'" + folder + "' is not a folder");
    replaced_by([&] { return std::ofstream(folder).good(); }, "'" + folder + "' is not a folder");
    replaced_by([&] { return mkdir(folder.c_str(), 0700) == 0 && chmod(folder.c_str(), 0777) == 0; },
                "other users may write to the folder '" + folder + "' (mode 0777)");
    replaced_by([&] { return symlink("nowhere", folder.c_str()) == 0; }, "the link '" + folder + "' does not exist");
    const std::string shared = (directory.path() / "shared").string();
    REQUIRE(mkdir(shared.c_str(), 0700) == 0);
    REQUIRE(chmod(shared.c_str(), 0777) == 0);
    replaced_by([&] { return symlink(shared.c_str(), folder.c_str()) == 0; },
                "other users may write to the folder '" + folder + "' (mode 0777)");
    if (geteuid() == 0) { // only root may give folders away
        replaced_by([&] { return mkdir(folder.c_str(), 0700) == 0 && chown(folder.c_str(), 4242, 0) == 0; },
                    "the folder '" + folder + "' belongs to user 4242");
    }
    std::filesystem::remove_all(folder);
    auto host = host_in(directory, "libgood.so");
    CHECK(host.logged("The journal of opened plugins") == 0);
}

TEST_CASE("a process without a standard input has a journal as any other") {
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        close(STDIN_FILENO); // so that the journal gets descriptor 0
        Journal journal(directory.path().string());
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        raise(SIGKILL);
    });
    in_child(0, [&] {
        close(STDIN_FILENO);
        if (Journal::collect(directory.path().string()).size() != 1) {
            abort();
        }
    });
    CHECK(files_in(directory.path()) == 0);
}

TEST_CASE("what a process writes to standard streams that are closed does not come into the journal") {
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        Journal journal(directory.path().string());
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        for (int i = 0; i < 100; ++i) {
            (void)!write(STDOUT_FILENO, "a line of the log\n", 18);
            (void)!write(STDERR_FILENO, "a line of the log\n", 18);
        }
        raise(SIGKILL);
    });
    const auto deaths = Journal::collect(directory.path().string());
    REQUIRE(deaths.size() == 1);
    CHECK(deaths[0].entry.path == "/opt/libacme.so");
}

TEST_CASE("a journal for which there is no room is one warning that says what follows") {
    const TemporaryDirectory directory;
    std::string said;
    const Log log([](void *self, int32_t, const char *line) { *static_cast<std::string *>(self) += line; }, &said);
    Journal journal(directory.path().string(), &log);
    rlimit limits{};
    getrlimit(RLIMIT_FSIZE, &limits);
    const rlimit little = {1024, limits.rlim_max}; // simulates a full disk
    setrlimit(RLIMIT_FSIZE, &little);
    { const auto entry = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""}); }
    { const auto entry = journal.write({JournalEntry::Doing::opening, "/opt/libother.so", "", ""}); }
    setrlimit(RLIMIT_FSIZE, &limits);
    CHECK(contains(said, "The journal of opened plugins is not kept: '" + directory.path().string()));
    CHECK(contains(said, "File too large. A plugin that ends its process is opened again by the next process."));
    CHECK(said.find("The journal") == said.rfind("The journal"));
    CHECK(files_in(directory.path()) == 0);
}

TEST_CASE("a program that may make no large files has hosts, and is told that nothing is remembered") {
    const TemporaryDirectory directory;
    in_child(0, [&] {
        const rlimit little = {4096, 4096};
        setrlimit(RLIMIT_FSIZE, &little);
        auto host = host_in(directory, "libgood.so");
        if (call_next(host) == OPDOCK_OK || host.logged("is not used: ") != 1) { // it provides other ops
            abort();
        }
    });
}

TEST_CASE("without a folder nothing is written, and names that are too long are cut") {
    Journal none("");
    { const auto entry = none.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""}); }
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        Journal journal(directory.path().string());
        const auto entry = journal.write({JournalEntry::Doing::calling, std::string(5000, 'p'), "op", "id"});
        raise(SIGKILL);
    });
    const auto deaths = Journal::collect(directory.path().string());
    REQUIRE(deaths.size() == 1);
    CHECK(deaths[0].entry.path == std::string(975, 'p')); // the most that an entry has room for
    CHECK(deaths[0].entry.op.empty());
    CHECK(deaths[0].entry.impl_id.empty());
}

TEST_CASE("what fits into an entry of the journal is written to its last byte, and spills into no other") {
    const auto written = [](const std::string &path, const std::string &op, const std::string &impl_id) {
        const TemporaryDirectory directory;
        in_child(SIGKILL, [&] {
            Journal journal(directory.path().string());
            const auto one = journal.write({JournalEntry::Doing::calling, path, op, impl_id});
            const auto other = journal.write({JournalEntry::Doing::calling, path, op, impl_id});
            raise(SIGKILL);
        });
        const std::vector<Death> deaths = Journal::collect(directory.path().string());
        REQUIRE(deaths.size() == 2);
        CHECK(deaths[0].entry.path == deaths[1].entry.path);
        CHECK(deaths[0].entry.op == deaths[1].entry.op);
        CHECK(deaths[0].entry.impl_id == deaths[1].entry.impl_id);
        return deaths[1].entry;
    };
    const JournalEntry whole = written(std::string(966, 'p'), "op", "id_1");
    CHECK(whole.path == std::string(966, 'p'));
    CHECK(whole.op == "op");
    CHECK(whole.impl_id == "id_1");
    const JournalEntry cut = written(std::string(970, 'p'), "op", "id_1");
    CHECK(cut.op == "op");
    CHECK(cut.impl_id == "i");
    const JournalEntry one_name = written(std::string(974, 'p'), "op", "id_1");
    CHECK(one_name.path == std::string(974, 'p'));
    CHECK(one_name.op.empty());
    CHECK(one_name.impl_id.empty());
}

TEST_CASE("an entry of the journal whose texts are too long leaves the entry behind it as it is") {
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        Journal journal(directory.path().string());
        auto place = journal.write({JournalEntry::Doing::opening, "/opt/libdone.so", "", ""});
        const auto behind = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
        place.close();
        const std::string text(5000, 'x');
        const auto longer = journal.write({JournalEntry::Doing::calling, text, text, text});
        raise(SIGKILL);
    });
    const std::vector<Death> deaths = Journal::collect(directory.path().string());
    REQUIRE(deaths.size() == 2);
    CHECK(deaths[0].entry.path == std::string(975, 'x'));
    CHECK(deaths[1].entry.path == "/opt/libacme.so");
    CHECK(deaths[1].entry.doing == JournalEntry::Doing::opening);
}

TEST_CASE("as many things as a journal has room for are written down at once, and no more") {
    const TemporaryDirectory directory;
    in_child(SIGKILL, [&] {
        Journal journal(directory.path().string());
        std::vector<Journal::Open> open;
        for (int i = 0; i < 130; ++i) {
            open.push_back(journal.write({JournalEntry::Doing::opening, "/opt/lib" + std::to_string(i), "", ""}));
        }
        raise(SIGKILL);
    });
    const std::vector<Death> deaths = Journal::collect(directory.path().string());
    REQUIRE(deaths.size() == 128);
    CHECK(deaths.front().entry.path == "/opt/lib0");
    CHECK(deaths.back().entry.path == "/opt/lib127");
}

TEST_CASE("a plugin that kills its host twice, though its probe lives, is not opened a third time") {
    const TemporaryDirectory directory;
    for (int death = 0; death < 2; ++death) {
        in_child(SIGABRT, [&] {
            auto host = host_in(directory, "libaborts_in_host.so");
            call_next(host);
        });
    }
    auto host = host_in(directory, "libaborts_in_host.so");
    CHECK(host.logged("ended while it opened plugin") == 1);
    const nlohmann::json plugin = host->describe()["plugins"][0];
    CHECK(plugin["code"] == "OPDOCK-E055");
    CHECK(contains(plugin["reason"].get<std::string>(), "2 times in a row processes ended while they opened"));
    auto again = host_in(directory, "libaborts_in_host.so");
    CHECK(again->describe()["plugins"][0]["code"] == "OPDOCK-E055");
}

TEST_CASE(
    "a plugin that kills its host is known by the file, whatever its path is spelled like and however long it is") {
    const TemporaryDirectory directory;
    std::filesystem::path folder = directory.path();
    SUBCASE("a path of usual length") {}
    SUBCASE("a path that is longer than an entry of the journal has room for") {
        for (int i = 0; i < 6; ++i) {
            folder /= std::string(200, 'd');
        }
    }
    std::filesystem::create_directories(folder / "x");
    std::filesystem::copy_file(fixtures / "libaborts_in_host.so", folder / "libacme.so");
    std::filesystem::create_symlink(folder / "libacme.so", folder / "x/liblink.so");
    std::filesystem::create_directory_symlink(folder, directory.path() / "other");
    const auto open = [&](const std::filesystem::path &file) {
        return MadeHost({{"XDG_CACHE_HOME", (directory.path() / "cache").string()}}, "/nonexistent", {file.string()});
    };
    in_child(SIGABRT, [&] {
        auto host = open(folder / "libacme.so");
        call_next(host);
    });
    in_child(SIGABRT, [&] {
        auto host = open(folder / "x/../libacme.so");
        call_next(host);
    });
    for (const auto &file : {folder / "./libacme.so", folder / "x/liblink.so", directory.path() / "other/libacme.so"}) {
        auto host = open(file);
        CHECK(host->describe()["plugins"][0]["code"] == "OPDOCK-E055");
    }
}

TEST_CASE("a host that was open while others died opening a plugin does not open it a third time") {
    const TemporaryDirectory directory;
    auto host = host_in(directory, "libaborts_in_host.so");
    SUBCASE("others that it forked") {
        for (int death = 0; death < 2; ++death) {
            in_child(SIGABRT, [&] { call_next(host); });
        }
    }
    SUBCASE("others that the next host counted") {
        for (int death = 0; death < 2; ++death) {
            in_child(SIGABRT, [&] {
                auto other = host_in(directory, "libaborts_in_host.so");
                call_next(other);
            });
        }
        auto next = host_in(directory, "libaborts_in_host.so");
        CHECK(next->describe()["plugins"][0]["code"] == "OPDOCK-E055");
    }
    CHECK(call_next(host) == OPDOCK_ALL_DROPPED);
    CHECK(contains(opdock_last_error(), "2 times in a row processes ended while they opened"));
}

TEST_CASE("processes that end for other reasons while they open a plugin do not take it away") {
    const TemporaryDirectory directory;
    const auto die_opening = [&] {
        in_child(SIGKILL, [&] {
            Journal journal((directory.path() / "opdock" / "journal").string());
            const std::string plugin = (fixtures / "libkeeps_registry.so").string();
            struct stat status = {};
            REQUIRE(stat(plugin.c_str(), &status) == 0);
            const auto opening = journal.write({JournalEntry::Doing::opening, plugin, "", "", identity_of(status)});
            raise(SIGKILL);
        });
    };
    const auto code = [](MadeHost &host) { return host->describe()["plugins"][0]["code"].get<std::string>(); };
    { auto host = host_in(directory, "libkeeps_registry.so"); }
    SUBCASE("all at once, as the processes of a job that is killed") {
        for (int process = 0; process < 3; ++process) {
            die_opening();
        }
        auto host = host_in(directory, "libkeeps_registry.so");
        CHECK(host.logged("ended while it opened plugin") == 3);
        CHECK(code(host) == "");
    }
    SUBCASE("now and then, while others open it") {
        for (int death = 0; death < 3; ++death) {
            die_opening();
            auto host = host_in(directory, "libkeeps_registry.so");
            CHECK(code(host) == "");
            CHECK(call_next(host) == OPDOCK_OK);
        }
    }
    SUBCASE("while hosts were open that opened it afterwards") {
        for (int death = 0; death < 3; ++death) {
            auto host = host_in(directory, "libkeeps_registry.so");
            die_opening();
            CHECK(call_next(host) == OPDOCK_OK);
        }
        auto host = host_in(directory, "libkeeps_registry.so");
        CHECK(code(host) == "");
    }
    SUBCASE("but twice in a row is not by chance") {
        die_opening();
        { auto host = host_in(directory, "libkeeps_registry.so"); }
        die_opening();
        auto host = host_in(directory, "libkeeps_registry.so");
        CHECK(code(host) == "OPDOCK-E055");
    }
}

TEST_CASE("a crash in the first call of an implementation is named at the next start, with plugin and op") {
    for (const bool prepared : {false, true}) {
        CAPTURE(prepared);
        const TemporaryDirectory directory;
        in_child(SIGABRT, [&] {
            auto host = host_in(directory, "libaborts_in_kernel.so");
            if (prepared) {
                float in[] = {1};
                float out[] = {0};
                const opdock::Tensor a(in, opdock::f32, {1});
                const opdock::Tensor b(out, opdock::f32, {1});
                (void)host.op("badco.next").prepare({&a}, {&b}).run({in, out});
            } else {
                call_next(host);
            }
        });
        auto host = host_in(directory, "libaborts_in_kernel.so");
        CHECK(host.logged("ended in its first call of 'vendor.badco' for op 'badco.next'") == 1);
        CHECK(host->describe()["plugins"][0]["status"] ==
              "loaded"); // reported, but not rejected: calls depend on their arguments
        auto later = host_in(directory, "libaborts_in_kernel.so");
        CHECK(later.logged("ended in its first call") == 0);
    }
}

TEST_CASE("what a journal says of names stays in one line of the log") {
    const TemporaryDirectory directory;
    { auto host = host_in(directory, "libgood.so"); } // creates the folder
    in_child(SIGKILL, [&] {
        Journal journal((directory.path() / "opdock" / "journal").string());
        const std::string more = "'\nPlugin 'acme";
        const auto calling =
            journal.write({JournalEntry::Doing::calling, "/opt/p" + more, "op" + more, "vendor.beta" + more});
        const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/o" + more, "", ""});
        raise(SIGKILL);
    });
    auto host = host_in(directory, "libaborts_in_kernel.so");
    CHECK(host.logged("first call of 'vendor.beta'\\x0aPlugin 'acme' for op 'op'\\x0aPlugin 'acme' "
                      "(plugin '/opt/p'\\x0aPlugin 'acme')") == 1);
    CHECK(host.logged("plugin '/opt/o'\\x0aPlugin 'acme'") == 1);
    CHECK(host.logged("\nPlugin") == 0);
}

TEST_CASE("what ended in a first call is listed until health is reset, all is tried again or the file changes") {
    const TemporaryDirectory directory;
    for (int death = 0; death < 2; ++death) {
        in_child(SIGABRT, [&] {
            auto host = host_in(directory, "libaborts_in_kernel.so");
            call_next(host);
        });
        auto host = host_in(directory, "libaborts_in_kernel.so");
    }
    const std::string said = "2 processes ended in the first call of 'vendor.badco' for op 'badco.next'.";
    const auto warnings = [](auto &host) { return host->describe()["plugins"][0]["warnings"].dump(); };
    auto later = host_in(directory, "libaborts_in_kernel.so");
    CHECK(later.logged("ended in") == 0);
    CHECK(contains(warnings(later), said));
    later->reset_health("badco.next", "vendor.badco");
    auto reset = host_in(directory, "libaborts_in_kernel.so");
    CHECK_FALSE(contains(warnings(reset), "ended in"));
}

TEST_CASE("two implementations of one op whose first calls ended processes are told apart") {
    const TemporaryDirectory directory;
    for (const char *impl_id : {"vendor.badco", "vendor.other"}) {
        auto host = host_in(directory, "libaborts_in_kernel.so"); // it remembers the plugin
        in_child(SIGKILL, [&] {
            Journal journal((directory.path() / "opdock" / "journal").string());
            const auto entry = journal.write(
                {JournalEntry::Doing::calling, (fixtures / "libaborts_in_kernel.so").string(), "badco.next", impl_id});
            raise(SIGKILL);
        });
    }
    auto host = host_in(directory, "libaborts_in_kernel.so");
    const std::string warnings = host->describe()["plugins"][0]["warnings"].dump();
    CHECK(contains(warnings, "A process ended in the first call of 'vendor.badco' for op 'badco.next'."));
    CHECK(contains(warnings, "A process ended in the first call of 'vendor.other' for op 'badco.next'."));
}

TEST_CASE("the latest first calls that ended processes, 128 of a plugin, are remembered and counted on") {
    const TemporaryDirectory directory;
    const std::string plugin = (fixtures / "libaborts_in_kernel.so").string();
    { auto host = host_in(directory, "libaborts_in_kernel.so"); } // it remembers the plugin
    const auto die_in = [&](int first, int last) {
        in_child(SIGKILL, [&] {
            Journal journal((directory.path() / "opdock" / "journal").string());
            std::vector<Journal::Open> open;
            for (int i = first; i <= last; ++i) {
                open.push_back(journal.write(
                    {JournalEntry::Doing::calling, plugin, "badco.next", "vendor.badco" + std::to_string(i)}));
            }
            raise(SIGKILL);
        });
        auto host = host_in(directory, "libaborts_in_kernel.so");
        CHECK(host.logged("ended in its first call of 'vendor.badco") == last - first + 1);
        CHECK(host->describe()["plugins"][0]["status"] == "loaded");
        host.close();
        const Log quiet([](void *, int32_t, const char *) {}, nullptr);
        const std::optional<Scan> scan = ScanCache((directory.path() / "opdock").string(), quiet).find_any(plugin);
        REQUIRE(scan.has_value());
        return scan->call_deaths;
    };
    CHECK(die_in(1, 100).size() == 100);
    const std::vector<CallDeath> full = die_in(101, 130);
    REQUIRE(full.size() == 128);
    CHECK(full.front().impl_id == "vendor.badco3"); // the first two were dropped to make room
    CHECK(full.back().impl_id == "vendor.badco130");
    const std::vector<CallDeath> counted = die_in(3, 4);
    REQUIRE(counted.size() == 128);
    CHECK(counted.front().impl_id == "vendor.badco5");
    CHECK(counted.front().count == 1);
    CHECK(counted.back().impl_id == "vendor.badco4");
    CHECK(counted.back().count == 2);
    CHECK(die_in(201, 328).front().impl_id == "vendor.badco201"); // the most that are named at once
}

TEST_CASE("what ended in a first call of a plugin that no host uses is not remembered") {
    const TemporaryDirectory directory;
    const std::string unknown = (fixtures / "libnowhere.so").string();
    const std::string rejected = (fixtures / "libaborts_in_entry.so").string();
    { auto host = host_in(directory, "libaborts_in_entry.so"); }
    in_child(SIGKILL, [&] {
        Journal journal((directory.path() / "opdock" / "journal").string());
        const auto one = journal.write({JournalEntry::Doing::calling, unknown, "badco.next", "vendor.badco"});
        const auto other = journal.write({JournalEntry::Doing::calling, rejected, "badco.next", "vendor.badco"});
        raise(SIGKILL);
    });
    auto host = host_in(directory, "libaborts_in_entry.so");
    CHECK(host.logged("ended in its first call of 'vendor.badco' for op 'badco.next'") == 2); // reported all the same
    host.close();
    const Log quiet([](void *, int32_t, const char *) {}, nullptr);
    const ScanCache cache((directory.path() / "opdock").string(), quiet);
    CHECK_FALSE(cache.find_any(unknown).has_value());
    const std::optional<Scan> scan = cache.find_any(rejected);
    REQUIRE(scan.has_value());
    CHECK(scan->rejection.has_value());
    CHECK(scan->call_deaths.empty());
}

TEST_CASE("the first run of a prepared call is written down, later ones are not") {
    const TemporaryDirectory directory;
    auto host = host_in(directory, "libkeeps_registry.so");
    float in[] = {1};
    float out[] = {0};
    const opdock::Tensor a(in, opdock::f32, {1});
    const opdock::Tensor b(out, opdock::f32, {1});
    auto prepared = host.op("badco.next").prepare({&a}, {&b});
    const opdock_kernel before = prepared.c()->kernel;
    CHECK(prepared.run({in, out}) == OPDOCK_OK);
    CHECK((prepared.c()->kernel != before));
    CHECK(out[0] == 2);
    auto second = host.op("badco.next").prepare({&a}, {&b});
    CHECK((second.c()->kernel == prepared.c()->kernel));
}

TEST_CASE("a plugin whose probe takes the host with it is not tried a third time") {
    const TemporaryDirectory directory;
    const std::filesystem::path counter = directory.write("tries", "");
    setenv("OPDOCK_FIXTURE_COUNTER", counter.c_str(), 1);
    const auto tries = [&] { return std::filesystem::file_size(counter); };
    for (std::uintmax_t death = 1; death <= 2; ++death) {
        const pid_t child = fork();
        if (child == 0) {
            auto host = host_in(directory, "libhangs_after_counting.so");
            _exit(0);
        }
        while (tries() < death) {
            std::this_thread::yield();
        }
        REQUIRE(kill(child, SIGKILL) == 0);
        REQUIRE(waitpid(child, nullptr, 0) == child);
    }
    auto host = host_in(directory, "libhangs_after_counting.so");
    unsetenv("OPDOCK_FIXTURE_COUNTER");
    CHECK(host.logged("ended while it tried plugin") == 1);
    const nlohmann::json plugin = host->describe()["plugins"][0];
    CHECK(plugin["code"] == "OPDOCK-E055");
    CHECK(contains(plugin["reason"].get<std::string>(), "2 times in a row processes ended while they tried"));
    CHECK(tries() == 2);
}

TEST_CASE("a plugin that exits the process while it is opened or first called is remembered by the next host") {
    struct Row {
        const char *fixture;
        const char *said;
    };
    for (const Row &row : {Row{"libexits_in_host.so", "ended while it opened plugin"},
                           Row{"libexits_in_kernel.so", "ended in its first call of 'vendor.badco'"}}) {
        CAPTURE(row.fixture);
        const TemporaryDirectory directory;
        in_child(0, [&] {
            static std::optional<MadeHost> host; // as in a program: closed by exit()
            host.emplace(RawEnvironment{{"XDG_CACHE_HOME", directory.path().string()}}, "/nonexistent",
                         std::vector{(fixtures / row.fixture).string()});
            call_next(*host);
            raise(SIGKILL); // not reached
        });
        auto host = host_in(directory, row.fixture);
        CHECK(host.logged(row.said) == 1);
    }
}

TEST_CASE(
    "a plugin that ends the thread that opens it, or forbids the clock or cpuid, is remembered by the next host") {
    struct Row {
        const char *fixture;
        int signal;
    };
    // For the first, the unwinding reaches a test's catch (...), which ends the process.
    std::vector<Row> rows = {{"libends_thread_in_host.so", SIGABRT}};
#if defined(__x86_64__)
    rows.push_back({"libforbids_clock_in_host.so", SIGSEGV});
    if (can_forbid_cpuid()) {
        rows.push_back({"libforbids_cpuid_in_host.so", SIGSEGV});
    }
#endif
    for (const Row &row : rows) {
        CAPTURE(row.fixture);
        const TemporaryDirectory directory;
        for (int death = 0; death < 2; ++death) {
            in_child(row.signal, [&] {
                auto host = host_in(directory, row.fixture);
                call_next(host);
                raise(SIGKILL); // not reached
            });
        }
        auto host = host_in(directory, row.fixture);
        CHECK(host.logged("ended while it opened plugin") == 1);
        CHECK(host->describe()["plugins"][0]["code"] == "OPDOCK-E055");
    }
}

TEST_CASE("a plugin that ends the thread that opens it is remembered where other threads go on, too") {
    const TemporaryDirectory directory;
    for (int death = 0; death < 2; ++death) {
        in_child(0, [&] {
            auto host = host_in(directory, "libends_thread_in_host_when_opened.so");
            std::set_terminate([] { _exit(0); }); // frames below it take dlopen() for noexcept
            std::thread([&] { call_next(host); }).join();
            _exit(0); // with the host open: the loader waits for the thread
        });
    }
    auto host = host_in(directory, "libends_thread_in_host_when_opened.so");
    CHECK(host.logged("ended while it opened plugin") == 1);
    CHECK(host->describe()["plugins"][0]["code"] == "OPDOCK-E055");
}

TEST_CASE("a plugin that ends the process and goes on in a copy of it is not opened a third time") {
    const TemporaryDirectory directory;
    const char *const fixture = "libgoes_on_in_child_of_host.so";
    for (int death = 0; death < 2; ++death) {
        in_child(0, [&] {
            auto host = host_in(directory, fixture);
            CHECK(call_next(host) == OPDOCK_OK); // this runs in the copy
        });
    }
    auto host = host_in(directory, fixture);
    CHECK(host.logged("ended while it opened plugin") == 1);
    CHECK(host->describe()["plugins"][0]["code"] == "OPDOCK-E055");
}

TEST_CASE("a signal that a plugin leaves blocked, and that ends the host once it comes, is the plugin's doing") {
    const TemporaryDirectory directory;
    in_child(SIGABRT, [&] {
        auto host = host_in(directory, "libleaves_signal_in_host.so");
        call_next(host);
        _exit(0); // not reached
    });
    auto host = host_in(directory, "libleaves_signal_in_host.so");
    CHECK(host.logged("ended while it opened plugin") == 1);
}

TEST_CASE("a thread that ends in a first call beside others ends nothing else") {
    const TemporaryDirectory directory;
    in_child(0, [&] {
        auto host = host_in(directory, "libends_thread_in_kernel.so");
        std::thread([&] { call_next(host); }).join();
        host.close();
        _exit(0);
    });
    auto host = host_in(directory, "libends_thread_in_kernel.so");
    CHECK(host.logged("ended in its first call") == 0);
}

TEST_CASE("a plugin that is opened without having been tried, and ends the process twice, is not opened a third time") {
    const TemporaryDirectory directory;
    const auto open = [&] {
        return std::make_unique<MadeHost>(RawEnvironment{{"XDG_CACHE_HOME", directory.path().string()}}, "/nonexistent",
                                          std::vector{(fixtures / "libaborts_in_host.so").string()},
                                          WorkspaceAllocator{}, std::string());
    };
    for (int death = 0; death < 2; ++death) {
        in_child(SIGABRT, [&] { open(); });
    }
    CHECK((*open())->describe()["plugins"][0]["code"] == "OPDOCK-E055");
}

TEST_CASE("a forked child lets go of its parent's journal and may begin one of its own") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    Journal journal(folder);
    const auto opening = journal.write({JournalEntry::Doing::opening, "/opt/libacme.so", "", ""});
    in_child(SIGKILL, [&] {
        const std::size_t open_before = files_in("/proc/self/fd");
        journal.leave_to_parent();
        const std::size_t let_go = open_before - files_in("/proc/self/fd");
        const auto own = journal.write({JournalEntry::Doing::opening, "/opt/libbeta.so", "", ""});
        if (let_go != 1 || files_in(folder) != 2) {
            abort();
        }
        raise(SIGKILL);
    });
    CHECK(files_in(folder) == 2);
    const std::vector<Death> deaths = Journal::collect(folder); // the child's
    REQUIRE(deaths.size() == 1);
    CHECK(deaths[0].entry.path == "/opt/libbeta.so");
    CHECK(files_in(folder) == 1);
}

TEST_CASE("what a process was forked in the child may end too, and the parent's entry stands") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    in_child(SIGKILL, [&] {
        Journal journal(folder);
        auto calling = journal.write({JournalEntry::Doing::calling, "/opt/libacme.so", "acme.next", "vendor.acme"});
        const pid_t child = fork();
        if (child == 0) {
            journal.leave_to_parent();
            calling.close();
            _exit(is_mapped(folder) ? 1 : 0);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            abort();
        }
        raise(SIGKILL);
    });
    const std::vector<Death> deaths = Journal::collect(folder);
    REQUIRE(deaths.size() == 1);
    CHECK(deaths[0].entry.path == "/opt/libacme.so");
}

#ifndef __SANITIZE_THREAD__ // ThreadSanitizer runs a thread of its own
TEST_CASE("what a thread leaves open as it ends stands where that was the only thread, and of opening beside others") {
    using Doing = JournalEntry::Doing;
    const struct {
        Doing doing;
        bool is_beside_others;
        std::size_t deaths;
    } cases[] = {{Doing::calling, false, 1}, {Doing::calling, true, 0}, {Doing::opening, true, 1}};
    for (const auto &one : cases) {
        CAPTURE(one.doing);
        CAPTURE(one.is_beside_others);
        const TemporaryDirectory directory;
        const std::string folder = directory.path().string();
        in_child(0, [&] {
            Journal journal(folder);
            const auto leave_open = [&] { const auto entry = journal.write({one.doing, "/opt/libacme.so", "", ""}); };
            one.is_beside_others ? std::thread(leave_open).join() : leave_open();
        });
        CHECK(Journal::collect(folder).size() == one.deaths);
    }
}
#endif

TEST_CASE("a forked child whose parent has no journal has nothing to let go of") {
    const TemporaryDirectory directory;
    Journal journal(directory.path().string());
    in_child(0, [&] {
        const std::size_t open_before = files_in("/proc/self/fd");
        journal.leave_to_parent();
        if (files_in("/proc/self/fd") != open_before) {
            abort();
        }
    });
}
