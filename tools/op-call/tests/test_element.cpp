#include "op-call/element.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "opdock/abi/dtype.h"

using namespace opdock::op_call;

static double round_trip(uint32_t dtype, double value) {
    std::array<std::byte, 24> memory{};
    store_element(dtype, memory.data(), 1, value);
    return load_element(dtype, memory.data(), 1);
}

TEST_CASE("every dtype keeps small whole numbers") {
    for (const uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16, OPDOCK_E4M3, OPDOCK_E5M2, OPDOCK_I64, OPDOCK_I32,
                                 OPDOCK_U8, OPDOCK_BOOL}) {
        INFO(dtype);
        CHECK(round_trip(dtype, 0) == 0);
        CHECK(round_trip(dtype, 1) == 1);
    }
    CHECK(round_trip(OPDOCK_I64, -5e9) == -5e9);
    CHECK(round_trip(OPDOCK_I32, -7) == -7);
    CHECK(round_trip(OPDOCK_U8, 255) == 255);
}

TEST_CASE("many elements are loaded and stored as one is") {
    const std::vector<double> values = {0, 1, 3, 5, 100};
    for (const uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16, OPDOCK_E4M3, OPDOCK_E5M2, OPDOCK_I64, OPDOCK_I32,
                                 OPDOCK_U8, OPDOCK_BOOL}) {
        CAPTURE(dtype);
        std::array<std::byte, 40> all{}, single{};
        store_elements(dtype, all.data(), values);
        for (size_t i = 0; i < values.size(); ++i) {
            store_element(dtype, single.data(), i, values[i]);
        }
        CHECK(all == single);
        const std::vector<double> loaded = load_elements(dtype, all.data(), values.size());
        for (size_t i = 0; i < values.size(); ++i) {
            CHECK(loaded[i] == load_element(dtype, single.data(), i));
        }
    }
}

TEST_CASE("fp8 encodes every value it decodes") {
    for (const uint32_t dtype : {OPDOCK_E4M3, OPDOCK_E5M2}) {
        for (int bits = 0; bits < 256; ++bits) {
            std::byte byte{static_cast<unsigned char>(bits)};
            const double value = load_element(dtype, &byte, 0);
            if (std::isfinite(value)) {
                std::byte again{};
                store_element(dtype, &again, 0, value);
                INFO(dtype, " ", bits);
                CHECK(again == byte);
            }
        }
    }
}

TEST_CASE("fp8 has the values of the formats' tables") {
    CHECK(round_trip(OPDOCK_E4M3, 448) == 448);
    CHECK(round_trip(OPDOCK_E4M3, 0x1p-9) == 0x1p-9); // the smallest
    CHECK(round_trip(OPDOCK_E5M2, 57344) == 57344);
    CHECK(round_trip(OPDOCK_E5M2, 0x1p-16) == 0x1p-16);
    const std::byte infinity{0x7c};
    CHECK(load_element(OPDOCK_E5M2, &infinity, 0) == std::numeric_limits<double>::infinity());
    const std::byte nan{0x7f};
    CHECK(std::isnan(load_element(OPDOCK_E4M3, &nan, 0)));
    CHECK(std::isnan(load_element(OPDOCK_E5M2, &nan, 0)));
}

TEST_CASE("fp8 rounds to nearest even, carries, and saturates") {
    CHECK(round_trip(OPDOCK_E4M3, 17) == 16); // between 16 and 18
    CHECK(round_trip(OPDOCK_E4M3, 19) == 20); // between 18 and 20
    CHECK(round_trip(OPDOCK_E4M3, 31.9) == 32);
    CHECK(round_trip(OPDOCK_E4M3, 1e6) == 448);
    CHECK(round_trip(OPDOCK_E4M3, -1e6) == -448);
    CHECK(round_trip(OPDOCK_E5M2, std::numeric_limits<double>::infinity()) == 57344);
    CHECK(std::isnan(round_trip(OPDOCK_E4M3, std::numeric_limits<double>::quiet_NaN())));
    CHECK(round_trip(OPDOCK_E4M3, 1e-9) == 0);
}
