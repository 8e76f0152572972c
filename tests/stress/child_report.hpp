// Findings of a forked child, in memory shared with its parent: the child may die at any point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opdock::stress {

struct ChildReport {
    std::array<char, 1000> violation; // empty: none
    std::int64_t blocks;              // allocated and not freed
    std::int64_t descriptors;         // still open
    std::uint64_t allocations;        // of the operation

    void say(const std::string &what) {
        if (violation[0] == '\0') {
            std::snprintf(violation.data(), violation.size(), "%s", what.c_str());
        }
    }
};

// Runs `work` in a child with a report to fill in; if the child dies, adds the cause.
template<class Work>
ChildReport in_child(Work work) {
    static void *const shared =
        mmap(nullptr, sizeof(ChildReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        throw std::bad_alloc();
    }
    ChildReport &report = *new (shared) ChildReport{};
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); // a child that hangs is killed and reported
        try {
            work(report);
        } catch (const std::exception &exception) {
            report.say(std::string("it threw: ") + exception.what());
        }
        _exit(0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) != child) {
    }
    if (status != 0) {
        report.say(WIFSIGNALED(status) ? "it died of signal " + std::to_string(WTERMSIG(status))
                                       : "it ended with " + std::to_string(WEXITSTATUS(status)));
    }
    return report;
}

} // namespace opdock::stress
