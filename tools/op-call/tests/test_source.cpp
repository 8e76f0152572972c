#include "op-call/source.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "opdock/abi/dtype.h"

using namespace opdock::op_call;
using opdock::cli::UsageError;

TEST_CASE("made-up tensors name their dtype and dims") {
    const auto random = std::get<MadeUp>(parse_source("random:bf16[64,1024]"));
    CHECK(random.kind == MadeUp::Kind::random);
    CHECK(random.dtype == OPDOCK_BF16);
    CHECK(random.shape == std::vector<int64_t>{64, 1024});
    CHECK_FALSE(random.range);
    CHECK(std::get<MadeUp>(parse_source("zeros:u8[0]")).shape == std::vector<int64_t>{0});
    CHECK(std::get<MadeUp>(parse_source("ones:e4m3[]")).shape.empty());
}

TEST_CASE("a range follows the dims") {
    const auto targets = std::get<MadeUp>(parse_source("random:i64[8]:0..100"));
    REQUIRE(targets.range);
    CHECK(targets.range->first == 0.0);
    CHECK(targets.range->second == 100.0);
    const auto values = std::get<MadeUp>(parse_source("random:f32[8]:-1.5..2e3"));
    REQUIRE(values.range);
    CHECK(values.range->first == -1.5);
    CHECK(values.range->second == 2000.0);
}

TEST_CASE("spaced numbers have a first and a last one, which the dtype has") {
    const auto starts = std::get<MadeUp>(parse_source("spaced:i32[9]:0..64"));
    CHECK(starts.kind == MadeUp::Kind::spaced);
    REQUIRE(starts.range);
    CHECK(starts.range->second == 64.0);
    CHECK_FALSE(wants_guess(starts));
    CHECK_NOTHROW(parse_source("spaced:u8[2]:0..255"));
    CHECK_THROWS_WITH_AS(parse_source("spaced:u8[2]:0..256"),
                         "'spaced:u8[2]:0..256': expected a last number that u8 has", UsageError);
    CHECK_THROWS_WITH_AS(parse_source("spaced:i32[9]"),
                         "'spaced:i32[9]': expected the first and the last number, such as spaced:i32[9]:0..100",
                         UsageError);
}

TEST_CASE("random integers without a range are a usage error that shows one") {
    CHECK_THROWS_WITH_AS(parse_source("random:i64[8]"),
                         "'random:i64[8]': expected a range for random integers, such as random:i64[8]:0..100",
                         UsageError);
    CHECK_NOTHROW(parse_source("random:bool[8]"));
}

TEST_CASE("malformed sources are usage errors") {
    for (const char *wrong : {"random:bf16",
                              "random:bf16[64",
                              "random:bf16]64[",
                              "random:bf16[64,]",
                              "random:bf16[,64]",
                              "random:bf16[-1]",
                              "random:bf16[6 4]",
                              "random:bf17[64]",
                              "random:[64]",
                              "random:f32[4]x",
                              "random:f32[4]:",
                              "random:f32[4]:1",
                              "random:f32[4]:2..1",
                              "random:f32[4]:nan..1",
                              "random:f32[4]:0..inf",
                              "random:i64[4]:5..5",
                              "random:i64[4]:0..1.5",
                              "random:u8[4]:0..257",
                              "random:u8[4]:-1..4",
                              "random:i32[4]:0..3000000000",
                              "random:i64[4]:0..1e300",
                              "zeros:f32[4]:0..1",
                              "x.txt",
                              "",
                              ".npy",
                              "x.npy:part",
                              "x.safetensors:",
                              ".safetensors:x"}) {
        INFO(wrong);
        CHECK_THROWS_AS(parse_source(wrong), UsageError);
    }
}

TEST_CASE("files are told by their ends, and a tensor follows the last one") {
    const auto npy = std::get<FilePart>(parse_source("dir/x.npy"));
    CHECK(npy.format == FilePart::Format::npy);
    CHECK(npy.path == "dir/x.npy");
    const auto named = std::get<FilePart>(parse_source("a.safetensors:b/c.safetensors:layer.0:weight"));
    CHECK(named.format == FilePart::Format::safetensors);
    CHECK(named.path == "a.safetensors:b/c.safetensors");
    CHECK(named.tensor == "layer.0:weight");
    CHECK(std::get<FilePart>(parse_source("c.safetensors")).tensor.empty());
    CHECK(std::get<FilePart>(parse_source("./random:f32[4].npy")).path == "./random:f32[4].npy");
}

TEST_CASE("a misspelt dtype is answered with the right one") {
    CHECK_THROWS_WITH_AS(parse_dtype("bf61"), "'bf61' is not a dtype; expected " OPDOCK_DTYPE_NAMES "", UsageError);
}

TEST_CASE("a type reads as it is written") {
    CHECK(type_text(OPDOCK_BF16, {64, 1024}) == "bf16[64,1024]");
    CHECK(type_text(OPDOCK_F32, {}) == "f32[]");
}

TEST_CASE("a dtype and dims are short for random, where shapes are asked for") {
    const auto weights = std::get<MadeUp>(parse_shape_or_source("bf16[64,1024]"));
    CHECK(weights.kind == MadeUp::Kind::random);
    CHECK(weights.shape == std::vector<int64_t>{64, 1024});
    CHECK_FALSE(wants_guess(weights));
    CHECK(wants_guess(std::get<MadeUp>(parse_shape_or_source("i64[8]"))));
    CHECK_FALSE(wants_guess(std::get<MadeUp>(parse_shape_or_source("i64[8]:0..3"))));
    CHECK(std::holds_alternative<FilePart>(parse_shape_or_source("x.npy")));
    CHECK(std::get<MadeUp>(parse_shape_or_source("zeros:i64[8]")).kind == MadeUp::Kind::zeros);
    CHECK_THROWS_AS(parse_source("bf16[64]"), UsageError);
    CHECK_THROWS_AS(parse_shape("zeros:f32[4]"), UsageError);
    CHECK_THROWS_AS(parse_shape("i64[8]:0..3"), UsageError);
    CHECK_THROWS_AS(parse_shape("x.npy"), UsageError);
}
