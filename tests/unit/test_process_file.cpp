#include "observe/process_file.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;

namespace {

std::string path_of(const std::string &name) {
    return ProcessFile(name, {"PLUGIN_METRICS"}).path().value();
}

} // namespace

TEST_CASE("%p in the name of a file is the number of the process, wherever it stands") {
    const std::string number = std::to_string(getpid());
    CHECK(path_of("/tmp/opdock.prom") == "/tmp/opdock.prom");
    CHECK(path_of("/tmp/opdock-%p.prom") == "/tmp/opdock-" + number + ".prom");
    CHECK(path_of("/tmp/%p/%p%p") == "/tmp/" + number + "/" + number + number);
    CHECK(path_of("/tmp/100%.%q") == "/tmp/100%.%q"); // nothing else is substituted
}

TEST_CASE("a forked child has a file of its own where the name has %p, and else none") {
    const ProcessFile own("/tmp/opdock-%p.prom", {"PLUGIN_METRICS"});
    const ProcessFile of_parent("/tmp/opdock.prom", {"PLUGIN_METRICS"});
    const pid_t child = fork();
    if (child == 0) {
        const bool well = own.path() == "/tmp/opdock-" + std::to_string(getpid()) + ".prom" && !of_parent.path();
        _exit(well ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("what is no absolute path of a file is an error that names the variable") {
    for (const char *name : {"opdock.prom", "", "/tmp/", "/", "/tmp/a\nb"}) {
        CAPTURE(name);
        CHECK(message_of([&] { path_of(name); })
                  .starts_with("PLUGIN_METRICS, column 1: expected the absolute path of a file, such as "
                               "/var/tmp/opdock-%p, where %p stands for the process id; found '"));
    }
}
