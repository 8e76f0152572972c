// Writers of the scan cache are killed at random moments, one alone and two at once. Each reports through a pipe which
// rows it has committed.
#include <algorithm>
#include <csignal>
#include <ctime>
#include <vector>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/scan_cache.hpp"
#include "stress.hpp"
#include "temporary_directory.hpp"

namespace opdock::stress {
namespace {

using core::Scan;

Scan scan_of(std::uint32_t number) {
    Scan scan;
    scan.identity = {1, number, 3, 4, 5};
    scan.rejection = core::Rejection{core::RejectCode::probe_died, "", std::string(200, 'x') + std::to_string(number)};
    return scan;
}

std::string path_of(std::uint32_t number) {
    return "/" + std::to_string(number);
}

// Writes one row after the other and reports each committed number, until it is killed.
[[noreturn]] void write_rows(const std::string &folder, std::uint32_t from, std::uint32_t step, int committed) {
    bool warned = false;
    const core::Log log([](void *flag, std::int32_t, const char *) { *static_cast<bool *>(flag) = true; }, &warned);
    for (std::uint32_t number = from;; number += step) {
        warned = false;
        {
            core::ScanCache cache(folder, log);
            cache.keep(path_of(number), scan_of(number));
            cache.save();
        }
        if (!warned && write(committed, &number, sizeof number) != sizeof number) {
            _exit(1);
        }
    }
}

struct Writer {
    pid_t process = -1;
    int committed = -1;

    // Takes the numbers reported so far. If `wait` is true, it waits for the first.
    std::size_t take(std::vector<std::uint32_t> &into, bool wait) const {
        fcntl(committed, F_SETFL, wait ? 0 : O_NONBLOCK);
        std::size_t taken = 0;
        std::uint32_t number = 0;
        while (read(committed, &number, sizeof number) == sizeof number) {
            into.push_back(number);
            ++taken;
            if (wait) {
                break;
            }
        }
        return taken;
    }
};

Writer start(const std::string &folder, std::uint32_t from, std::uint32_t step) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        throw std::runtime_error("pipe");
    }
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        write_rows(folder, from, step, ends[1]);
    }
    close(ends[1]);
    return {process, ends[0]};
}

void expect_whole(Stress &stress, const std::string &file, std::uint64_t round) {
    try {
        SQLite::Database database(file, SQLite::OPEN_READWRITE);
        const std::string found = database.execAndGet("PRAGMA integrity_check").getString();
        if (found != "ok") {
            stress.violated("round " + std::to_string(round) + ": " + found);
        }
    } catch (const SQLite::Exception &exception) {
        stress.violated("round " + std::to_string(round) + ": " + exception.what());
    }
}

void expect_rows(Stress &stress, const std::string &folder, const std::vector<std::uint32_t> &expected,
                 std::uint64_t round) {
    std::string warnings;
    const core::Log log([](void *text, std::int32_t, const char *line) { *static_cast<std::string *>(text) += line; },
                        &warnings);
    const core::ScanCache cache(folder, log);
    for (const std::uint32_t number : expected) {
        const std::optional<Scan> scan = cache.find(path_of(number), scan_of(number).identity);
        if (!scan || scan->rejection->message != scan_of(number).rejection->message) {
            stress.violated("round " + std::to_string(round) + ": row " + std::to_string(number) +
                            " was committed and is not there");
        }
    }
    if (!warnings.empty()) {
        stress.violated("round " + std::to_string(round) + ": " + warnings);
    }
}

// Kills writers in the given number of rounds. Returns how many rows were seen committed.
std::uint64_t kill_writers(Stress &stress, std::uint64_t rounds, std::uint32_t writers) {
    std::uint64_t committed = 0;
    std::uint32_t next = 0;
    std::vector<std::uint32_t> expected; // in the current folder
    std::unique_ptr<test::TemporaryDirectory> directory;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        if (round % 25 == 0) { // so that the file is often created anew, and never large
            directory = std::make_unique<test::TemporaryDirectory>();
            expected.clear();
        }
        const std::string folder = directory->path().string();
        std::vector<Writer> running;
        for (std::uint32_t who = 0; who < writers; ++who) {
            running.push_back(start(folder, next + who, writers));
        }
        const std::size_t before = expected.size();
        // Half of the kills come early, while the file is opened or created; the others some rows later.
        for (std::uint32_t rows = stress.below(2) == 0 ? 0 : 1 + stress.below(4); rows > 0; --rows) {
            (void)running[stress.below(writers)].take(expected, true);
        }
        const timespec moment = {0, static_cast<long>(stress.below(4'000'000))};
        nanosleep(&moment, nullptr); // the random moment to kill; nothing waits for a condition
        for (const Writer &writer : running) {
            kill(writer.process, SIGKILL);
        }
        for (const Writer &writer : running) {
            waitpid(writer.process, nullptr, 0);
            (void)writer.take(expected, false);
            close(writer.committed);
        }
        committed += expected.size() - before;
        for (const std::uint32_t number : expected) {
            next = std::max(next, number + 1);
        }
        next += writers; // a row that was being written when its writer died may exist or not
        const std::string file = folder + "/scans.sqlite";
        if (std::filesystem::exists(file)) {
            expect_whole(stress, file, round);
        }
        expect_rows(stress, folder, expected, round);
        if (std::filesystem::exists(file + ".damaged")) {
            stress.violated("round " + std::to_string(round) + ": the file was set aside as damaged");
            directory.reset();
            round += 24 - round % 25;
        }
        stress.progress(round, rounds);
    }
    return committed;
}

void check(Stress &stress) {
    const std::uint64_t of_two = std::max<std::uint64_t>(1, stress.rounds / 4);
    const std::uint64_t one = kill_writers(stress, stress.rounds, 1);
    const std::uint64_t two = kill_writers(stress, of_two, 2);
    stress.checked(std::to_string(stress.rounds) + " kills of one writer (" + std::to_string(one) +
                   " rows committed), " + std::to_string(of_two) + " of two at once (" + std::to_string(two) +
                   " rows committed)");
}

} // namespace

const Claim cache_kill = {"cache-kill",
                          "A writer of the scan cache is killed, and two at once in a quarter as many rounds: the file "
                          "is never torn, and nothing committed is lost.",
                          2000, check};

} // namespace opdock::stress
