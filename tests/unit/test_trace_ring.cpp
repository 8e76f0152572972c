#include "observe/trace_ring.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "observe/trace_file.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::Trace;
using core::TraceCursor;
using core::TraceRing;

namespace {

constexpr core::TraceSize small{64, 4096};

std::string bytes_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

struct Written {
    explicit Written(core::TraceSize size = small) : ring(directory.path() / "trace.ring", size) {}

    Trace read() const { return core::read_trace(bytes_of(ring.path()), "trace"); }

    TemporaryDirectory directory;
    TraceRing ring;
};

} // namespace

TEST_CASE("a call that was written is read back with its texts, its times and its thread") {
    Written written;
    const uint32_t call = written.ring.describe({"gelu", "default.cpu", "cpu:0", "input=f32[2,3]", "BLOCK=8"});
    TraceCursor cursor;
    const uint64_t begin = core::ticks();
    written.ring.add(cursor, call, begin, begin + 1000, OPDOCK_OK);
    const Trace trace = written.read();
    REQUIRE(trace.events.size() == 1);
    const core::TraceEvent &event = trace.events.front();
    CHECK(trace.calls.at(event.call).op == "gelu");
    CHECK(trace.calls.at(event.call).impl_id == "default.cpu");
    CHECK(trace.calls.at(event.call).device == "cpu:0");
    CHECK(trace.calls.at(event.call).arguments == "input=f32[2,3]");
    CHECK(trace.calls.at(event.call).config == "BLOCK=8");
    CHECK(event.thread == static_cast<uint32_t>(::gettid()));
    CHECK(event.duration == doctest::Approx(1000 * written.ring.clock().nanoseconds_per_tick() / 1000).epsilon(0.01));
    CHECK(event.device_time < 0);
    CHECK(trace.process == static_cast<uint64_t>(::getpid()));
    CHECK(trace.overwritten == 0);
    CHECK(trace.broken == 0);
}

TEST_CASE("what a device says of a call belongs to that call, and is dropped when a later one has its place") {
    Written written;
    TraceCursor cursor;
    written.ring.add(cursor, 0, 1, 2, OPDOCK_OK);
    const uint64_t first = TraceRing::number_of_last(cursor);
    written.ring.set_device_time(first, 1500);
    CHECK(written.read().events.at(0).device_time == 1.5);
    for (uint64_t i = 0; i < small.records; ++i) {
        written.ring.add(cursor, 0, 10 + i, 11 + i, OPDOCK_OK);
    }
    written.ring.set_device_time(first, 1500);
    for (const core::TraceEvent &event : written.read().events) {
        CHECK(event.device_time < 0);
    }
}

TEST_CASE("the latest calls are kept, and those they took the place of are counted") {
    Written written;
    TraceCursor cursor;
    const uint64_t start = written.ring.clock().start_ticks();
    for (uint64_t i = 0; i < 1000; ++i) {
        written.ring.add(cursor, 0, start + i, start + i + 1, OPDOCK_OK);
    }
    const Trace trace = written.read();
    CHECK(trace.broken == 0);
    REQUIRE(trace.events.size() >= small.records - TraceRing::chunk);
    CHECK(trace.overwritten + trace.events.size() >= 1000);
    CHECK(trace.overwritten < 1000);
    // In the order in which they began.
    const auto by_begin = [](const core::TraceEvent &a, const core::TraceEvent &b) { return a.begin < b.begin; };
    CHECK(std::is_sorted(trace.events.begin(), trace.events.end(), by_begin));
}

TEST_CASE("calls of several threads do not mix, whether or not they fit") {
    for (const uint64_t records : {uint64_t{64}, uint64_t{1} << 15U}) {
        CAPTURE(records);
        Written written({records, 4096});
        constexpr uint64_t threads = 4, each = 5000;
        std::vector<std::thread> running;
        for (uint64_t t = 0; t < threads; ++t) {
            running.emplace_back([&, t] {
                TraceCursor cursor;
                for (uint64_t i = 0; i < each; ++i) {
                    written.ring.add(cursor, 0, 1000 * t, 1000 * t + t, static_cast<int32_t>(t)); // duration is its own
                }
            });
        }
        for (std::thread &thread : running) {
            thread.join();
        }
        const Trace trace = written.read();
        std::map<int32_t, uint64_t> counts;
        for (const core::TraceEvent &event : trace.events) {
            ++counts[event.status];
            CHECK(event.duration ==
                  doctest::Approx(written.ring.clock().nanoseconds_per_tick() * event.status / 1000).epsilon(0.05));
        }
        CHECK(trace.broken == 0);
        if (records > threads * each) {
            for (int32_t t = 0; t < static_cast<int32_t>(threads); ++t) {
                CHECK(counts[t] == each);
            }
        }
    }
}

TEST_CASE("calls that there is no room to describe are still in the trace") {
    Written written;
    uint32_t last = 0;
    int described = 0;
    while ((last = written.ring.describe({"op", "impl", "cpu:0", std::string(200, 'x'), ""})) !=
           core::undescribed_call) {
        ++described;
    }
    CHECK(described > 10);
    TraceCursor cursor;
    written.ring.add(cursor, last, 1, 2, OPDOCK_OK);
    const Trace trace = written.read();
    CHECK(trace.calls.at(trace.events.at(0).call).op.empty());
    CHECK(nlohmann::json::parse(core::chrome_json(trace)).at("traceEvents").at(0).at("name") == "other calls");
}

TEST_CASE("Chrome's JSON holds any text, and says what failed and how much is missing") {
    Written written;
    const std::string odd = "name=\"a\\b\" \xff \n </script> \xe2\x80\xae";
    const uint32_t call = written.ring.describe({"op'\"", "impl", "fake:0", odd, ""});
    TraceCursor cursor;
    written.ring.add(cursor, call, 1, 2, OPDOCK_OK);
    written.ring.set_device_time(TraceRing::number_of_last(cursor), 2500);
    written.ring.add(cursor, call, 3, 4, OPDOCK_FAILED);
    const nlohmann::json document = nlohmann::json::parse(core::chrome_json(written.read()));
    const nlohmann::json &events = document.at("traceEvents");
    REQUIRE(events.size() == 2);
    CHECK(events[0].at("ph") == "X");
    CHECK(events[0].at("name") == "op'\"");
    CHECK(events[0].at("args").at("implementation") == "impl");
    CHECK(events[0].at("args").at("device") == "fake:0");
    CHECK(events[0].at("args").at("device_us") == 2.5);
    CHECK_FALSE(events[0].at("args").contains("status"));
    CHECK(events[0].at("args").at("call").get<std::string>().find("</script>") != std::string::npos);
    CHECK(events[1].at("args").at("status") == "FAILED");
    CHECK(document.at("otherData").at("overwritten") == 0);
}

TEST_CASE("a trace without calls is valid JSON") {
    const Written written;
    CHECK(nlohmann::json::parse(core::chrome_json(written.read())).at("traceEvents").empty());
}

TEST_CASE("damaged and cut traces are refused or read as far as they hold together") {
    const uint64_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Written written;
    const uint32_t call = written.ring.describe({"gelu", "default.cpu", "cpu:0", "input=f32[2,3]", ""});
    TraceCursor cursor;
    for (uint64_t i = 0; i < small.records; ++i) {
        written.ring.add(cursor, call, 100 + i, 200 + i, OPDOCK_OK);
    }
    const std::string whole = bytes_of(written.ring.path());
    const auto is_read_or_refused = [](const std::string &bytes) {
        try {
            const Trace trace = core::read_trace(bytes, "trace");
            return nlohmann::json::accept(core::chrome_json(trace));
        } catch (const core::Error &error) {
            return std::string(error.what()).starts_with("trace: ");
        }
    };
    for (size_t i = 0; i < 300; ++i) {
        CHECK(is_read_or_refused(whole.substr(0, random() % whole.size())));
        std::string changed = whole;
        for (size_t bytes = 1 + random() % 8; bytes > 0; --bytes) {
            const size_t area = random() % 2 == 0 ? sizeof(core::TraceHeader) : changed.size();
            changed[random() % area] = static_cast<char>(random());
        }
        CHECK(is_read_or_refused(changed));
    }
    std::string slow = whole; // a clock so slow that times would not be finite
    const double rate = 1e300;
    std::memcpy(&slow[offsetof(core::TraceHeader, nanoseconds_per_tick)], &rate, sizeof rate);
    CHECK(is_read_or_refused(slow));
    std::string torn = whole;
    torn[core::trace_header_bytes + offsetof(core::TraceRecord, duration)] ^= 1;
    const Trace trace = core::read_trace(torn, "trace");
    CHECK(trace.broken == 1);
    CHECK(trace.events.size() == small.records - 1);
    CHECK(message_of([] { (void)core::read_trace("", "empty"); }) ==
          "empty: expected a trace that an opdock host was writing");
}

TEST_CASE("a trace does not take the place of another file, of another trace's, or of what cannot be written") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "trace.ring";
    CHECK(message_of([&] { TraceRing(directory.path() / "absent" / "trace.ring", small); }).find("cannot be created") !=
          std::string::npos);
    CHECK(message_of([&] { TraceRing(directory.path(), small); }).find("cannot be created") != std::string::npos);
    directory.write("notes.ring", "shopping list");
    CHECK(message_of([&] { TraceRing(directory.path() / "notes.ring", small); }).find("is not a trace") !=
          std::string::npos);
    CHECK(bytes_of(directory.path() / "notes.ring") == "shopping list");
    {
        TraceRing first(path, small);
        CHECK(message_of([&] { TraceRing(path, small); }).find("put %p in the name") != std::string::npos);
    }
    TraceRing again(path, small); // left by a process that was killed
    again.remove();
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a file that may not have all its bytes is an error at once, and no signal later") {
    const TemporaryDirectory directory;
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_DFL);
        const rlimit limit = {64 << 10, 64 << 10};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const std::string path = directory.path() / "trace.ring";
        bool is_told = false;
        try {
            const TraceRing ring(path, {1 << 16, 4096});
        } catch (const core::Error &error) {
            is_told = std::string(error.what()).find("cannot have") != std::string::npos;
        }
        ::_exit(is_told ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("a forked child leaves the file to its parent, and may have one of its own") {
    Written written;
    const uint32_t call = written.ring.describe({"gelu", "default.cpu", "cpu:0", "input=f32[2,3]", ""});
    TraceCursor cursor;
    written.ring.add(cursor, call, 100, 101, OPDOCK_OK);
    const std::string before = bytes_of(written.ring.path());
    const std::string own = written.directory.path() / "child.ring";
    const pid_t child = ::fork();
    if (child == 0) {
        written.ring.leave_to_parent();
        written.ring.add(cursor, call, 200, 201, OPDOCK_OK);
        written.ring.move_to(own);
        written.ring.add(cursor, call, 300, 301, OPDOCK_OK);
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    CHECK(bytes_of(written.ring.path()) == before);
    const Trace trace = core::read_trace(bytes_of(own), own);
    CHECK(trace.process == static_cast<uint64_t>(child));
    REQUIRE(trace.events.size() == 1);
    CHECK(trace.calls.at(trace.events[0].call).op == "gelu");
    written.ring.add(cursor, call, 400, 401, OPDOCK_OK); // the parent continues
    CHECK(written.read().events.size() == 2);
}
