#include "load/architecture.hpp"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "load/register.hpp"

using namespace opdock::core;

namespace {

const char *registered_architectures = nullptr;

opdock_status register_with_architectures(opdock_registry *registry) {
    opdock_op_declaration op = {};
    op.struct_size = sizeof op;
    op.signature = "test.copy(input: T[...]) -> (output: T[...])";
    opdock_impl impl = {};
    impl.struct_size = sizeof impl;
    impl.kind = OPDOCK_KIND_DEFAULT;
    impl.op = "test.copy";
    impl.impl_id = "default.test";
    impl.device = "cuda";
    impl.architectures = registered_architectures;
    impl.kernel = [](const opdock_problem *, const opdock_call *) { return OPDOCK_OK; };
    registry->register_op(registry, &op);
    registry->register_impl(registry, &impl);
    return OPDOCK_OK;
}

} // namespace

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
    CHECK_FALSE(architecture_matches("sm_99999999999999999999+", "sm_80", true));
    CHECK_FALSE(architecture_matches("sm_+", "sm_80", true));
    CHECK(architecture_matches("9+", "10", true));
    CHECK(architecture_matches("sm_0+", "sm_9", true));
    const std::string_view digits = "1199+";
    CHECK(architecture_matches(digits.substr(2), "99", true)); // characters before a name are no part of it
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
    for (const char *good : {"sm_80", "sm_80+", "0+", "sm_9+", "sm_90a", "gfx90a", "npu"}) {
        CAPTURE(good);
        CHECK(is_architecture_pattern(good));
    }
    for (const char *bad :
         {"", "+", "sm_+", "sm_80++", "sm_+80", "sm_90a+", "sm/+", "sm:+", "sm 80", "sm_80,sm_90", "a|b"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_architecture_pattern(bad));
    }
}

TEST_CASE("a plugin with an architecture that could never match is rejected, not passed over in silence") {
    const opdock_host_api host = {};
    const auto errors = [&](const char *architectures) {
        registered_architectures = architectures;
        Signatures signatures;
        Registrar registrar({"test", "", "test"}, &host, signatures);
        registrar.run(register_with_architectures);
        return registrar.errors();
    };
    CHECK(errors(nullptr).empty());
    CHECK(errors("sm_80+|sm_90a").empty());
    for (const char *wrong : {"sm_80++", "sm_90a|sm_+", "sm_90a+"}) {
        CAPTURE(wrong);
        const auto found = errors(wrong);
        REQUIRE(found.size() == 1);
        CHECK(found[0].code == RejectCode::bad_field);
        CHECK(found[0].message.find("is neither a name such as sm_90a nor a name with '+' after its number") !=
              std::string::npos);
    }
}
