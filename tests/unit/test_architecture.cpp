#include "architecture.hpp"

#include <doctest/doctest.h>

using namespace opdock::core;

TEST_CASE("a plain name is one architecture, exactly") {
    CHECK(architecture_matches("sm_90a", "sm_90a", true));
    CHECK(architecture_matches("gfx90a", "GFX90A", false));
    CHECK_FALSE(architecture_matches("sm_90a", "sm_90", true));
    CHECK_FALSE(architecture_matches("sm_90", "sm_90a", true));
    CHECK_FALSE(architecture_matches("sm_90", "sm_100", true));
    CHECK_FALSE(architecture_matches("", "", true));
}

TEST_CASE("a name with + is this or newer, by number and not by letters") {
    CHECK(architecture_matches("sm_80+", "sm_80", true));
    CHECK(architecture_matches("sm_80+", "sm_86", true));
    CHECK(architecture_matches("sm_80+", "sm_90a", true));
    CHECK(architecture_matches("SM_80+", "sm_100", true)); // "100" sorts before "80" as text
    CHECK_FALSE(architecture_matches("sm_80+", "sm_75", true));
    CHECK_FALSE(architecture_matches("sm_100+", "sm_90a", true));
    CHECK_FALSE(architecture_matches("sm_80+", "gfx90", true));
    CHECK_FALSE(architecture_matches("sm_80+", "sm_", true));
    CHECK_FALSE(architecture_matches("sm_80+", "sm_99999999999999999999", true));
}

TEST_CASE("a name with + matches nothing where architectures have no order") {
    CHECK_FALSE(architecture_matches("gfx900+", "gfx940", false));
    CHECK_FALSE(architecture_matches("gfx900+", "gfx900", false));
}

TEST_CASE("nothing matches an unknown architecture") {
    CHECK_FALSE(architecture_matches("sm_90", "", true));
    CHECK_FALSE(architecture_matches("sm_80+", "", true));
}

TEST_CASE("a pattern is a name with at most one + at the end, after a number") {
    for (const char *good : {"sm_80", "sm_80+", "sm_90a", "gfx90a", "npu"}) {
        CAPTURE(good);
        CHECK(is_architecture_pattern(good));
    }
    for (const char *bad : {"", "+", "sm_+", "sm_80++", "sm_+80", "sm_90a+", "sm 80", "sm_80,sm_90", "a|b"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_architecture_pattern(bad));
    }
}
