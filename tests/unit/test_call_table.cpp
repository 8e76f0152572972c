#include "observe/call_table.hpp"

#include <thread>

#include <doctest/doctest.h>

#include "observe/record_text.hpp"
#include "text/bounded_yaml.hpp"

using namespace opdock;
using core::CallTable;
using core::CallText;
using core::CountedCall;

namespace {

CallText text_of(const std::string &op, int64_t rows) {
    CallText text;
    text.op = op;
    text.impl_id = "default.cpu";
    text.device = "cpu:0";
    text.inputs.push_back({"input", "f32[" + std::to_string(rows) + ",8]", {}, false});
    return text;
}

CountedCall &find(CallTable &table, CallText text) {
    return table.find(std::move(text), [](CountedCall &) {});
}

// Adds one call that took that long.
void call(CallTable &table, CallText text, uint64_t nanoseconds) {
    CountedCall &counted = find(table, std::move(text));
    counted.add_host_time(counted.calls.fetch_add(1), nanoseconds);
}

core::YamlNode parsed(const CallTable &table) {
    return core::parse_bounded_yaml(core::record_text(table.by_time()), "record", OPDOCK_INVALID_ARGUMENT);
}

std::string field(const core::YamlNode &map, const std::string &name) {
    for (const auto &[key, value] : map.entries) {
        if (key.text == name) {
            return value.text;
        }
    }
    return "absent";
}

const core::YamlNode &node(const core::YamlNode &map, const std::string &name) {
    for (const auto &[key, value] : map.entries) {
        if (key.text == name) {
            return value;
        }
    }
    throw std::logic_error(name + " is absent");
}

} // namespace

TEST_CASE("the same call is one entry, another shape, implementation or config is another") {
    CallTable table(100);
    CountedCall &one = find(table, text_of("gelu", 1));
    CHECK(&find(table, text_of("gelu", 1)) == &one);
    CHECK(&find(table, text_of("gelu", 2)) != &one);
    CHECK(&find(table, text_of("silu", 1)) != &one);
    CallText other = text_of("gelu", 1);
    other.impl_id = "vendor.acme";
    CHECK(&find(table, other) != &one);
    other = text_of("gelu", 1);
    other.config = "BLOCK=8";
    CHECK(&find(table, other) != &one);
    other = text_of("gelu", 1);
    other.inputs[0].strides = {1, 1};
    CHECK(&find(table, other) != &one);
}

TEST_CASE("a full table counts all other calls of an implementation as one") {
    CallTable table(2);
    for (int64_t rows = 1; rows <= 10; ++rows) {
        call(table, text_of("gelu", rows), 100);
    }
    call(table, text_of("silu", 1), 100);
    CHECK(find(table, text_of("gelu", 2)).is_described);
    CHECK(find(table, text_of("gelu", 2)).calls == 1);
    CHECK_FALSE(find(table, text_of("gelu", 7)).is_described);
    CHECK(find(table, text_of("gelu", 7)).calls == 8);
    CHECK(find(table, text_of("silu", 1)).calls == 1);
    CHECK(table.by_time().size() == 4);
    const std::string record = core::record_text(table.by_time());
    CHECK(record.find("no room for 2 distinct calls more, 81.8 % of the time") != std::string::npos);
    CHECK(parsed(table).items.size() == 2);
}

TEST_CASE("threads that count the same call lose none, whether each has a counter or all share one") {
    for (const bool share : {false, true}) {
        CAPTURE(share);
        CallTable table(10);
        CountedCall &counted = find(table, text_of("gelu", 1));
        std::atomic<uint64_t> shared{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                std::atomic<uint64_t> own{0};
                for (int i = 0; i < 10'000; ++i) {
                    const uint64_t number = counted.count(share ? shared : own);
                    if (CountedCall::is_sampled(number)) {
                        counted.add_host_time(number, 1000);
                    }
                }
                counted.count_rest(own);
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        counted.count_rest(shared);
        CHECK(counted.calls == 40'000);
        CHECK(counted.host.count == 40);
        CHECK(counted.host.mean() == 1000);
        const std::vector<core::Latency> latencies = table.latencies();
        REQUIRE(latencies.size() == 1);
        CHECK(latencies[0].op == "gelu");
        CHECK(latencies[0].impl_id == "default.cpu");
        CHECK_FALSE(latencies[0].on_device);
        CHECK(latencies[0].counts.at(core::latency_bucket(1000)) == 40);
        CHECK(latencies[0].sum == 40'000);
    }
}

TEST_CASE("of an attempt's calls few are untold at any time, and of its first ones none") {
    CallTable table(10);
    CountedCall &counted = find(table, text_of("gelu", 1));
    std::atomic<uint64_t> counter{0};
    for (uint64_t calls = 1; calls <= 5000; ++calls) {
        CHECK(counted.count(counter) == calls - 1);
        CHECK(counted.calls <= calls);
        CHECK(calls - counted.calls < (calls <= CountedCall::told_singly ? 1 : CountedCall::told_together));
    }
    counted.count_rest(counter);
    CHECK(counted.calls == 5000);
}

TEST_CASE("buckets of latencies hold what is at most their bound") {
    CHECK(core::latency_bucket(0) == 0);
    CHECK(core::latency_bucket(256) == 0);
    CHECK(core::latency_bucket(257) == 1);
    CHECK(core::latency_bucket(core::latency_bound(core::n_latency_bounds - 1)) == core::n_latency_bounds - 1);
    CHECK(core::latency_bucket(UINT64_MAX) == core::n_latency_bounds);
}

TEST_CASE("a first call that is slow does not stand for those after it") {
    CallTable table(10);
    CountedCall &counted = find(table, text_of("gelu", 1));
    counted.calls = 2;
    counted.add_host_time(0, 1'000'000);
    CHECK(counted.host.mean() == 1'000'000); // the only call so far
    counted.add_host_time(1, 1000);
    CHECK(counted.host.mean() == 1000);
    CHECK(table.latencies().at(0).sum == 1000);
}

TEST_CASE("a record has the calls that took most time first, by the device's clock where there is one") {
    CallTable table(10);
    call(table, text_of("gelu", 1), 1000);
    call(table, text_of("silu", 1), 3000);
    CountedCall &launched = find(table, text_of("relu", 1));
    launched.calls = 1;
    launched.add_host_time(0, 10);
    launched.add_device_time(0, 6000);
    const core::YamlNode record = parsed(table);
    REQUIRE(record.items.size() == 3);
    CHECK(field(record.items[0], "op") == "relu");
    CHECK(field(record.items[0], "share") == "0.6000");
    CHECK(field(record.items[0], "microseconds") == "6.000");
    CHECK(field(record.items[1], "op") == "silu");
    CHECK(field(record.items[1], "calls") == "1");
    CHECK(field(record.items[2], "op") == "gelu");
    CHECK(field(record.items[2], "served_by") == "default.cpu");
    CHECK(field(record.items[2], "device") == "cpu:0");
}

TEST_CASE("a record keeps quotes, lists, strides, attributes and optional outputs") {
    CallTable table(10);
    CallText text;
    text.op = "op \"quoted\" 'twice': - #";
    text.impl_id = "vendor.acme";
    text.device = "fake:1";
    text.config = "MODE=\"a\\b\"";
    text.inputs = {{"weights", "f32[2]", {}, true}, {"weights", "f32[3]", {2}, true}, {"x", "f32[2,3]", {1, 2}, false}};
    text.attributes = {{"name", "a: \"b\"\n- c"}, {"dims", "[1,2]"}};
    text.wanted_outputs = {"rsigma"};
    call(table, text, 1);
    const core::YamlNode one = parsed(table).items.at(0);
    CHECK(field(one, "op") == text.op);
    CHECK(field(one, "config") == text.config);
    CHECK(node(node(one, "inputs"), "weights").items.at(1).text == "f32[3]");
    CHECK(field(node(one, "inputs"), "x") == "f32[2,3]");
    CHECK(node(node(one, "strides"), "weights").items.at(0).text == "packed");
    CHECK(node(node(one, "strides"), "weights").items.at(1).text == "[2]");
    CHECK(field(node(one, "strides"), "x") == "[1,2]");
    CHECK(field(node(one, "attributes"), "name") == "a: \"b\"\\x0a- c");
    CHECK(node(one, "outputs").items.at(0).text == "rsigma");
}

TEST_CASE("a record of very many calls is one that its readers take") {
    CallTable table(100'000);
    for (int64_t rows = 0; rows < 20'000; ++rows) {
        call(table, text_of("gelu", rows), static_cast<uint64_t>(rows) + 1);
    }
    const core::YamlNode record = parsed(table);
    CHECK(record.items.size() > 200);
    CHECK(field(node(record.items[0], "inputs"), "input") == "f32[19999,8]"); // took the most time
}

TEST_CASE("a record of no calls is an empty list") {
    CHECK(parsed(CallTable(1)).items.empty());
}
