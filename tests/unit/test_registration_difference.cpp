#include "load/registration_difference.hpp"

#include <functional>
#include <utility>

#include <doctest/doctest.h>

#include "fake_device.hpp"
#include "load/register.hpp"
#include "made_host.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::FakeKind;

namespace {

struct Things {
    std::string vendor = "acme", device_name = "npu", doc = "adds", signature = "acme.next(a: T[n]) -> (b: T[n])";
    std::string dtypes = "f32", architectures = "npu_1|npu_2+";
    int64_t knob_default = 8;
    bool with_heuristic = false;
    int n_shutdowns = 1;
    FakeKind provided;
    std::function<void(opdock_impl &, opdock_knob &)> adjust = [](opdock_impl &, opdock_knob &) {};
};

Registration registration_of(Things things) {
    static const opdock_host_api none = {};
    Signatures signatures;
    Registrar registrar({"acme", "acme", "libacme.so"}, &none, signatures);
    registrar.run([&](opdock_registry *registry) {
        opdock_vendor vendor = {};
        vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
        vendor.name = things.vendor.c_str();
        vendor.device_name = things.device_name.c_str();
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        op.signature = things.signature.c_str();
        op.doc = things.doc.c_str();
        opdock_knob knob = {OPDOCK_STRUCT_SIZE(opdock_knob, doc),
                            OPDOCK_KNOB_INT,
                            "block",
                            1,
                            64,
                            things.knob_default,
                            nullptr,
                            nullptr};
        const opdock_knob *const knobs[] = {&knob};
        opdock_impl impl = {};
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, get_extension);
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
        things.adjust(impl, knob);
        registry->register_vendor(registry, &vendor);
        things.provided.provide(registry);
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
        // And in the other direction.
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
    const std::pair<void (*)(FakeKind &), const char *> providers[] = {
        {[](FakeKind &fake) { fake.device = "other"; }, "device 'other'"},
        {[](FakeKind &fake) { fake.type = kDLVulkan; }, "type 7"},
        {[](FakeKind &fake) { fake.stream_type = "OtherStream"; }, "stream 'OtherStream'"},
        {[](FakeKind &fake) { fake.flags = OPDOCK_DEVICE_ORDERED_ARCHITECTURES; }, "flags 0x1"},
    };
    for (const auto &[change, what] : providers) {
        things = {};
        change(things.provided);
        told(things, what);
    }
    const std::pair<void (*)(opdock_impl &, opdock_knob &), const char *> implementations[] = {
        {[](opdock_impl &impl, opdock_knob &) { impl.impl_id = "vendor.acme-2"; }, "implementation 'vendor.acme-2'"},
        {[](opdock_impl &impl, opdock_knob &) { impl.kind = OPDOCK_KIND_REFERENCE; }, "kind reference"},
        {[](opdock_impl &impl, opdock_knob &) { impl.vendor = "beta"; }, "vendor 'beta'"},
        {[](opdock_impl &impl, opdock_knob &) { impl.device = "gpu"; }, "device 'gpu'"},
        {[](opdock_impl &impl, opdock_knob &) { impl.priority = -3; }, "priority -3"},
        {[](opdock_impl &impl, opdock_knob &) { impl.alignment = 64; }, "alignment 64"},
        {[](opdock_impl &impl, opdock_knob &) { impl.flags = OPDOCK_IMPL_DETERMINISTIC; }, "flags 0x1,"},
        {[](opdock_impl &impl, opdock_knob &) { impl.required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS; },
         "required flags 0x1"},
        {[](opdock_impl &impl, opdock_knob &) { impl.tune_version = 5; }, "tune version 5"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status { return OPDOCK_OK; };
         },
         "functions available"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.supports = [](const opdock_problem *) -> opdock_status { return OPDOCK_OK; };
         },
         "functions supports"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) -> opdock_status {
                 return OPDOCK_OK;
             };
             impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {};
         },
         "functions device_init"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.plan_create = [](const opdock_problem *, void **) -> opdock_status { return OPDOCK_OK; };
             impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {};
         },
         "functions plan_create"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.workspace_size = [](const opdock_problem *, uint64_t *) -> opdock_status { return OPDOCK_OK; };
         },
         "functions workspace_size"},
        {[](opdock_impl &impl, opdock_knob &) {
             impl.get_extension = [](const opdock_host_api *, void *, const char *) -> const void * { return nullptr; };
         },
         "functions get_extension"},
        {[](opdock_impl &impl, opdock_knob &) { impl.n_knobs = 0; }, "architecture 'npu_2+'\nand"},
        {[](opdock_impl &, opdock_knob &knob) { knob.name = "blocks"; }, "knob 'blocks'"},
        {[](opdock_impl &, opdock_knob &knob) { knob.minimum = 2; }, "from 2 to 64"},
        {[](opdock_impl &, opdock_knob &knob) { knob.maximum = 32; }, "from 1 to 32"},
        {[](opdock_impl &, opdock_knob &knob) { knob.doc = "of a block"; }, "doc 'of a block'"},
    };
    for (const auto &[change, what] : implementations) {
        things = {};
        things.adjust = change;
        told(things, what);
    }
    things = {};
    things.n_shutdowns = 0;
    told(things, "it registers\n  nothing\nbut when it was scanned, it registered\n  a shutdown function");
}
