#include "resolve.hpp"

#include <doctest/doctest.h>

using namespace opdock::core;

TEST_CASE("an implementation for the device that the order names is in the chain") {
    Candidate a;
    a.impl_id = "default.cpu";
    a.device_kind = "cpu";
    Contender c{&a};
    Key key;
    key.device_kind = "cpu";
    CHECK(resolve({&c, 1}, key, PolicyStack().effective("x", "cpu", 0)).chain.size() == 1);
}
