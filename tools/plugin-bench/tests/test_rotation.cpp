#include "rotation.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_bench;

TEST_CASE("copies exceed the cache twice, within the memory") {
    const uint64_t mebi = 1 << 20;
    CHECK(copies_against(32 * mebi, 64000 * mebi, mebi) == 66);
    CHECK(copies_against(32 * mebi, 64000 * mebi, 100 * mebi) == 2);
    CHECK(copies_against(32 * mebi, 40 * mebi, mebi) == 10);
    CHECK(copies_against(32 * mebi, 64000 * mebi, 16) == 65536);
    CHECK(copies_against(32 * mebi, mebi, 10 * mebi) == 1);
    CHECK(copies_against(32 * mebi, 64000 * mebi, 0) == 1);
}
