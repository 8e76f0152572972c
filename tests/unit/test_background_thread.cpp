#include "observe/background_thread.hpp"

#include <csignal>
#include <cstdint>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <stdexcept>

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace opdock::core;
using namespace std::chrono_literals;

namespace {

// Lets a test wait for each run of a background thread.
struct Worked {
    std::counting_semaphore<> times{0};
    std::atomic<int> count{0};

    BackgroundThread::Work work() {
        return [this] {
            ++count;
            times.release();
        };
    }
    void once_more() { times.acquire(); }
};

} // namespace

TEST_CASE("a background thread works at its interval") {
    Worked worked;
    const BackgroundThread thread("test", 1ms, worked.work());
    worked.once_more();
    worked.once_more();
    worked.once_more();
}

TEST_CASE("a background thread works when it is asked, and ends at once however long its interval is") {
    Worked worked;
    {
        BackgroundThread thread("test", BackgroundThread::no_interval, worked.work());
        thread.ask();
        worked.once_more();
        thread.ask();
        worked.once_more();
    }
    { const BackgroundThread thread("test", 24h, worked.work()); }
    CHECK(worked.count == 2);
}

TEST_CASE("every background thread works when all are asked, also by a signal handler") {
    Worked first;
    Worked second;
    const BackgroundThread one("test", BackgroundThread::no_interval, first.work());
    const BackgroundThread other("test", 24h, second.work());
    struct sigaction before {};
    struct sigaction asks {};
    asks.sa_handler = [](int) { BackgroundThread::ask_all(); };
    REQUIRE(sigaction(SIGUSR2, &asks, &before) == 0);
    REQUIRE(raise(SIGUSR2) == 0);
    first.once_more();
    second.once_more();
    sigaction(SIGUSR2, &before, nullptr);
}

TEST_CASE("a background thread goes on after work that threw") {
    Worked worked;
    BackgroundThread thread("test", BackgroundThread::no_interval, [&] {
        worked.work()();
        throw std::runtime_error("no memory, say");
    });
    thread.ask();
    worked.once_more();
    thread.ask();
    worked.once_more();
}

TEST_CASE("no signal is handled on a background thread, and the thread that starts it keeps its mask") {
    sigset_t before{};
    sigset_t after{};
    sigset_t inside{};
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    std::binary_semaphore looked{0};
    {
        BackgroundThread thread("test", BackgroundThread::no_interval, [&] {
            pthread_sigmask(SIG_SETMASK, nullptr, &inside);
            looked.release();
        });
        thread.ask();
        looked.acquire();
    }
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    for (const int signal : {SIGTERM, SIGUSR1, SIGALRM, SIGXFSZ}) {
        CHECK(sigismember(&inside, signal) == 1);
        CHECK(sigismember(&before, signal) == sigismember(&after, signal));
    }
}

#ifndef __SANITIZE_THREAD__ // ThreadSanitizer allows no threads in the child of a process that has several
TEST_CASE("a forked child has its own background thread once it starts one, and ends without one") {
    Worked worked;
    BackgroundThread thread("test", BackgroundThread::no_interval, worked.work());
    thread.ask();
    worked.once_more();
    for (const bool starts : {true, false}) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); // a child that hangs is killed, and the test fails
            thread.start_over_in_child();
            thread.ask(); // no thread works yet
            bool well = worked.count == 1;
            if (starts) {
                well = well && thread.start_in_child() && thread.start_in_child();
                worked.once_more();
                well = well && worked.count == 2;
            }
            thread.~BackgroundThread();
            _exit(well ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    thread.ask();
    worked.once_more();
    CHECK(worked.count == 2);
}
#endif
