#include "observe/call_observer.hpp"

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "observe/trace_file.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"
#include "text/bounded_yaml.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;
using opdock::cpu;

namespace {

std::string bytes_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

json events_of(const std::string &trace) {
    return json::parse(bytes_of(trace)).at("traceEvents");
}

std::vector<core::YamlNode> calls_of(const std::string &record) {
    return core::parse_bounded_yaml(bytes_of(record), record, OPDOCK_INVALID_ARGUMENT).items;
}

std::string field(const core::YamlNode &map, const std::string &name) {
    for (const auto &[key, value] : map.entries) {
        if (key.text == name) {
            return value.text;
        }
    }
    return "absent";
}

struct Folder : TemporaryDirectory {
    std::string trace = path() / "trace.json";
    std::string record = path() / "record.yaml";

    core::RawEnvironment both() const { return {{"PLUGIN_TRACE", trace}, {"PLUGIN_RECORD", record}}; }
    bool has(const std::string &file) const { return std::filesystem::exists(file); }
    size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path()), {})); }
};

// Runs `work` in a child. The child ends itself, or is killed once it has said that it may be.
template<class Work>
int killed_in_child(Work work) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::close(ends[0]);
        work([&] { (void)!::write(ends[1], "x", 1); });
        ::_exit(1);
    }
    ::close(ends[1]);
    char told = 0;
    const bool is_told = ::read(ends[0], &told, 1) == 1;
    ::close(ends[0]);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(is_told);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

template<class Work>
int exit_of_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::_exit(work());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("without the variables nobody watches") {
    MadeHost host;
    CHECK(host->observer() == nullptr);
}

TEST_CASE("a trace has each call, prepared runs and calls that fail included") {
    const Folder folder;
    {
        MadeHost host(core::RawEnvironment{{"PLUGIN_TRACE", folder.trace}});
        Made &vendor = host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        host->set_program_policy(host.policy("prefer", "vendor"));
        Rows rows;
        CHECK(rows.added(host.op()) == 2);
        CHECK(rows.added(host.op()) == 2);
        const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
        CHECK(prepared.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
        vendor.status = OPDOCK_FAILED_CLEAN;
        CHECK(rows.added(host.op()) == 1);
        CHECK_FALSE(folder.has(folder.trace));
    }
    const json events = events_of(folder.trace);
    REQUIRE(events.size() == 5);
    for (const json &event : events) {
        CHECK(event.at("name") == "test.add");
        CHECK(event.at("pid") == ::getpid());
        CHECK(event.at("args").at("call") == "input=f32[2,3]");
        CHECK(event.at("args").at("device") == "cpu:0");
    }
    CHECK(events[2].at("args").at("implementation") == "vendor.acme");
    CHECK(events[3].at("args").at("status") == "FAILED_CLEAN");
    CHECK(events[4].at("args").at("implementation") == "default.one");
    CHECK(folder.files() == 1); // no other file is left
}

TEST_CASE("a kernel that throws is in the trace, and that it failed") {
    const Folder folder;
    {
        MadeHost host(core::RawEnvironment{{"PLUGIN_TRACE", folder.trace}});
        host.add("default.one", OPDOCK_KIND_DEFAULT).work = [](const auto &, const auto &) -> opdock_status {
            throw std::runtime_error("thrown");
        };
        Rows rows;
        CHECK(rows.call(host.op()) != OPDOCK_OK);
        CHECK(contains(last_error(), "thrown"));
    }
    CHECK(events_of(folder.trace).at(0).at("args").at("status") == "FAILED");
}

// In a child: a profiler that is found stays in the process.
TEST_CASE("each kernel is a range of a profiler that listens by roctx") {
    const int ended = exit_of_child([] {
        void *const profiler = ::dlopen((fixtures_folder() / "libprofiler.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
        const auto ranges = reinterpret_cast<const char *(*)()>(::dlsym(profiler, "roctx_ranges"));
        const Folder folder;
        {
            MadeHost host(folder.both());
            Made &vendor = host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
            host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1).work = [](const auto &, const auto &) -> opdock_status {
                throw std::runtime_error("thrown");
            };
            host->set_program_policy(host.policy("prefer", "vendor"));
            Rows rows;
            (void)rows.call(host.op());
            vendor.status = OPDOCK_FAILED_CLEAN;
            (void)rows.call(host.op());
        }
        std::string expected = "{ test.add vendor.acme } { test.add vendor.acme } { test.add default.one } ";
        {
            MadeHost host; // without a trace
            host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
            Rows rows;
            (void)host.op().prepare({rows.x}, {rows.y}).run({rows.in.data(), rows.out.data()});
            expected += "{ test.add default.one } ";
        }
        return ranges() == expected && events_of(folder.trace).size() == 3 ? 0 : 1;
    });
    CHECK(ended == 0);
}

TEST_CASE("a record has what was called, how often and by whom it was served") {
    const Folder folder;
    {
        MadeHost host(core::RawEnvironment{{"PLUGIN_RECORD", folder.record}});
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        for (int i = 0; i < 5; ++i) {
            CHECK(rows.added(host.op()) == 1);
        }
        CHECK(host.op().try_call({rows.x}, {rows.y}, {{"scale", 2.5}, {"name", "a \"b\""}}) == OPDOCK_OK);
        std::vector<float> wide(12);
        const Tensor strided(wide.data(), f32, {2, 3}, cpu, {1, 2});
        CHECK(host.op().try_call({strided}, {rows.y}) == OPDOCK_OK);
        const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
        CHECK(prepared.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    }
    const std::vector<core::YamlNode> calls = calls_of(folder.record);
    REQUIRE(calls.size() == 3);
    double shares = 0;
    std::map<std::string, std::string> counts;
    for (const core::YamlNode &call : calls) {
        CHECK(field(call, "op") == "test.add");
        CHECK(field(call, "served_by") == "default.one");
        shares += std::stod(field(call, "share"));
        counts[field(call, "attributes") == "absent" ? field(call, "strides") == "absent" ? "plain" : "strided"
                                                     : "attributes"] = field(call, "calls");
    }
    CHECK(shares == doctest::Approx(1).epsilon(0.01));
    CHECK(counts["plain"] == "6");
    CHECK(counts["strided"] == "1");
    CHECK(counts["attributes"] == "1");
    CHECK(folder.files() == 1);
}

TEST_CASE("a host that serves no call leaves files of before as they are") {
    const Folder folder;
    folder.write("trace.json", "old");
    folder.write("record.yaml", "old");
    { const MadeHost host(folder.both()); }
    CHECK(bytes_of(folder.trace) == "old");
    CHECK(bytes_of(folder.record) == "old");
    CHECK(folder.files() == 2);
}

TEST_CASE("a process that is killed leaves a trace that can be read and a record that is whole") {
    const Folder folder;
    constexpr int calls = 2500;
    const int signal = killed_in_child([&](const auto &may_be_killed) {
        MadeHost host(folder.both());
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        for (int i = 0; i < calls; ++i) {
            (void)rows.call(host.op());
        }
        while (!folder.has(folder.record)) {
            core::BackgroundThread::ask_all();
            ::sched_yield();
        }
        may_be_killed();
        for (;;) {
            (void)rows.call(host.op());
        }
    });
    CHECK(signal == SIGKILL);
    CHECK_FALSE(folder.has(folder.trace));
    const core::Trace trace = core::read_trace(bytes_of(folder.trace + ".ring"), "ring");
    CHECK(trace.events.size() >= calls);
    CHECK(trace.broken <= 1);
    CHECK(trace.calls.at(trace.events.back().call).arguments == "input=f32[2,3]");
    CHECK(json::accept(core::chrome_json(trace)));
    REQUIRE(calls_of(folder.record).size() == 1);
    CHECK(std::stoi(field(calls_of(folder.record)[0], "calls")) >
          calls - static_cast<int>(core::CountedCall::told_together));
    // The next process reuses the name.
    MadeHost host(folder.both());
    CHECK(host.logged("not traced") == 0);
}

TEST_CASE("a folder that is not there is one warning for each file, and calls go on") {
    const Folder folder;
    const std::string absent = folder.path() / "absent";
    MadeHost host(core::RawEnvironment{{"PLUGIN_TRACE", absent + "/trace"}, {"PLUGIN_RECORD", absent + "/record"}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    for (int i = 0; i < 10; ++i) {
        CHECK(rows.added(host.op()) == 1);
    }
    host.close();
    CHECK(host.logged("PLUGIN_TRACE: calls are not traced: ") == 1);
    CHECK(host.logged("PLUGIN_RECORD: ") == 1);
}

TEST_CASE("a disk that is full is a warning, and calls go on") {
    const Folder folder;
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::signal(SIGXFSZ, SIG_DFL);
        const rlimit limit = {64, 64};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        MadeHost host(folder.both());
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        bool is_right = true;
        for (int i = 0; i < 10; ++i) {
            is_right = is_right && rows.added(host.op()) == 1;
        }
        host.close();
        is_right = is_right && host.logged("PLUGIN_TRACE: calls are not traced: ") == 1;
        is_right = is_right && host.logged("PLUGIN_RECORD: ") == 1;
        ::_exit(is_right ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("a relative path is refused, with what was expected") {
    CHECK_THROWS_WITH_AS(MadeHost(core::RawEnvironment{{"PLUGIN_TRACE", "trace.json"}}),
                         doctest::Contains("absolute path"), core::Error);
}

TEST_CASE("a second host that wants the same trace says so and goes on without") {
    const Folder folder;
    MadeHost first(core::RawEnvironment{{"PLUGIN_TRACE", folder.trace}});
    MadeHost second(core::RawEnvironment{{"PLUGIN_TRACE", folder.trace}});
    CHECK(second.logged("put %p in the name") == 1);
    CHECK(second->observer() == nullptr);
}

TEST_CASE("a forked child does not write into its parent's files") {
    const Folder folder;
    {
        MadeHost host(folder.both());
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
        CHECK(rows.added(host.op()) == 1);
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(60);
            bool is_right = true;
            for (int i = 0; i < 100; ++i) {
                is_right = is_right && rows.added(host.op()) == 1 &&
                           prepared.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK;
            }
            host.close();
            ::_exit(is_right ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
        CHECK(rows.added(host.op()) == 1);
    }
    CHECK(events_of(folder.trace).size() == 2);
    REQUIRE(calls_of(folder.record).size() == 1);
    CHECK(field(calls_of(folder.record)[0], "calls") == "2");
    CHECK(folder.files() == 2);
}

#ifndef __SANITIZE_THREAD__ // ThreadSanitizer allows no threads in a child of a process that has several
TEST_CASE("with %p in the names a forked child has files of its own, once it calls something") {
    const Folder folder;
    const std::string trace = folder.path() / "%p.json", record = folder.path() / "%p.yaml";
    const auto own = [&](pid_t process, const char *ending) {
        return (folder.path() / (std::to_string(process) + ending)).string();
    };
    MadeHost host(core::RawEnvironment{{"PLUGIN_TRACE", trace}, {"PLUGIN_RECORD", record}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    for (const int calls : {0, 3}) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(60);
            bool is_right = true;
            for (int i = 0; i < calls; ++i) {
                is_right = is_right && rows.added(host.op()) == 1;
            }
            host.close();
            ::_exit(is_right ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
        CHECK(folder.has(own(child, ".json")) == (calls != 0));
        CHECK(folder.has(own(child, ".yaml")) == (calls != 0));
        if (calls != 0) {
            CHECK(events_of(own(child, ".json")).size() == 3);
            CHECK(field(calls_of(own(child, ".yaml")).at(0), "calls") == "3");
        }
    }
    host.close();
    CHECK(events_of(own(::getpid(), ".json")).size() == 1);
    CHECK(field(calls_of(own(::getpid(), ".yaml")).at(0), "calls") == "1");
}
#endif

TEST_CASE("calls on a device have the device's own time") {
    const Folder folder;
    {
        HostWithFake with(folder.both());
        Made &made = with.add("default.fake", 1);
        made.work = [&](const opdock_problem &, const opdock_call &call) -> opdock_status {
            with.fake.clock += call.stream == &with.fake.clock ? 50 : 0;
            return OPDOCK_OK;
        };
        FakeRows rows;
        for (int i = 0; i < 3; ++i) {
            CHECK(rows.call(with.host.op(), &with.fake.clock) == OPDOCK_OK);
        }
        with.fake.captured = &with.fake.clock; // its events would become part of the graph
        CHECK(rows.call(with.host.op(), &with.fake.clock) == OPDOCK_OK);
        with.fake.captured = nullptr;
        made.status = OPDOCK_FAILED;
        with.host.close();
        CHECK(with.fake.device_events == 0); // all were destroyed
    }
    const json events = events_of(folder.trace);
    REQUIRE(events.size() == 4);
    for (size_t i = 0; i < 3; ++i) {
        CHECK(events[i].at("args").at("device") == "fake:0");
        CHECK(events[i].at("args").at("device_us") == doctest::Approx(50));
    }
    CHECK_FALSE(events[3].at("args").contains("device_us"));
    CHECK(field(calls_of(folder.record).at(0), "microseconds") == "50.000");
    CHECK(field(calls_of(folder.record).at(0), "calls") == "4");
}

TEST_CASE("latencies are of one call in a thousand") {
    const Folder folder;
    MadeHost host(core::RawEnvironment{{"PLUGIN_RECORD", folder.record}});
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    for (int i = 0; i < 3001; ++i) {
        (void)rows.call(host.op());
    }
    const std::vector<core::Latency> latencies = host->observer()->latencies();
    REQUIRE(latencies.size() == 1);
    CHECK(latencies[0].op == "test.add");
    CHECK(latencies[0].impl_id == "default.one");
    uint64_t samples = 0;
    for (const uint64_t count : latencies[0].counts) {
        samples += count;
    }
    CHECK(samples == 3);
}

TEST_CASE("threads that call at once are each in the trace") {
    const Folder folder;
    constexpr int threads = 4, each = 2000;
    {
        MadeHost host(core::RawEnvironment{{"PLUGIN_TRACE", folder.trace}});
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        std::vector<std::thread> running;
        for (int t = 0; t < threads; ++t) {
            running.emplace_back([&] {
                Rows rows;
                for (int i = 0; i < each; ++i) {
                    (void)rows.call(host.op());
                }
            });
        }
        for (std::thread &thread : running) {
            thread.join();
        }
    }
    std::map<int64_t, int> counts;
    for (const json &event : events_of(folder.trace)) {
        ++counts[event.at("tid").get<int64_t>()];
    }
    CHECK(counts.size() == threads);
    for (const auto &[thread, count] : counts) {
        CHECK(count == each);
    }
}

TEST_CASE("a process that exits without closing its host leaves both files, too") {
    const Folder folder;
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        static auto *const host = new MadeHost(folder.both()); // never destroyed
        host->add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        for (int i = 0; i < 3000; ++i) {
            (void)rows.call(host->op());
        }
        std::exit(0); // NOLINT(concurrency-mt-unsafe): the child has one thread
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(events_of(folder.trace).size() == 3000);
    CHECK(std::stoi(field(calls_of(folder.record).at(0), "calls")) > 2900);
    CHECK(folder.files() == 2);
}

TEST_CASE("latencies are part of the metrics") {
    const Folder folder;
    const std::string metrics = folder.path() / "metrics";
    {
        MadeHost host(core::RawEnvironment{{"PLUGIN_METRICS", metrics}});
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        Rows rows;
        for (int i = 0; i < 2; ++i) {
            CHECK(rows.added(host.op()) == 1);
        }
    }
    CHECK(contains(bytes_of(metrics), "opdock_call_seconds_count{op=\"test.add\",implementation=\"default.one\","
                                      "device=\"cpu:0\",clock=\"host\"} 1\n"));
    CHECK(folder.files() == 1);
}
