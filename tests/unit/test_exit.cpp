// Processes that end without closing their hosts.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "made_host.hpp"

using namespace opdock::core;
using opdock::test::MadeHost;
using opdock::test::Rows;

TEST_CASE("a process that exits while its threads call ends with its own status") {
    for (int round = 0; round < 20; ++round) {
        const pid_t child = fork();
        if (child == 0) {
            // Never destroyed: exit() does not wait for the threads that use it.
            auto *host = new MadeHost();
            host->add("default.one", OPDOCK_KIND_DEFAULT, "", 1.0f);
            std::atomic<int> calling{0};
            for (int i = 0; i < 3; ++i) {
                std::thread([host, &calling] {
                    const opdock::Op op = host->op();
                    Rows rows;
                    for (long n = 0;; ++n) {
                        op({rows.x}, {rows.y});
                        if (n == 10) {
                            ++calling;
                        }
                    }
                }).detach();
            }
            while (calling < 3) {
                std::this_thread::yield();
            }
            std::exit(42);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 42);
    }
}
