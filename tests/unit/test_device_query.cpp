// The command by which a vendor's plugin detects the vendor's device, and the use of its answer.
#include "probe/device_query.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "fake_device.hpp"
#include "made_host.hpp"
#include "probe/scan.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::test;
using core::run_device_query;

namespace {

const std::string probe = core::find_probe();

// A plugin of vendor acme for a kind of devices that DLPack knows and that has no provider here.
Made &add_acme(MadeHost &host, const std::string &command, const char *device = "rocm", const char *vendor = "acme") {
    static std::deque<Made> all;
    Made &made = all.emplace_back("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    made.device = device;
    host.module(
        "acme",
        [&](opdock_registry *registry) {
            declare(registry, test_ops[0]);
            register_made(registry, made);
            opdock_vendor known = {};
            known.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
            known.name = vendor;
            known.device_query_command = command.c_str();
            return registry->register_vendor(registry, &known);
        },
        "acme");
    return made;
}

nlohmann::json explained(MadeHost &host, const char *device = "rocm") {
    return host->explain("test.add", device, nullptr, {});
}

} // namespace

TEST_CASE("a device is there when its vendor's command ends with 0") {
    CHECK(run_device_query("true", probe, false) == "");
    CHECK(run_device_query("  sh\t-c  true ", probe, false) == "");
    CHECK(contains(run_device_query("false", probe, false),
                   "'false' reports that the device is not present: it ended, with exit code 1"));
    CHECK(contains(run_device_query("false > /dev/null; true", probe, false), "exit code 1")); // no shell is involved
}

TEST_CASE("a command that cannot be run, and one that does not end, say so") {
    CHECK(contains(run_device_query("acme-smi-that-nobody-has -L", probe, false),
                   "no absolute folder in PATH has such a program"));
    CHECK(contains(run_device_query(" \t", probe, false), "it is empty"));
    CHECK(contains(run_device_query("sleep 20", probe, false, {}, std::chrono::milliseconds(1)),
                   "stopped after 0.001 s"));
    CHECK(contains(run_device_query("true", probe, true), "absolute paths"));
    CHECK(run_device_query("/bin/true", probe, true) == "");
    const TemporaryDirectory folder; // a file that is not a program is not run by a shell
    const std::string text = folder.write("acme-smi", "exit 0\n").string();
    REQUIRE(chmod(text.c_str(), 0700) == 0);
    CHECK(contains(run_device_query(text, probe, false),
                   "it is neither a program for this machine nor a script that begins with #!"));
}

namespace {

std::string gate; // a FIFO at which its reader waits
volatile std::sig_atomic_t rings = 0;

// Opens the gate after many signals.
void ring(int) {
    rings = rings + 1;
    if (rings >= 50) {
        const int kept = errno;
        close(open(gate.c_str(), O_WRONLY | O_NONBLOCK)); // fails until it has a reader
        errno = kept;
    }
}

} // namespace

TEST_CASE("signals that arrive while a command runs change nothing") {
    const TemporaryDirectory folder;
    gate = (folder.path() / "gate").string();
    REQUIRE(mkfifo(gate.c_str(), 0600) == 0);
    rings = 0;
    struct sigaction before = {};
    struct sigaction ringing = {};
    ringing.sa_handler = ring; // without SA_RESTART: blocking calls are interrupted
    REQUIRE(sigaction(SIGALRM, &ringing, &before) == 0);
    const itimerval often = {{0, 1000}, {0, 1000}};
    REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
    const std::string why = run_device_query("cat " + gate, probe, false);
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    CHECK(why == "");
    CHECK(rings >= 50);
}

TEST_CASE("a command is looked for in absolute folders of PATH alone") {
    const TemporaryDirectory folder;
    const std::string program = folder.write("acme-smi", "#!/bin/sh\nexit 0\n").string();
    REQUIRE(chmod(program.c_str(), 0700) == 0);
    const std::string before = std::getenv("PATH");
    const std::filesystem::path working = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    for (const char *path : {"", ".", ":/bin", "/bin:", "sub/..:/bin"}) {
        CAPTURE(path);
        setenv("PATH", path, 1);
        CHECK(contains(run_device_query("acme-smi", probe, false), "no absolute folder in PATH has such a program"));
    }
    CHECK(contains(run_device_query("./acme-smi", probe, false), "its path is relative"));
    setenv("PATH", (".:" + folder.path().string()).c_str(), 1);
    CHECK(run_device_query("acme-smi", probe, false) == "");
    // Files that are not programs are skipped, and the first program is run.
    std::filesystem::create_directories(folder.path() / "folders" / "acme-smi");
    for (const char *name : {"texts", "failing"}) {
        std::filesystem::create_directory(folder.path() / name);
        folder.write(std::string(name) + "/acme-smi", "#!/bin/sh\nexit 3\n");
    }
    REQUIRE(chmod((folder.path() / "failing" / "acme-smi").c_str(), 0700) == 0);
    const auto found_in = [&](std::initializer_list<const char *> folders) {
        std::string path;
        for (const char *name : folders) {
            path += (path.empty() ? "" : ":") + (folder.path() / name).string();
        }
        setenv("PATH", path.c_str(), 1);
        return run_device_query("acme-smi", probe, false);
    };
    CHECK(found_in({"nothing", "folders", "texts", ""}) == "");
    CHECK(contains(found_in({"folders", "failing", ""}), "exit code 3"));
    CHECK(contains(found_in({"folders", "texts"}), "no absolute folder in PATH has such a program"));
    setenv("PATH", before.c_str(), 1);
    std::filesystem::current_path(working);
}

TEST_CASE("a command that somebody else could replace is run with a warning, and not where that counts") {
    const TemporaryDirectory folder;
    const std::string program = folder.write("acme-smi", "#!/bin/sh\nexit 0\n").string();
    REQUIRE(chmod(program.c_str(), 0777) == 0);
    MadeHost usual;
    add_acme(usual, program);
    CHECK(explained(usual)["chain"].size() == 1);
    CHECK(usual.logged("The device_query_command '" + program +
                       "' of a vendor is run, though somebody else could put "
                       "code into '" +
                       program + "': ") == 1);
    for (const auto &[name, value] : {std::pair("PLUGIN_STRICT", "1"), std::pair("PLUGIN_TRUST", "require")}) {
        const auto &tried = name;
        CAPTURE(tried);
        MadeHost careful(core::RawEnvironment{{name, value}});
        add_acme(careful, program);
        CHECK(contains(explained(careful)["dropped"][0]["reason"], "could not be run: somebody else could put code"));
    }
}

TEST_CASE("the interpreter of a command that is a script is judged as the script is") {
    const TemporaryDirectory folder;
    const std::string interpreter = (folder.path() / "acme-sh").string();
    std::filesystem::copy_file("/bin/sh", interpreter);
    REQUIRE(chmod(interpreter.c_str(), 0777) == 0);
    const std::string program = folder.write("acme-smi", "#! " + interpreter + " -e\nexit 0\n").string();
    REQUIRE(chmod(program.c_str(), 0700) == 0);
    const std::string what = "somebody else could put code into '" + interpreter + "': ";
    MadeHost usual;
    add_acme(usual, program);
    CHECK(explained(usual)["chain"].size() == 1);
    CHECK(usual.logged("of a vendor is run, though " + what) == 1);
    MadeHost careful(core::RawEnvironment{{"PLUGIN_STRICT", "1"}});
    add_acme(careful, program);
    CHECK(contains(explained(careful)["dropped"][0]["reason"], "could not be run: " + what));
    folder.write("acme-smi", "#!acme-sh\nexit 0\n");
    CHECK(contains(run_device_query(program, probe, false), "the path of its interpreter, 'acme-sh', is relative"));
}

TEST_CASE("the dynamic loader that a command asks for is judged as the interpreter of a script is") {
    const TemporaryDirectory folder;
    const std::string loader = (folder.path() / "ld.so").string();
    std::filesystem::copy_file("/bin/true", loader);
    const auto write_program = [&]<class Header, class Segment>(unsigned char word, const std::string &interpreter,
                                                                Header header, Segment segment) {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = word;
        header.e_phoff = sizeof header;
        header.e_phentsize = sizeof segment;
        header.e_phnum = 2; // the first program header is of no use
        Segment asks = segment;
        asks.p_type = PT_INTERP;
        asks.p_offset = sizeof header + 2 * sizeof segment;
        asks.p_filesz = static_cast<decltype(asks.p_filesz)>(interpreter.size() + 1);
        const auto bytes = [](const auto &of) { return std::string(reinterpret_cast<const char *>(&of), sizeof of); };
        const std::string program =
            folder.write("acme-smi", bytes(header) + bytes(segment) + bytes(asks) + interpreter + '\0').string();
        REQUIRE(chmod(program.c_str(), 0700) == 0);
        return program;
    };
    std::string judged;
    const auto judge = [&](const std::string &path) {
        judged += path + " ";
        return std::string(path == loader ? "it is somebody else's" : "");
    };
    for (const bool is_64 : {true, false}) {
        CAPTURE(is_64);
        const auto asked = [&](const std::string &interpreter) {
            return run_device_query(is_64 ? write_program(ELFCLASS64, interpreter, Elf64_Ehdr{}, Elf64_Phdr{})
                                          : write_program(ELFCLASS32, interpreter, Elf32_Ehdr{}, Elf32_Phdr{}),
                                    probe, false, judge);
        };
        judged.clear();
        CHECK(contains(asked(loader), "could not be run: it is somebody else's"));
        CHECK(judged == (folder.path() / "acme-smi").string() + " " + loader + " ");
        CHECK(contains(asked("ld.so"), "could not be run: the path of its interpreter, 'ld.so', is relative"));
    }
    judged.clear();
    CHECK(run_device_query("true", probe, false, judge) == "");
    CHECK(contains(judged, "/ld-linux"));
}

TEST_CASE(
    "a command is given those folders of PATH and LD_LIBRARY_PATH that are absolute and that no others write to") {
    const TemporaryDirectory folder;
    const std::string own = (folder.path() / "own").string(), everybodys = (folder.path() / "everybodys").string();
    REQUIRE(mkdir(own.c_str(), 0700) == 0);
    REQUIRE(mkdir(everybodys.c_str(), 0700) == 0);
    REQUIRE(chmod(everybodys.c_str(), 0777) == 0);
    const std::string program = folder.write("acme-smi", "").string();
    REQUIRE(chmod(program.c_str(), 0700) == 0);
    const std::string before = std::getenv("PATH");
    const auto sees = [&](const std::string &path, const std::string &libraries) {
        folder.write("acme-smi", "#!/bin/sh\ntest \"$PATH\" = '" + path + "' && test \"${LD_LIBRARY_PATH-none}\" = '" +
                                     libraries + "'\n");
        return run_device_query(program, probe, false) == "";
    };
    setenv("PATH", (":" + everybodys + ":.:" + own + "::/usr/bin:/bin:").c_str(), 1);
    setenv("LD_LIBRARY_PATH", (own + ";lib:" + everybodys).c_str(), 1);
    CHECK(sees(own + ":/usr/bin:/bin", own));
    setenv("LD_LIBRARY_PATH", (own + "/$LIB:" + own + "/${PLATFORM}:" + own).c_str(), 1); // the loader expands these
    CHECK(sees(own + ":/usr/bin:/bin", own));
    const std::string builds = own + "/glibc-hwcaps/x86-64-v2"; // the loader looks here, too
    REQUIRE(std::filesystem::create_directories(builds));
    CHECK(sees(own + ":/usr/bin:/bin", own));
    const std::filesystem::path library = std::filesystem::path(builds) / "libdep.so.1";
    std::ofstream(library) << "not looked into";
    CHECK(sees(own + ":/usr/bin:/bin", own));
    REQUIRE(chmod(library.c_str(), 0666) == 0);
    CHECK(sees(own + ":/usr/bin:/bin", "none"));
    std::filesystem::rename(library, everybodys + "/libdep.so.1");
    std::filesystem::create_symlink(everybodys + "/libdep.so.1", own + "/libdep.so");
    CHECK(sees(own + ":/usr/bin:/bin", "none"));
    std::filesystem::remove(everybodys + "/libdep.so.1"); // the link is broken until somebody creates its target again
    CHECK(sees(own + ":/usr/bin:/bin", "none"));
    std::filesystem::remove(own + "/libdep.so");
    CHECK(sees(own + ":/usr/bin:/bin", own));
    REQUIRE(chmod(builds.c_str(), 0777) == 0);
    CHECK(sees(own + ":/usr/bin:/bin", "none"));
    setenv("PATH", ".", 1);
    setenv("LD_LIBRARY_PATH", ":", 1);
    CHECK(sees("/usr/bin:/bin", "none"));
    unsetenv("LD_LIBRARY_PATH");
    setenv("PATH", before.c_str(), 1);
}

TEST_CASE("a command may do no more than a plugin that is tried: it reaches no other process and leaves none") {
    const TemporaryDirectory folder;
    const std::string script = (folder.path() / "script").string();
    folder.write("script", "kill -0 " + std::to_string(getpid()) + "\n");
    CHECK(contains(run_device_query("sh " + script, probe, false), "with exit code 1"));
    // A child that is left behind holds the FIFO open as long as it lives. The shell opens it, because the child may be
    // gone before it does anything, and a FIFO that was never opened for writing has no end.
    const std::string fifo = (folder.path() / "fifo").string();
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    const int end = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    folder.write("script", "exec 3> " + fifo + "\nsleep 1000 &\nexit 0\n");
    CHECK(run_device_query("sh " + script, probe, false) == "");
    pollfd all_gone = {end, POLLIN, 0};
    CHECK(poll(&all_gone, 1, 60'000) == 1);
    CHECK((all_gone.revents & POLLHUP) != 0);
    close(end);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // their probe has no limits
TEST_CASE("a command has the memory, and makes files of the size, that a plugin of the CPU may when it is tried") {
    const TemporaryDirectory folder;
    const std::string script = (folder.path() / "script").string();
    folder.write("script", "test \"$(ulimit -f)\" != unlimited && test \"$(ulimit -d)\" != unlimited\n");
    CHECK(run_device_query("sh " + script, probe, false) == "");
}
#endif

TEST_CASE("nothing is run of a vendor that the policy denies") {
    const TemporaryDirectory folder;
    MadeHost host(core::RawEnvironment{{"PLUGIN_DENY_VENDORS", "acme"}});
    add_acme(host, "mkdir " + (folder.path() / "asked").string());
    CHECK(explained(host)["dropped"][0]["rule"] == "deny_vendors");
    CHECK(contains(host->describe_devices().back()["problem"], "vendor 'acme' is denied by PLUGIN_DENY_VENDORS"));
    CHECK_FALSE(std::filesystem::exists(folder.path() / "asked"));
}

TEST_CASE("a program that ignores the ends of its children knows how the command ended") {
    const auto before = std::signal(SIGCHLD, SIG_IGN);
    const std::string absent = run_device_query("false", probe, false);
    const std::string there = run_device_query("true", probe, false);
    std::signal(SIGCHLD, before);
    CHECK(contains(absent, "reports that the device is not present: it ended, with exit code 1"));
    CHECK(there == "");
}

TEST_CASE("the command decides whether a vendor's implementations are available where nobody provides its devices") {
    MadeHost there;
    add_acme(there, "true");
    CHECK(explained(there)["chain"] == nlohmann::json::array({"vendor.acme"}));
    CHECK(there->describe_devices().back()["device_query_command"] == "true");
    CHECK_FALSE(there->describe_devices().back().contains("problem"));

    MadeHost absent;
    add_acme(absent, "false");
    const nlohmann::json dropped = explained(absent)["dropped"][0];
    CHECK(dropped["rule"] == "availability");
    CHECK(contains(dropped["reason"], "'false'"));
    CHECK(absent->describe()["ops"][0]["implementations"][0]["available"] == "no");
    CHECK(absent->describe_devices().back()["type"] == "rocm");
    CHECK(contains(absent->describe_devices().back()["problem"], "'false'"));
}

TEST_CASE("a device type that only a vendor's plugin knows is explained by the command, though nobody provides it") {
    MadeHost absent;
    add_acme(absent, "false", "qpu");
    const nlohmann::json why = explained(absent, "QPU:1");
    CHECK(why["device"] == "qpu:1");
    CHECK(why["chain"].empty());
    CHECK_FALSE(why.contains("on_cpu"));
    CHECK(why["dropped"][0]["rule"] == "availability");
    CHECK(contains(why["dropped"][0]["reason"], "'false' reports that the device is not present: it ended"));
    CHECK_THROWS_WITH(absent->named_device("qpu"), "there is no device qpu:0: no plugin provides devices of this type");
    CHECK_THROWS_WITH(explained(absent, "qpus"), doctest::Contains("'qpus' is not a device"));
    CHECK_THROWS_WITH(explained(absent, "qpu:x"), doctest::Contains("'qpu:x' is not a device"));

    MadeHost naming; // only vendors name the types, and each names its own
    for (const char *type : {"gpu", "Qpu"}) {
        naming.module(type, [&](opdock_registry *registry) {
            declare(registry, test_ops[0]);
            opdock_vendor known = {};
            known.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
            known.name = type;
            known.device_name = type;
            return registry->register_vendor(registry, &known);
        });
    }
    CHECK(explained(naming, "qpu:2")["device"] == "Qpu:2");
    CHECK(explained(naming, "GPU")["device"] == "gpu:0");
    CHECK_THROWS_WITH(explained(naming, "npu"), doctest::Contains("'npu' is not a device"));

    MadeHost there;
    add_acme(there, "true", "qpu");
    CHECK(explained(there, "qpu")["dropped"][0]["reason"] ==
          "there is no device qpu:0: no plugin provides devices of this type, though its vendor's device_query_command "
          "'true' says that the device is present");

    const TemporaryDirectory folder;
    MadeHost denying(core::RawEnvironment{{"PLUGIN_DENY_VENDORS", "acme"}});
    add_acme(denying, "mkdir " + (folder.path() / "asked").string(), "qpu");
    CHECK(explained(denying, "qpu")["dropped"][0]["rule"] == "deny_vendors");
    CHECK_FALSE(std::filesystem::exists(folder.path() / "asked"));
}

TEST_CASE("the command is run once, when somebody asks, and again when availability is asked again") {
    const TemporaryDirectory folder;
    MadeHost host;
    add_acme(host, "mkdir " + (folder.path() / "asked").string()); // exits with 0 the first time only
    CHECK(host->describe()["ops"][0]["implementations"][0]["available"] == "unknown");
    CHECK_FALSE(std::filesystem::exists(folder.path() / "asked"));
    CHECK(explained(host)["chain"].size() == 1);
    CHECK(explained(host, "rocm:1")["chain"].size() == 1);
    host->refresh_availability();
    CHECK(explained(host)["chain"].empty());
}

TEST_CASE("no command is run for the CPU, for another vendor's implementation, or where a plugin provides devices") {
    for (const auto &[device, vendor] : {std::pair{"cpu", "acme"}, {"rocm", "beta"}}) {
        MadeHost host;
        add_acme(host, "false", device, vendor);
        CHECK(explained(host, device)["chain"].size() == 1);
    }
    FakeKind kind;
    MadeHost host;
    add_acme(host, "false", "fake");
    host.module("provider", [&](opdock_registry *registry) { return kind.provide(registry); });
    CHECK(explained(host, "fake")["chain"].size() == 1);
}
