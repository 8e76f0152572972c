// Memory that a host keeps is bounded, whatever its callers make up.
#include "host/host.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <malloc.h>
#include <nlohmann/json.hpp>

#include "made_host.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPDOCK_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPDOCK_TEST_SANITIZED 1
#endif
#endif
#ifdef OPDOCK_TEST_SANITIZED
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

using namespace opdock;
using namespace opdock::test;

namespace {

// Bytes that are currently allocated.
int64_t heap_bytes() {
#ifdef OPDOCK_TEST_SANITIZED
    return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
    const struct mallinfo2 heap = mallinfo2();
    return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
#endif
}

// Growth in allocated bytes over `times` runs, after as many runs before.
template<class Work>
int64_t growth(int times, Work work) {
    for (int i = 0; i < times; ++i) {
        work(i);
    }
    const int64_t before = heap_bytes();
    for (int i = 0; i < times; ++i) {
        work(times + i);
    }
    return heap_bytes() - before;
}

const core::RawEnvironment quiet = {{"PLUGIN_LOG_LEVEL", "ERROR"}}; // the test keeps everything that is logged

// Different policies that only name things that exist.
class ManyPolicies {
  public:
    std::string next() {
        if (!std::next_permutation(first_.begin(), first_.end())) {
            std::next_permutation(second_.begin(), second_.end());
        }
        return "test.add=" + text(first_) + ";test.update=" + text(second_);
    }
    // The amount added by the implementation that the latest policy tries first.
    float first() const {
        static constexpr std::array<float, 5> adds = {1, 2, 3, 1, 2};
        return adds[static_cast<size_t>(first_[0])];
    }

  private:
    static constexpr std::array<const char *, 5> tokens = {"default", "vendor", "reference", "impl:default.one",
                                                           "vendor:acme"};
    static std::string text(const std::array<int, 5> &order) {
        std::string text;
        for (const int token : order) {
            text += (text.empty() ? "" : "|") + std::string(tokens[static_cast<size_t>(token)]);
        }
        return text;
    }
    std::array<int, 5> first_ = {0, 1, 2, 3, 4};
    std::array<int, 5> second_ = {0, 1, 2, 3, 4};
};

} // namespace

TEST_CASE("resetting health and refreshing availability change nothing where nothing changed") {
    MadeHost host(quiet);
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    static std::atomic<bool> is_there{true};
    auto picky = std::make_unique<Made>("default.zzz", OPDOCK_KIND_DEFAULT, "", 7.0f);
    picky->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *table, void *, DLDevice) {
            return is_there ? OPDOCK_OK : table->fail(table, OPDOCK_UNSUPPORTED, "it went away");
        };
    };
    host.add(std::move(picky));
    Rows rows;
    CHECK(rows.added(host.op()) == 7);
    const uint64_t generation = host->generation();
    CHECK(growth(1000, [&](int) {
              host->reset_health(nullptr, nullptr);
              host->refresh_availability();
              CHECK(rows.added(host.op()) == 7);
          }) < 4096);
    CHECK(host->generation() == generation);

    is_there = false;
    host->refresh_availability();
    CHECK(host->generation() != generation);
    CHECK(rows.added(host.op()) == 1);
    one.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.added(host.op()) == 3);
    }
    one.status = OPDOCK_OK;
    CHECK(rows.added(host.op()) == 3);
    const uint64_t without_one = host->generation();
    host->reset_health("test.add", "default.one");
    CHECK(host->generation() != without_one);
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("a host that cannot be opened leaves nothing behind") {
    core::RawEnvironment environment = quiet;
    environment["PLUGIN_STRICT"] = "1";
    environment["PLUGIN_MODULES"] = "/nonexistent/libacme.so";
    const int64_t grown = growth(200, [&](int) { CHECK_THROWS_AS(MadeHost{environment}, core::Error); });
    CHECK(grown < 64 * 1024);
}

TEST_CASE("scopes with policies that a program makes up leave nothing behind") {
    MadeHost host(quiet);
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    ManyPolicies policies;
    Rows rows;
    const int64_t grown = growth(2000, [&](int) {
        host->push_scope(host.policy("per_op", policies.next()));
        CHECK(rows.added(host.op()) == policies.first());
        (void)host.op().prepare({rows.x}, {rows.y});
        host->pop_scope();
    });
    CHECK(grown < 64 * 1024);
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("an op has one target under a policy, until something is resolved for the first time or changes") {
    MadeHost host(quiet);
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    const auto target = [&] { return host->target_under(host->op("test.add"), host->effective_policy()).target->id; };
    Rows rows;
    const auto stays = [&] {
        CHECK(rows.call(host.op()) == OPDOCK_OK);
        const uint64_t now = target();
        CHECK(target() == now);
        CHECK(rows.call(host.op()) == OPDOCK_OK);
        return target() == now;
    };
    CHECK(stays());
    const uint64_t of_process = target();
    host->push_scope(host.policy("prefer", "vendor"));
    CHECK(stays());
    CHECK(target() != of_process);
    host->pop_scope();
    CHECK(target() == of_process);
    host->refresh_availability();
    CHECK(target() == of_process); // nothing has changed
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    CHECK(target() != of_process);
}

TEST_CASE("a scope that stays is served under its policy, however many others come and go") {
    MadeHost host(quiet);
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    host.add("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    host->push_scope(host.policy("prefer", "vendor"));
    CHECK(rows.added(host.op()) == 2);
    const Prepared prepared = host.op().prepare({rows.x}, {rows.y});
    const auto target = [&] { return host->target_under(host->op("test.add"), host->effective_policy()).target->id; };
    const uint64_t before = target();
    ManyPolicies policies;
    for (int i = 0; i < 300; ++i) {
        host->push_scope(host.policy("per_op", policies.next()));
        CHECK(rows.added(host.op()) == policies.first());
        host->pop_scope();
        CHECK(rows.added(host.op()) == 2);
    }
    CHECK(prepared.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(rows.out[0] - rows.in[0] == 2);
    CHECK(target() == before);
    host->pop_scope();
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("the CPU is one device: made-up indices are the caller's mistake and are not remembered") {
    MadeHost host(quiet);
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Rows rows;
    const auto at = [](std::vector<float> &data, int32_t index) {
        return Tensor(data.data(), f32, {2, 3}, DLDevice{kDLCPU, index});
    };
    CHECK(
        growth(2000, [&](int i) {
            const Tensor x = at(rows.in, i + 1), y = at(rows.out, i + 1);
            CHECK(host.op().try_call({x}, {y}) == OPDOCK_INVALID_ARGUMENT);
            CHECK(
                host->explain("test.add", ("cpu:" + std::to_string(i + 1)).c_str(), nullptr, nullptr)["chain"].empty());
        }) < 4096);
    const Tensor x = at(rows.in, 3), y = at(rows.out, 3);
    CHECK(host.op().try_call({x}, {y}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "there is no device cpu:3: CPU memory belongs to cpu:0"));
    const Tensor below = at(rows.in, -1), out = at(rows.out, -1);
    CHECK(host.op().try_call({below}, {out}) == OPDOCK_INVALID_ARGUMENT);
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("devices of a type that nobody counts have indices that machines have") {
    MadeHost host(quiet);
    auto made = std::make_unique<Made>("default.vulkan", OPDOCK_KIND_DEFAULT, "", 1.0f);
    made->device = "vulkan";
    host.add(std::move(made));
    Rows rows;
    const auto call = [&](int32_t index) {
        const DLDevice device{kDLVulkan, index};
        return host.op().try_call({Tensor(rows.in.data(), f32, {2, 3}, device)},
                                  {Tensor(rows.out.data(), f32, {2, 3}, device)});
    };
    CHECK(call(0) == OPDOCK_OK);
    CHECK(call(1023) == OPDOCK_OK);
    for (const int32_t index : {1024, 1 << 30, -1}) {
        CAPTURE(index);
        CHECK(call(index) == OPDOCK_INVALID_ARGUMENT);
        CHECK(contains(last_error(), "no plugin reports devices of this type"));
    }
}

TEST_CASE("a text that the caller gives back costs nothing") {
    MadeHost host(quiet);
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Rows a, b;
    CHECK(growth(1000, [&](int) {
              const std::string text = host.op().explain({a.x}, {b.y}); // this has the library's copy freed
              CHECK(text.size() > 100);
          }) < 10'000);
}
