#include "load/registration_difference.hpp"

#include <doctest/doctest.h>

#include "load/register.hpp"
#include "made_host.hpp"

using namespace opdock::core;
using opdock::test::contains;

namespace {

struct Things {
    std::string vendor = "acme", device_name = "npu", doc = "adds", signature = "acme.next(a: T[n]) -> (b: T[n])";
    std::string dtypes = "f32", architectures = "npu_1|npu_2+";
    int64_t knob_default = 8;
    bool with_heuristic = false;
    int n_shutdowns = 1;
};

Registration registration_of(const Things &things) {
    static const opdock_host none = {};
    Signatures signatures;
    Registrar registrar({"acme", "acme", "libacme.so"}, &none, signatures);
    registrar.run([&](opdock_registry *registry) {
        opdock_vendor vendor = {};
        vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
        vendor.name = things.vendor.c_str();
        vendor.device_name = things.device_name.c_str();
        opdock_op op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op, doc);
        op.signature = things.signature.c_str();
        op.doc = things.doc.c_str();
        const opdock_knob knob = {OPDOCK_STRUCT_SIZE(opdock_knob, doc),
                                  OPDOCK_KNOB_INT,
                                  "block",
                                  1,
                                  64,
                                  things.knob_default,
                                  nullptr,
                                  nullptr};
        const opdock_knob *const knobs[] = {&knob};
        opdock_impl impl = {};
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
        impl.kind = OPDOCK_KIND_VENDOR;
        impl.op = "acme.next";
        impl.impl_id = "vendor.acme";
        impl.device = "npu";
        impl.dtypes = things.dtypes.c_str();
        impl.architectures = things.architectures.c_str();
        impl.n_knobs = 1;
        impl.knobs = knobs;
        impl.kernel = [](const opdock_problem *, const opdock_call *) -> opdock_status { return OPDOCK_OK; };
        if (things.with_heuristic) {
            impl.heuristic = [](const opdock_problem *, int64_t *) -> opdock_status { return OPDOCK_OK; };
        }
        registry->register_vendor(registry, &vendor);
        registry->register_op(registry, &op);
        for (int i = 0; i < things.n_shutdowns; ++i) {
            registry->register_shutdown(
                registry, [](void *) {}, nullptr);
        }
        return registry->register_impl(registry, &impl);
    });
    CHECK(registrar.errors().empty());
    return registrar.take();
}

} // namespace

TEST_CASE("two registrations of the same things do not differ, whatever the addresses of their functions") {
    CHECK_FALSE(find_difference(registration_of({}), registration_of({})).has_value());
}

TEST_CASE("whatever differs between two registrations is told as it was and as it is") {
    const auto told = [](const Things &now, const std::string &what) {
        const auto difference = find_difference(registration_of({}), registration_of(now));
        INFO(what);
        REQUIRE(difference.has_value());
        CHECK(contains(*difference, what));
        // And the other way round.
        CHECK(find_difference(registration_of(now), registration_of({})).has_value());
    };
    Things things;
    things.device_name = "npu2";
    told(things, "device 'npu2'");
    things = {};
    things.doc = "multiplies";
    told(things, "doc 'multiplies'");
    things = {};
    things.signature = "acme.next(a: T[n], c: T[n]?) -> (b: T[n])";
    told(things, "c: T[n]?");
    things = {};
    things.dtypes = "f32|f16";
    told(things, "dtypes 'f32|f16'");
    things = {};
    things.architectures = "npu_1";
    told(things, "architecture 'npu_1'");
    things = {};
    things.knob_default = 9;
    told(things, "9 by default");
    things = {};
    things.with_heuristic = true;
    told(things, "functions heuristic");
    things = {};
    things.n_shutdowns = 0;
    told(things, "it registers\n  nothing\nand when it was scanned it registered\n  a shutdown function");
}
