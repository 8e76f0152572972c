// The process forks while its threads call, prepare, change the policy, load and list. Each child calls, lists, opens a
// plugin that its parent has not opened, loads, and opens a host of its own.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "installation.hpp"
#include "stress.hpp"
#include "text/error.hpp"

namespace opdock::stress {
namespace {

// Far longer than a child needs, even on a busy machine.
constexpr int patience_milliseconds = 60'000;

struct Running {
    core::Host &host;
    core::RawEnvironment environment;
    std::string rejected; // plugins
    std::string late;
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> calls{0};
};

void call(Running &running) {
    const Op op(&running.host.op("fixture.add"));
    while (!running.done) {
        running.calls += added_by(op) >= 100;
    }
}

void flip(Running &running) {
    const core::Setting setting{"deny_vendors", "globex"};
    const auto denied = std::make_shared<const core::Policy>(running.host.make_policy(std::span(&setting, 1)));
    for (bool now = false; !running.done; now = !now) {
        running.host.set_program_policy(now ? denied : nullptr);
    }
}

// Uses the scan cache, a probe and the dynamic loader.
void load_and_list(Running &running) {
    while (!running.done) {
        try {
            running.host.load(running.rejected);
        } catch (const core::Error &) { // expected
        }
        (void)running.host.describe();
        (void)quiet_host(running.environment, {running.rejected});
    }
}

// The child's work. Returns the number of the step that failed, or 0.
int work_of_child(Running &running) {
    if (added_by(Op(&running.host.op("fixture.add"))) < 100) {
        return 1;
    }
    if (running.host.describe()["plugins"].empty()) {
        return 2;
    }
    float numbers[] = {1, 2};
    const Tensor tensor(numbers, f32, {2});
    float result[] = {0, 0};
    const Tensor output(result, f32, {2});
    const Prepared prepared = Op(&running.host.op("fixture.add")).prepare({&tensor, &tensor}, {&output});
    if (prepared.run({numbers, numbers, result}) != OPDOCK_OK) {
        return 3;
    }
    running.host.set_program_policy(nullptr);
    running.host.load(running.late);
    if (running.host.find_op("fixture.scale") == nullptr) {
        return 4;
    }
    const auto own = quiet_host(running.environment, {running.late});
    return own->find_op("fixture.scale") == nullptr ? 5 : 0;
}

pid_t fork_child(Running &running) {
    const pid_t child = fork();
    if (child == 0) {
        int step = 100;
        try {
            step = work_of_child(running);
        } catch (const std::exception &exception) {
            std::fprintf(stderr, "a child: %s\n", exception.what());
        }
        _exit(step);
    }
    return child;
}

// Describes how the child ended, or that it did not.
std::string end_of(pid_t child) {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    pollfd end = {handle, POLLIN, 0};
    const int ended = poll(&end, 1, patience_milliseconds);
    close(handle);
    if (ended != 1) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        return "it hangs";
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0           ? ""
           : WIFSIGNALED(status) ? "it died of signal " + std::to_string(WTERMSIG(status))
                                 : "step " + std::to_string(WEXITSTATUS(status)) + " went wrong";
}

void check(Stress &stress) {
    const Installation place;
    const auto host = quiet_host(place.environment(), {place.plugin("libgood.so", "libone.so"),
                                                       place.plugin("libsecond_vendor.so", "libtwo.so")});
    Running running{*host, place.environment(), place.plugin("libduplicate.so", "librejected.so"),
                    place.plugin("libscaler.so", "liblate.so")};
    std::uint64_t forks = 0;
    {
        std::vector<std::jthread> threads;
        for (void (*work)(Running &) : {call, flip, load_and_list}) {
            threads.emplace_back([&running, work] { work(running); });
        }
        for (; forks < stress.rounds && stress.violations() < 5; ++forks) {
            const std::string wrong = end_of(fork_child(running));
            if (!wrong.empty()) {
                stress.violated("fork " + std::to_string(forks) + ": " + wrong);
            }
            stress.progress(forks);
        }
        running.done = true;
    }
    stress.checked(std::to_string(forks) + " forks while " + std::to_string(running.calls) + " calls were served");
}

} // namespace

const Claim forks = {"forks",
                     "A child of a process whose threads call, load and change the policy calls, lists and loads, and "
                     "never hangs.",
                     1000, check};

} // namespace opdock::stress
