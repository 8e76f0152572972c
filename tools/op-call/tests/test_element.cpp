#include "op-call/element.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "opdock/cpp/dtype.hpp"

using namespace opdock::op_call;

static double round_trip(uint32_t dtype, double value) {
    std::array<std::byte, 24> memory{};
    store_element(dtype, memory.data(), 1, value);
    return load_element(dtype, memory.data(), 1);
}

TEST_CASE("every dtype keeps small whole numbers") {
    for (const opdock::NamedDtype &known : opdock::named_dtypes) {
        INFO(known.name);
        CHECK(round_trip(known.packed, 0) == (known.packed == OPDOCK_E8M0 ? 0x1p-127 : 0)); // it has no zero
        CHECK(round_trip(known.packed, 1) == 1);
    }
    CHECK(round_trip(OPDOCK_I64, -5e9) == -5e9);
    CHECK(round_trip(OPDOCK_I32, -7) == -7);
    CHECK(round_trip(OPDOCK_U8, 255) == 255);
    CHECK(round_trip(OPDOCK_I8, -128) == -128);
    CHECK(round_trip(OPDOCK_I4X2, -8) == -8);
    CHECK(round_trip(OPDOCK_I16, -32768) == -32768);
    CHECK(round_trip(OPDOCK_U16, 65535) == 65535);
    CHECK(round_trip(OPDOCK_U32, 0x1p32 - 1) == 0x1p32 - 1);
    CHECK(round_trip(OPDOCK_U64, 0x1p63) == 0x1p63);
    CHECK(round_trip(OPDOCK_F64, 1e300) == 1e300);
}

TEST_CASE("e8m0 keeps powers of two, and takes the nearest of what is between") {
    for (const double value : {0x1p-127, 0x1p-1, 4.0, 0x1p127}) {
        CHECK(round_trip(OPDOCK_E8M0, value) == value);
    }
    CHECK(round_trip(OPDOCK_E8M0, 5) == 4);
    CHECK(round_trip(OPDOCK_E8M0, 7) == 8);
    CHECK(round_trip(OPDOCK_E8M0, -3) == 0x1p-127);
    CHECK(round_trip(OPDOCK_E8M0, 1e300) == 0x1p127);
    CHECK(std::isnan(round_trip(OPDOCK_E8M0, NAN)));
}

TEST_CASE("a pair of 4-bit values is one byte, its first value in the low bits") {
    std::array<std::byte, 2> bytes{};
    store_elements(OPDOCK_I4X2, bytes.data(), std::array{-1.0, 3.0, 7.0, -8.0});
    CHECK(bytes == std::array{std::byte{0x3f}, std::byte{0x87}});
    CHECK(load_elements(OPDOCK_I4X2, bytes.data(), 4) == std::vector<double>{-1, 3, 7, -8});
    CHECK(load_elements(OPDOCK_U4X2, bytes.data(), 4) == std::vector<double>{15, 3, 7, 8});
    CHECK(load_elements(OPDOCK_E2M1X2, bytes.data(), 4) == std::vector<double>{-6, 1.5, 6, 0});
    CHECK(integers_of(OPDOCK_I4X2) == std::pair(-8.0, 8.0));
    CHECK(integers_of(OPDOCK_U4X2) == std::pair(0.0, 16.0));
    store_element(OPDOCK_U4X2, bytes.data(), 2, 1);
    CHECK(bytes == std::array{std::byte{0x3f}, std::byte{0x81}});
}

TEST_CASE("e2m1 has eight magnitudes, rounds to nearest even, and saturates") {
    for (const double value : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}) {
        CHECK(round_trip(OPDOCK_E2M1X2, value) == value);
        CHECK(round_trip(OPDOCK_E2M1X2, -value) == -value);
    }
    CHECK(round_trip(OPDOCK_E2M1X2, 0.25) == 0);
    CHECK(round_trip(OPDOCK_E2M1X2, 2.5) == 2);
    CHECK(round_trip(OPDOCK_E2M1X2, 3.5) == 4);
    CHECK(round_trip(OPDOCK_E2M1X2, 5) == 4);
    CHECK(round_trip(OPDOCK_E2M1X2, -1e6) == -6);
}

TEST_CASE("the whole numbers of a dtype are told as far as a double is exact") {
    CHECK(integers_of(OPDOCK_BOOL) == std::pair(0.0, 2.0));
    CHECK(integers_of(OPDOCK_U8) == std::pair(0.0, 0x1p8));
    CHECK(integers_of(OPDOCK_I8) == std::pair(-0x1p7, 0x1p7));
    CHECK(integers_of(OPDOCK_I32) == std::pair(-0x1p31, 0x1p31));
    CHECK(integers_of(OPDOCK_U64) == std::pair(0.0, 0x1p53));
    CHECK(is_integer(OPDOCK_U16));
    CHECK_FALSE(is_integer(OPDOCK_E8M0));
    CHECK_FALSE(is_integer(OPDOCK_F64));
}

TEST_CASE("many elements are loaded and stored as one is") {
    const std::vector<double> values = {0, 1, 3, 5, 4};
    for (const opdock::NamedDtype &known : opdock::named_dtypes) {
        const uint32_t dtype = known.packed;
        CAPTURE(known.name);
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
