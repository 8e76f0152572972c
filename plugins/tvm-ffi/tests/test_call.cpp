// Calls of a module's functions through a host: the plugin that plugin-pack made from kernels.yaml, with the
// libtvm_ffi.so that the dynamic loader finds.
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "opdock/opdock.hpp"
#include "tvm_ffi_api.hpp"

namespace {

opdock::Host made_host() {
    setenv("TVM_FFI_TEST_MODULES_ONLY", "1", 1);
    return opdock::Host(
        {.modules = {KERNELS_PLUGIN, NPU_PLUGIN}, .prefix = "TVM_FFI_TEST_", .log = [](int32_t, std::string_view) {}});
}

// The values that acme.look recorded, in its order.
struct Look {
    explicit Look(DLDevice device = {kDLCPU, 0})
        : first(data.data(), opdock::f32, {2, 3, 4}, device), second(more.data(), opdock::f32, {4}, device),
          output(seen.data(), opdock::i64, {64}, device) {}

    opdock_status call(const opdock::Host &host, bool with_second, void *stream = nullptr) {
        const opdock::TensorArg other = with_second ? opdock::TensorArg(second) : opdock::TensorArg(nullptr);
        return host.op("acme.look")
            .try_call({first, other}, {output},
                      {{"count", 12}, {"ratio", 0.25}, {"flag", true}, {"word", "text"}, {"type", opdock::bf16}},
                      stream);
    }

    std::vector<float> data = std::vector<float>(24), more = std::vector<float>(4);
    std::vector<std::int64_t> seen = std::vector<std::int64_t>(64, -1);
    opdock::Tensor first, second, output;
};

std::int64_t bits(double value) {
    return std::bit_cast<std::int64_t>(value);
}

std::int64_t address(const void *pointer) {
    return std::bit_cast<std::int64_t>(pointer);
}

std::string raise(const opdock::Host &host, const char *kind, opdock_status &status) {
    float in = 1, out = 0;
    const opdock::Tensor input(&in, opdock::f32, {1}), output(&out, opdock::f32, {1});
    status = host.op("acme.raise").try_call({input}, {output}, {{"kind", kind}});
    return opdock_last_error();
}

} // namespace

TEST_CASE("a function is called with the tensors themselves, attributes, knobs and constants in the manifest's order") {
    const opdock::Host host = made_host();
    Look look;
    REQUIRE(look.call(host, true) == OPDOCK_OK);
    std::int64_t bf16 = 0;
    std::memcpy(&bf16, &opdock::bf16, sizeof opdock::bf16);
    const std::vector<std::int64_t> expected = {7,
                                                address(look.data.data()),
                                                3,
                                                7,
                                                address(look.more.data()),
                                                1,
                                                1,
                                                12,
                                                3,
                                                bits(0.25),
                                                2,
                                                1,
                                                8,
                                                4,
                                                5,
                                                bf16,
                                                0,
                                                0,
                                                2,
                                                1, // the knob
                                                1,
                                                -7,
                                                3,
                                                bits(0.5),
                                                2,
                                                0,
                                                0,
                                                0,
                                                8,
                                                4, // constants
                                                0,
                                                -1}; // no stream on the CPU, and no more
    CHECK(std::vector(look.seen.begin(), look.seen.begin() + 32) == expected);
}

TEST_CASE("an optional tensor that is absent is None") {
    const opdock::Host host = made_host();
    Look look;
    REQUIRE(look.call(host, false) == OPDOCK_OK);
    CHECK(std::vector(look.seen.begin() + 3, look.seen.begin() + 7) == std::vector<std::int64_t>{0, 0, 1, 12});
}

TEST_CASE("a call's stream is tvm-ffi's current one of its device while the function runs") {
    const opdock::Host host = made_host();
    const DLDevice npu = host.device("npu:1");
    int program = 0, stream = 0;
    Look look(npu);
    REQUIRE(look.call(host, false) == OPDOCK_OK); // opens the library
    void *const library = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != nullptr);
    const auto set =
        reinterpret_cast<decltype(tvm_ffi::Functions::env_set_stream)>(dlsym(library, "TVMFFIEnvSetStream"));
    const auto get = reinterpret_cast<void *(*)(std::int32_t, std::int32_t)>(dlsym(library, "TVMFFIEnvGetStream"));
    REQUIRE(set(npu.device_type, npu.device_id, &program, nullptr) == 0);
    REQUIRE(look.call(host, true, &stream) == OPDOCK_OK);
    CHECK(look.seen[30] == address(&stream));
    CHECK(get(npu.device_type, npu.device_id) == &program);
}

TEST_CASE("dims of '...' are one where the manifest flattens, and what the function is not given is declined") {
    const opdock::Host host = made_host();
    std::vector<float> x(24, 2), w(4, 3), y(24), r(6);
    const opdock::Tensor input(x.data(), opdock::f32, {2, 3, 4}), weight(w.data(), opdock::f32, {4}),
        output(y.data(), opdock::f32, {2, 3, 4}), rsigma(r.data(), opdock::f32, {2, 3});
    const opdock::Op rmsnorm = host.op("rmsnorm_fwd");
    rmsnorm({input, weight}, {output, nullptr}, {{"eps", 0.0}});
    CHECK(y == std::vector<float>(24, 3));
    const opdock::Tensor row(x.data(), opdock::f32, {4}), row_output(y.data(), opdock::f32, {4});
    rmsnorm({row, weight}, {row_output, nullptr}); // a tensor without dims is passed with one dim of size 1
    const opdock::Tensor none(nullptr, opdock::f32, {0, 4});
    rmsnorm({none, weight}, {none, nullptr}); // the function is not called

    const opdock::Tensor three(x.data(), opdock::f32, {2, 3}), three_weight(w.data(), opdock::f32, {3}),
        three_output(y.data(), opdock::f32, {2, 3}), twelve(x.data(), opdock::f32, {12});
    CHECK(rmsnorm.try_call({three, three_weight}, {three_output, nullptr}) == OPDOCK_ALL_FAILED);
    CHECK(std::string(opdock_last_error()).find("rmsnorm only takes calls with n%4 == 0") != std::string::npos);
    const opdock::Tensor twelve_output(y.data(), opdock::f32, {12});
    CHECK(rmsnorm.try_call({twelve, twelve}, {twelve_output, nullptr}) == OPDOCK_ALL_FAILED);
    CHECK(std::string(opdock_last_error()).find("rmsnorm only takes calls with n in 4|8|16*n") != std::string::npos);
    CHECK(rmsnorm.try_call({input, weight}, {output, rsigma}) == OPDOCK_ALL_FAILED);
    CHECK(std::string(opdock_last_error()).find("rmsnorm does not support 'rsigma'") != std::string::npos);
    CHECK(rmsnorm.try_call({input, weight}, {output, nullptr}, {{"zero_centered_gamma", true}}) == OPDOCK_ALL_FAILED);
    CHECK(std::string(opdock_last_error())
              .find("rmsnorm does not support 'zero_centered_gamma' other than the signature's") != std::string::npos);
}

TEST_CASE("an error of a function is a status by its kind, with its message") {
    const opdock::Host host = made_host();
    opdock_status status = OPDOCK_OK;
    for (const char *kind : {"ValueError", "TypeError", "NotImplementedError"}) {
        const std::string message = raise(host, kind, status);
        CHECK(message.find("UNSUPPORTED: raise raised " + std::string(kind) + ": as it was asked") !=
              std::string::npos);
    }
    CHECK(raise(host, "MemoryError", status).find("raise raised MemoryError: as it was asked") != std::string::npos);
    CHECK(status == OPDOCK_OUT_OF_MEMORY);
    CHECK(raise(host, "RuntimeError", status).find("FAILED: raise raised RuntimeError: as it was asked") !=
          std::string::npos);
    CHECK(raise(host, "", status).find("status -1 without an error") != std::string::npos);
}

TEST_CASE("threads call at once, each with its arguments and its stream") {
    const opdock::Host host = made_host();
    const DLDevice npu = host.device("npu:0");
    constexpr int calls = 2000;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            Look look(npu);
            int stream = 0;
            for (int call = 0; call < calls; ++call) {
                look.seen.assign(look.seen.size(), -1);
                const bool is_right = look.call(host, true, &stream) == OPDOCK_OK &&
                                      look.seen[1] == address(look.data.data()) && look.seen[30] == address(&stream);
                wrong += is_right ? 0 : 1;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("a function that the module has not is a reason, and the other functions work") {
    const opdock::Host host = made_host();
    CHECK(host.explain("gelu").find("has no function 'not_there'; it would export the symbol __tvm_ffi_not_there") !=
          std::string::npos);
    std::vector<float> x = {-1, 2}, y(2);
    const opdock::Tensor input(x.data(), opdock::f32, {2}), output(y.data(), opdock::f32, {2});
    host.op("relu")({input}, {output});
    CHECK(y == std::vector<float>{0, 2});
}
