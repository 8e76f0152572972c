#include "files/file_times.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "temporary_directory.hpp"

using namespace opdock::core;

TEST_CASE("a file that is changed right after it was looked at does not look as before") {
    const opdock::test::TemporaryDirectory directory;
    for (int round = 0; round < 20; ++round) {
        const std::string path = directory.write("libacme.so", "a").string();
        const auto look = [&] {
            struct stat status = {};
            REQUIRE(stat(path.c_str(), &status) == 0);
            return identity_of(status);
        };
        const FileIdentity judged = look();
        wait_until_changes_show(judged);
        const int file = open(path.c_str(), O_WRONLY);
        REQUIRE(pwrite(file, "b", 1, 0) == 1);
        close(file);
        CHECK((look() != judged));
    }
}

TEST_CASE("nobody waits for the time of a file that a clock gone wrong has set") {
    FileIdentity of_tomorrow;
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    of_tomorrow.changed = (std::int64_t{now.tv_sec} + 86'400) * 1'000'000'000;
    wait_until_changes_show(of_tomorrow); // otherwise the test does not end
    wait_until_changes_show({});
}

TEST_CASE("a file of this moment is waited for until its filesystem's clock has gone on") {
    const auto tick = [] {
        timespec now = {};
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    };
    for (const std::int64_t ahead : {0, 1, 8'000'000}) {
        CAPTURE(ahead);
        FileIdentity changed;
        changed.changed = tick() + ahead;
        wait_until_changes_show(changed);
        CHECK(tick() > changed.changed);
    }
}
