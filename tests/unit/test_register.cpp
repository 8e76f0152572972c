// Registrations that a plugin must not make. Each plugin here also registers something sound of every kind, none of
// which may stay. Device providers are tested in test_device_provider.cpp.
#include "load/register.hpp"

#include <climits>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "made_host.hpp"
#include "signature/standard_ops.hpp"
#include "standard_signatures.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

constexpr const char *sound_op = "sound.op(input: T[n]) -> (output: T[n])";

opdock_status nothing(const opdock_problem *, const opdock_call *) {
    return OPDOCK_OK;
}

opdock_impl sound_impl(const char *impl_id = "default.sound") {
    opdock_impl impl = {};
    impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
    impl.kind = OPDOCK_KIND_DEFAULT;
    impl.op = "sound.op";
    impl.impl_id = impl_id;
    impl.device = "cpu";
    impl.kernel = nothing;
    return impl;
}

opdock_knob sound_knob(const char *name = "block") {
    return {OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, name, 1, 64, 8, nullptr, nullptr};
}

opdock_vendor sound_vendor(const char *name = "soundvendor") {
    opdock_vendor vendor = {};
    vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
    vendor.name = name;
    return vendor;
}

int shutdowns = 0;

opdock_status register_sound_things(opdock_registry *registry, FakeKind &fake) {
    const opdock_vendor vendor = sound_vendor();
    const opdock_impl impl = sound_impl();
    registry->register_vendor(registry, &vendor);
    fake.provide(registry);
    registry->register_shutdown(
        registry, [](void *) { ++shutdowns; }, nullptr);
    declare(registry, sound_op);
    return registry->register_impl(registry, &impl);
}

using Register = std::function<opdock_status(opdock_registry *)>;

// The host's message about a plugin that registers sound things and then does `fault`. Fails if anything stays.
std::string rejection_of(const Register &fault) {
    shutdowns = 0;
    FakeKind fake;
    MadeHost host;
    host.add("default.other", OPDOCK_KIND_DEFAULT, {}, 1);
    const nlohmann::json before = host->describe();
    const core::Error error = thrown_by([&] {
        host.module("faulty", [&](opdock_registry *registry) {
            CHECK(register_sound_things(registry, fake) == OPDOCK_OK);
            return fault(registry);
        });
    });
    CHECK(error.status() == OPDOCK_LOAD_FAILED);
    CHECK(host->describe() == before);
    CHECK(host->find_op("sound.op") == nullptr);
    CHECK_THROWS_AS(host->explain("test.add", "fake", nullptr, nullptr), core::Error);
    host->set_program_policy(host.policy("deny_vendors", "soundvendor"));
    CHECK(host.logged("soundvendor") == 1); // no other plugin knows that vendor
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    host.close();
    CHECK(shutdowns == 0);
    return error.what();
}

std::string impl_rejection(const std::function<void(opdock_impl &)> &adjust) {
    return rejection_of([&](opdock_registry *registry) {
        opdock_impl impl = sound_impl("default.faulty");
        adjust(impl);
        CHECK(registry->register_impl(registry, &impl) == OPDOCK_INVALID_ARGUMENT);
        return OPDOCK_OK;
    });
}

std::string knob_rejection(const std::function<void(opdock_knob &)> &adjust) {
    return impl_rejection([&](opdock_impl &impl) {
        static opdock_knob knob;
        static const opdock_knob *const knobs[] = {&knob};
        knob = sound_knob();
        adjust(knob);
        impl.n_knobs = 1;
        impl.knobs = knobs;
    });
}

void check_says(const std::string &why, std::initializer_list<const char *> parts) {
    for (const char *part : parts) {
        CAPTURE(part);
        CAPTURE(why);
        CHECK(contains(why, part));
    }
}

} // namespace

TEST_CASE("memory that runs out while an entry runs says nothing of its plugin, and the thread may go on") {
    opdock::test::MadeHost host;
    CHECK_THROWS_AS(host.module("hungry", [](opdock_registry *) -> opdock_status { throw std::bad_alloc(); }),
                    std::bad_alloc);
    host.module("hungry", [](opdock_registry *) { return OPDOCK_OK; });
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    opdock::test::Rows rows;
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("what is sound is taken") {
    FakeKind fake;
    MadeHost host;
    host.module("sound", [&](opdock_registry *registry) { return register_sound_things(registry, fake); });
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["chain"].size() == 1);
    CHECK(host->explain("sound.op", "fake", nullptr, nullptr)["chain"].empty());
    host->set_program_policy(host.policy("deny_vendors", "SoundVendor"));
    CHECK(host.logged("oundvendor") == 0);
}

// --- knobs
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("a knob whose range is empty or does not hold its default is rejected") {
    const auto ranged = [](int64_t minimum, int64_t maximum, int64_t default_value) {
        return knob_rejection([&](opdock_knob &knob) {
            knob.minimum = minimum;
            knob.maximum = maximum;
            knob.default_value = default_value;
        });
    };
    check_says(ranged(64, 1, 8), {"OPDOCK-E039", "knob 'block'", "range 64 to 1"});
    check_says(ranged(1, 64, 65), {"OPDOCK-E039", "default 65 outside its range 1 to 64"});
    check_says(ranged(1, 64, 0), {"OPDOCK-E039", "default 0 outside its range 1 to 64"});
    check_says(ranged(0, INT64_MAX, -1), {"OPDOCK-E039", "default -1"});
}

TEST_CASE("a range may be as wide as the type and as narrow as one value") {
    MadeHost host;
    host.module("wide", [](opdock_registry *registry) {
        opdock_knob widest = sound_knob("widest"), one = sound_knob("one");
        widest.minimum = INT64_MIN;
        widest.maximum = INT64_MAX;
        one.minimum = one.maximum = one.default_value = 7;
        const opdock_knob *const knobs[] = {&widest, &one};
        opdock_impl impl = sound_impl();
        impl.n_knobs = 2;
        impl.knobs = knobs;
        declare(registry, sound_op);
        return registry->register_impl(registry, &impl);
    });
    CHECK(host->find_op("sound.op") != nullptr);
}

TEST_CASE("a knob of an unknown type is rejected, and a bool that is more than 0 and 1") {
    check_says(knob_rejection([](opdock_knob &knob) { knob.type = 0; }), {"OPDOCK-E039", "knob 'block' has type 0"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.type = 4; }),
               {"OPDOCK-E039", "OPDOCK_KNOB_INT, _BOOL or _CHOICE"});
    check_says(knob_rejection([](opdock_knob &knob) {
                   knob.type = OPDOCK_KNOB_BOOL;
                   knob.minimum = 0;
                   knob.maximum = 2;
                   knob.default_value = 1;
               }),
               {"OPDOCK-E039", "is a bool but ranges from 0 to 2"});
}

TEST_CASE("the choices of a knob are names that differ, as many as its range needs") {
    const auto choosing = [](const char *choices, int64_t maximum) {
        return knob_rejection([&](opdock_knob &knob) {
            knob.struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, choices);
            knob.type = OPDOCK_KNOB_CHOICE;
            knob.minimum = knob.default_value = 0;
            knob.maximum = maximum;
            knob.choices = choices;
        });
    };
    check_says(choosing(nullptr, 0), {"OPDOCK-E035", "a choice of a knob is empty"});
    check_says(choosing("none,,,tma", 3), {"OPDOCK-E039", "knob 'block' has choice '' twice"}); // one may be empty
    check_says(choosing("none, tma", 1), {"OPDOCK-E035", "' tma'"});
    check_says(choosing("none,tma,none", 2), {"OPDOCK-E039", "knob 'block' has choice 'none' twice"});
    check_says(choosing("none,8", 1), {"OPDOCK-E039", "'8' as a number"});
    check_says(choosing("none,tma", 2), {"OPDOCK-E039", "knob 'block' has 2 choices but ranges from 0 to 2"});
}

TEST_CASE("two knobs of one implementation have two names") {
    const std::string why = impl_rejection([](opdock_impl &impl) {
        static const opdock_knob one = sound_knob(), two = sound_knob();
        static const opdock_knob *const knobs[] = {&one, &two};
        impl.n_knobs = 2;
        impl.knobs = knobs;
    });
    check_says(why, {"OPDOCK-E032", "knob 'block' is declared twice", "default.faulty", "; rename or remove one"});
}

TEST_CASE("a knob has a name that tune files can spell") {
    check_says(knob_rejection([](opdock_knob &knob) { knob.name = nullptr; }), {"OPDOCK-E035", "knob's name is null"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.name = ""; }), {"OPDOCK-E035", "knob's name is empty"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.name = "block size"; }), {"OPDOCK-E035", "'block size'"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.name = "block=8"; }), {"OPDOCK-E035", "'block=8'"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.name = "bl\u043eck"; }),
               {"OPDOCK-E035", "'bl\\xd0\\xbeck'"});
}

TEST_CASE("knobs are there when they are counted") {
    check_says(impl_rejection([](opdock_impl &impl) { impl.n_knobs = 3; }), {"OPDOCK-E039", "n_knobs is 3"});
    static const opdock_knob *const knobs[] = {nullptr};
    check_says(impl_rejection([](opdock_impl &impl) {
                   impl.n_knobs = 1;
                   impl.knobs = knobs;
               }),
               {"OPDOCK-E039", "a knob is null"});
    check_says(impl_rejection([](opdock_impl &impl) {
                   impl.n_knobs = 257;
                   impl.knobs = knobs;
               }),
               {"OPDOCK-E041", "n_knobs is 257; at most 256 are kept"});
    static const opdock_knob *const most[256] = {};
    check_says(impl_rejection([](opdock_impl &impl) {
                   impl.n_knobs = 256; // accepted, so all of them are read
                   impl.knobs = most;
               }),
               {"OPDOCK-E039", "a knob is null"});
}

// --- names
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("names that policies spell are printable ASCII, short and free of separators") {
    const std::string long_name(129, 'a');
    const std::vector<std::string> bad = {"",
                                          "two words",
                                          "a,b",
                                          "a;b",
                                          "a:b",
                                          "a|b",
                                          "a=b",
                                          "a'b",
                                          "a\"b",
                                          "a\tb",
                                          "a\nb",
                                          "a\x7f"
                                          "b",
                                          "\xff\xfe",
                                          "\xc3",
                                          "\xed\xa0\x80",
                                          "\xc2\x80",
                                          "a\u200bb",    // zero width
                                          "a\u00a0b",    // a space that is not ASCII
                                          "\u0430cme",   // a letter of another alphabet
                                          "Stra\u00dfe", // has no ASCII upper or lower case
                                          "a\u202eb",
                                          long_name};
    using Set = void (*)(opdock_impl &, const char *);
    const Set fields[] = {
        [](opdock_impl &impl, const char *name) { impl.impl_id = name; },
        [](opdock_impl &impl, const char *name) { impl.vendor = name; },
        [](opdock_impl &impl, const char *name) { impl.device = name; },
    };
    for (const Set set : fields) {
        for (const std::string &name : bad) {
            CAPTURE(name.size());
            CAPTURE(&name - bad.data());
            check_says(impl_rejection([&](opdock_impl &impl) { set(impl, name.c_str()); }), {"OPDOCK-E035"});
        }
    }
    check_says(impl_rejection([](opdock_impl &impl) { impl.impl_id = nullptr; }), {"OPDOCK-E035", "impl_id is null"});
    check_says(impl_rejection([](opdock_impl &impl) { impl.device = nullptr; }), {"OPDOCK-E035", "device is null"});
    check_says(impl_rejection([](opdock_impl &impl) { impl.op = nullptr; }), {"OPDOCK-E035", "op is null"});
    check_says(impl_rejection([&](opdock_impl &impl) { impl.op = long_name.c_str(); }), {"OPDOCK-E035", "129 bytes"});
    const std::string endless(10000, 'x');
    check_says(impl_rejection([&](opdock_impl &impl) { impl.impl_id = endless.c_str(); }), {"OPDOCK-E035"});
}

TEST_CASE("a name may have 128 characters") {
    const std::string longest(128, 'a');
    MadeHost host;
    host.module("names", [&](opdock_registry *registry) {
        declare(registry, sound_op);
        const opdock_impl one = sound_impl(longest.c_str()), two = sound_impl("vendor.~!@#$%^&*()[]{}<>?/+-_.");
        registry->register_impl(registry, &one);
        return registry->register_impl(registry, &two);
    });
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["chain"].size() == 2);
}

TEST_CASE("an op that is declared under a name no signature may have is rejected") {
    for (const char *signature : {"(input: T[n]) -> (output: T[n])", "Add(input: T[n]) -> (output: T[n])",
                                  "two words(input: T[n]) -> (output: T[n])", "a..b(input: T[n]) -> (output: T[n])",
                                  ".a(input: T[n]) -> (output: T[n])", "a.(input: T[n]) -> (output: T[n])",
                                  "9a(input: T[n]) -> (output: T[n])", "a=b(input: T[n]) -> (output: T[n])", ""}) {
        CAPTURE(signature);
        const std::string why = rejection_of([&](opdock_registry *registry) {
            CHECK(declare(registry, signature) == OPDOCK_INVALID_ARGUMENT);
            return OPDOCK_OK;
        });
        check_says(why, {"OPDOCK-E036", "register_op"});
    }
    check_says(rejection_of([](opdock_registry *registry) { return declare(registry, nullptr); }), {"OPDOCK-E036"});
}

TEST_CASE("one op has one implementation of a name, in whatever case it is written") {
    for (const char *impl_id : {"default.sound", "default.SOUND"}) {
        const std::string why = rejection_of([&](opdock_registry *registry) {
            const opdock_impl impl = sound_impl(impl_id);
            return registry->register_impl(registry, &impl);
        });
        check_says(why, {"OPDOCK-E032", impl_id, "twice", "; rename or remove one"});
    }
    MadeHost host;
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    const std::string why = message_of([&] { host.add("Vendor.Acme", OPDOCK_KIND_VENDOR, "acme"); });
    check_says(why, {"OPDOCK-E033", "'Vendor.Acme'", "'module-1'", "'module-2'"});
}

TEST_CASE("two ops may have implementations of one name") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    host.add(std::move(made));
    CHECK(host->explain("test.update", "cpu", nullptr, nullptr)["chain"].size() == 1);
}

TEST_CASE("an op is declared once by a plugin, and by the plugin that implements it") {
    check_says(rejection_of([](opdock_registry *registry) { return declare(registry, sound_op); }),
               {"OPDOCK-E032", "op 'sound.op' is declared twice by this plugin; rename or remove one"});
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_impl impl = sound_impl();
                   impl.op = "test.add"; // declared by another plugin
                   registry->register_impl(registry, &impl);
                   return OPDOCK_OK;
               }),
               {"OPDOCK-E038", "'default.sound' for op 'test.add'", "register_op"});
}

// --- vendors, kinds, priorities and other fields
// ------------------------------------------------------------------------

TEST_CASE("a vendor's name obeys the rules of names") {
    for (const char *name : {"", "two words", "a,b", "a|b", "vendor:a", "a\tb", "\u0430cme", "ac\u200bme"}) {
        CAPTURE(name);
        const std::string why = rejection_of([&](opdock_registry *registry) {
            const opdock_vendor vendor = sound_vendor(name);
            return registry->register_vendor(registry, &vendor);
        });
        check_says(why, {"OPDOCK-E035", "register_vendor"});
    }
    check_says(rejection_of([](opdock_registry *registry) {
                   const opdock_vendor vendor = sound_vendor(nullptr);
                   return registry->register_vendor(registry, &vendor);
               }),
               {"OPDOCK-E035", "name is null"});
}

TEST_CASE("an implementation of kind vendor takes the plugin's vendor, and has to have one") {
    const auto entry = [](opdock_registry *registry) {
        declare(registry, sound_op);
        opdock_impl impl = sound_impl("vendor.one");
        impl.kind = OPDOCK_KIND_VENDOR;
        return registry->register_impl(registry, &impl);
    };
    MadeHost host;
    host.module("of-acme", entry, "Acme");
    const nlohmann::json described = host->describe();
    CHECK(described["ops"][0]["implementations"][0]["vendor"] == "Acme");
    host->set_program_policy(host.policy("deny_vendors", "ACME"));
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["dropped"][0]["rule"] == "deny_vendors");

    MadeHost other;
    check_says(message_of([&] { other.module("of-nobody", entry, ""); }), {"OPDOCK-E039", "kind vendor without a"});
}

TEST_CASE("a kind is one of three") {
    for (const uint32_t kind : {0u, 4u, ~0u}) {
        CAPTURE(kind);
        check_says(impl_rejection([&](opdock_impl &impl) { impl.kind = kind; }),
                   {"OPDOCK-E039", "expected OPDOCK_KIND_DEFAULT, _VENDOR or _REFERENCE"});
    }
}

TEST_CASE("priorities are compared over their whole range") {
    MadeHost host;
    const auto add = [&](const char *impl_id, int32_t priority, float adds) {
        auto made = std::make_unique<Made>(impl_id, OPDOCK_KIND_DEFAULT, "", adds);
        made->priority = priority;
        host.add(std::move(made));
    };
    add("default.lowest", INT32_MIN, 1);
    add("default.below", -1, 2);
    add("default.b", 0, 3);
    add("default.a", 0, 4);
    add("default.highest", INT32_MAX, 5);
    CHECK(host->explain("test.add", "cpu", nullptr, nullptr)["chain"] ==
          nlohmann::json::parse(R"(["default.highest", "default.b", "default.a", "default.below", "default.lowest"])"));
    Rows rows;
    CHECK(rows.added(host.op()) == 5);
}

TEST_CASE("an implementation has a kernel, pairs of functions and an alignment that is a power of two") {
    check_says(impl_rejection([](opdock_impl &impl) { impl.kernel = nullptr; }),
               {"OPDOCK-E034", "default.faulty", "; set it"});
    for (const uint32_t alignment : {3u, 12u, ~0u}) {
        check_says(impl_rejection([&](opdock_impl &impl) { impl.alignment = alignment; }),
                   {"OPDOCK-E039", "not a power of two"});
    }
    using Adjust = void (*)(opdock_impl &);
    const Adjust halves[] = {
        [](opdock_impl &impl) {
            impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) -> opdock_status { return 0; };
        },
        [](opdock_impl &impl) { impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) {}; },
        [](opdock_impl &impl) {
            impl.plan_create = [](const opdock_problem *, void **) -> opdock_status { return 0; };
        },
        [](opdock_impl &impl) { impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {}; },
    };
    for (const Adjust half : halves) {
        check_says(impl_rejection(half), {"OPDOCK-E039", "one of a pair is null"});
    }
}

TEST_CASE("dtypes are tuples of the signature's variables") {
    for (const char *dtypes : {"f31", "f32,f32", "f32|", "|f32", "f32, f16", "F32"}) {
        CAPTURE(dtypes);
        const std::string why = rejection_of([&](opdock_registry *registry) {
            opdock_impl impl = sound_impl("default.faulty");
            impl.dtypes = dtypes;
            registry->register_impl(registry, &impl);
            return OPDOCK_OK;
        });
        check_says(why, {"OPDOCK-E039", "default.faulty"});
    }
}

TEST_CASE("what messages quote of a registration is one line without control characters") {
    for (const char *text : {"f32\nf16", "f32\x1b[2J", "f32\xe2\x80\xae"}) {
        CAPTURE(text);
        for (const auto &[field, member] :
             {std::pair{"dtypes", &opdock_impl::dtypes}, {"architectures", &opdock_impl::architectures}}) {
            const std::string why = rejection_of([text, member = member](opdock_registry *registry) {
                opdock_impl impl = sound_impl("default.faulty");
                impl.*member = text;
                registry->register_impl(registry, &impl);
                return OPDOCK_OK;
            });
            check_says(why, {"OPDOCK-E039", field, "has characters that cannot be shown"});
            CHECK(why.find(text) == std::string::npos);
        }
        for (const auto member :
             {&opdock_vendor::device_name, &opdock_vendor::dispatch_key, &opdock_vendor::device_query_command}) {
            const std::string why = rejection_of([&](opdock_registry *registry) {
                opdock_vendor vendor = sound_vendor("acme");
                vendor.*member = text;
                return registry->register_vendor(registry, &vendor);
            });
            check_says(why, {"OPDOCK-E039", "has characters that cannot be shown"});
        }
    }
}

TEST_CASE("a null where a registration is expected is an error, not a crash") {
    const Register nulls[] = {
        [](opdock_registry *registry) { return registry->register_vendor(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_device_provider(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_op(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_impl(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_shutdown(registry, nullptr, nullptr); },
    };
    for (const Register &null : nulls) {
        const std::string why = rejection_of([&](opdock_registry *registry) {
            CHECK(null(registry) == OPDOCK_INVALID_ARGUMENT);
            return OPDOCK_OK;
        });
        check_says(why, {"OPDOCK-E039", "null"});
    }
}

// --- sizes and flags
// ----------------------------------------------------------------------------------------------------

TEST_CASE("a struct that is too small for this ABI is rejected, and the message has both sizes") {
    check_says(impl_rejection([](opdock_impl &impl) { impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, user_data); }),
               {"OPDOCK-E039", "opdock_impl.struct_size is", "OPDOCK_STRUCT_SIZE"});
    check_says(impl_rejection([](opdock_impl &impl) { impl.struct_size = 0; }), {"OPDOCK-E039", "struct_size is 0"});
    check_says(knob_rejection([](opdock_knob &knob) { knob.struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, maximum); }),
               {"OPDOCK-E039", "opdock_knob.struct_size"});
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_vendor vendor = sound_vendor();
                   vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, flags);
                   return registry->register_vendor(registry, &vendor);
               }),
               {"OPDOCK-E039", "opdock_vendor.struct_size"});
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_op_declaration op = {};
                   op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, reserved);
                   op.signature = "sound.other(input: T[n]) -> (output: T[n])";
                   return registry->register_op(registry, &op);
               }),
               {"OPDOCK-E039", "opdock_op_declaration.struct_size"});
}

TEST_CASE("a struct whose size ends inside a field is rejected, because half a pointer leads nowhere") {
    check_says(impl_rejection([](opdock_impl &impl) { impl.struct_size = sizeof impl - 1; }),
               {"OPDOCK-E039", "opdock_impl.struct_size is", "ends inside a field"});
    check_says(knob_rejection([](opdock_knob &knob) {
                   knob.doc = "rows for each task";
                   knob.struct_size = sizeof knob - 1;
               }),
               {"OPDOCK-E039", "opdock_knob.struct_size", "ends inside a field"});
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_vendor vendor = sound_vendor();
                   vendor.device_name = "npu";
                   vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_name) - 1;
                   return registry->register_vendor(registry, &vendor);
               }),
               {"OPDOCK-E039", "opdock_vendor.struct_size", "ends inside a field"});
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_op_declaration op = {};
                   op.struct_size = sizeof op - 1;
                   op.signature = "sound.other(input: T[n]) -> (output: T[n])";
                   op.doc = "One paragraph.";
                   return registry->register_op(registry, &op);
               }),
               {"OPDOCK-E039", "opdock_op_declaration.struct_size", "ends inside a field"});
}

TEST_CASE("fields past a struct's size are not read") {
    MadeHost host;
    host.module("short", [](opdock_registry *registry) {
        opdock_vendor vendor = sound_vendor();
        vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, name);
        vendor.device_name = reinterpret_cast<const char *>(8); // would crash
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, signature);
        op.signature = sound_op;
        op.doc = reinterpret_cast<const char *>(8);
        opdock_knob knob = sound_knob();
        knob.struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, default_value);
        knob.doc = reinterpret_cast<const char *>(8);
        const opdock_knob *const knobs[] = {&knob};
        opdock_impl impl = sound_impl();
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, kernel);
        impl.n_knobs = 1;
        impl.knobs = knobs;
        impl.available = reinterpret_cast<decltype(impl.available)>(8);
        impl.device_init = reinterpret_cast<decltype(impl.device_init)>(8); // without the other function of the pair
        CHECK(registry->register_vendor(registry, &vendor) == OPDOCK_OK);
        CHECK(registry->register_op(registry, &op) == OPDOCK_OK);
        return registry->register_impl(registry, &impl);
    });
    std::vector<float> in(3), out(3);
    CHECK(host.op("sound.op").try_call({Tensor(in.data(), f32, {3})}, {Tensor(out.data(), f32, {3})}) == OPDOCK_OK);
}

TEST_CASE("structs of a newer minor are longer, and what this host does not know of them is ignored") {
    struct LongerVendor {
        opdock_vendor known = sound_vendor();
        uint64_t more[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    } vendor;
    struct LongerDevice {
        opdock_device_provider known = {};
        uint64_t more[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    } device;
    struct LongerOp {
        opdock_op_declaration known = {};
        uint64_t more[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    } op;
    struct LongerKnob {
        opdock_knob known = sound_knob();
        uint64_t more[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    } knob;
    struct LongerImpl {
        opdock_impl known = sound_impl();
        uint64_t more[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    } impl;
    FakeKind fake;
    device.known = fake.table();
    op.known.signature = sound_op;
    const opdock_knob *const knobs[] = {&knob.known};
    impl.known.n_knobs = 1;
    impl.known.knobs = knobs;
    vendor.known.struct_size = sizeof vendor;
    device.known.struct_size = sizeof device;
    op.known.struct_size = sizeof op;
    knob.known.struct_size = sizeof knob;
    impl.known.struct_size = sizeof impl;
    MadeHost host;
    host.module("newer", [&](opdock_registry *registry) {
        CHECK(registry->register_vendor(registry, &vendor.known) == OPDOCK_OK);
        CHECK(registry->register_device_provider(registry, &device.known) == OPDOCK_OK);
        CHECK(registry->register_op(registry, &op.known) == OPDOCK_OK);
        return registry->register_impl(registry, &impl.known);
    });
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["chain"].size() == 1);
}

TEST_CASE("unknown flags are ignored, and unknown required ones are not") {
    MadeHost host;
    host.module("flags", [](opdock_registry *registry) {
        opdock_vendor vendor = sound_vendor();
        vendor.flags = ~0u;
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        op.flags = ~0u;
        op.signature = sound_op;
        opdock_impl impl = sound_impl("default.flags"), newer = sound_impl("default.newer");
        impl.flags = ~0u;
        newer.required_flags = 1u << 30;
        CHECK(registry->register_vendor(registry, &vendor) == OPDOCK_OK);
        CHECK(registry->register_op(registry, &op) == OPDOCK_OK);
        CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
        return registry->register_impl(registry, &newer);
    });
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["chain"] == nlohmann::json::parse(R"(["default.flags"])"));
    CHECK(host.logged("'default.newer'") == 1);
    check_says(rejection_of([](opdock_registry *registry) {
                   opdock_op_declaration op = {};
                   op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
                   op.required_flags = 2;
                   op.signature = "sound.other(input: T[n]) -> (output: T[n])";
                   return registry->register_op(registry, &op);
               }),
               {"OPDOCK-E040", "0x2"});
}

// --- the transaction
// ----------------------------------------------------------------------------------------------------

TEST_CASE("after an error the registry goes on looking, and every error is reported") {
    const std::string why = rejection_of([](opdock_registry *registry) {
        opdock_impl no_kernel = sound_impl("default.without-kernel"), bad_kind = sound_impl("default.bad-kind");
        no_kernel.kernel = nullptr;
        bad_kind.kind = 9;
        opdock_impl undeclared = sound_impl();
        undeclared.op = "sound.never";
        registry->register_impl(registry, &no_kernel);
        registry->register_impl(registry, &bad_kind);
        CHECK(declare(registry, "sound.later(input: T[n]) -> (output: T[n])") == OPDOCK_OK);
        CHECK(declare(registry, "sound.broken(") == OPDOCK_INVALID_ARGUMENT);
        CHECK(registry->register_impl(registry, &undeclared) == OPDOCK_OK); // it may still be declared later
        return registry->fail(registry, OPDOCK_FAILED, "and the weather is bad");
    });
    check_says(why, {"OPDOCK-E034", "5 errors", "default.without-kernel", "default.bad-kind", "sound.broken",
                     "sound.never", "returned FAILED: and the weather is bad"});
}

TEST_CASE("a status of the entry keeps out what was sound") {
    check_says(rejection_of([](opdock_registry *) { return OPDOCK_UNSUPPORTED; }),
               {"OPDOCK-E030", "returned UNSUPPORTED: it gave no reason"});
    check_says(rejection_of([](opdock_registry *) -> opdock_status { throw std::runtime_error("oh no"); }),
               {"OPDOCK-E031", "oh no"});
    check_says(rejection_of([](opdock_registry *) -> opdock_status { throw 42; }), {"OPDOCK-E031"});
}

TEST_CASE("an entry that returns OK has not failed, whatever sentence it left") {
    MadeHost host;
    host.module("undecided", [](opdock_registry *registry) {
        declare(registry, sound_op);
        registry->fail(registry, OPDOCK_FAILED, "never mind");
        return OPDOCK_OK;
    });
    CHECK(host->find_op("sound.op") != nullptr);
}

TEST_CASE("an op may be declared after its implementations") {
    MadeHost host;
    host.module("backwards", [](opdock_registry *registry) {
        const opdock_impl impl = sound_impl();
        registry->register_impl(registry, &impl);
        return declare(registry, sound_op);
    });
    CHECK(host->explain("sound.op", "cpu", nullptr, nullptr)["chain"].size() == 1);
}

TEST_CASE("a plugin that registers without end is rejected") {
    const std::string why = rejection_of([](opdock_registry *registry) {
        const opdock_vendor vendor = sound_vendor();
        for (size_t i = 0; i <= core::max_registrations; ++i) {
            registry->register_vendor(registry, &vendor);
        }
        CHECK(registry->register_vendor(registry, &vendor) == OPDOCK_INVALID_ARGUMENT);
        return OPDOCK_OK;
    });
    check_says(why, {"OPDOCK-E041", "65536"});
    CHECK(why.find("because of an error: ") != std::string::npos); // one, however often it is reported
}

TEST_CASE("a plugin whose signatures have more text than a host parses is rejected") {
    static size_t room;      // left by large signatures
    static size_t n_refused; // of two small ones after them
    const auto errors_with = [](size_t room_left) {
        room = room_left;
        n_refused = 0;
        core::Signatures signatures;
        core::Registrar registrar({"acme", "acme", "libacme.so"}, nullptr, signatures);
        registrar.run([](opdock_registry *registry) {
            const opdock_vendor vendor = sound_vendor();
            registry->register_vendor(registry, &vendor);
            constexpr size_t length = 2048;
            constexpr size_t count = core::max_declared_bytes / length;
            for (size_t i = 0; i < count + 2; ++i) {
                const std::string begin = "acme.o" + std::to_string(1000 + i) + "(x: T[";
                const std::string end = "1]) -> (y: T[1])";
                const size_t blanks = length - begin.size() - end.size() - (i + 1 == count ? room : 0);
                const std::string signature = begin + std::string(i < count ? blanks : 0, ' ') + end;
                const bool is_refused = declare(registry, signature.c_str()) != OPDOCK_OK;
                n_refused += is_refused ? 1 : 0;
                CHECK(!(is_refused && i < count));
            }
            return OPDOCK_OK;
        });
        return registrar.errors();
    };
    const std::vector<core::RegistrationError> errors = errors_with(0);
    REQUIRE(errors.size() == 1); // reported once
    CHECK(errors[0].code == core::RejectCode::too_many_registrations);
    CHECK(contains(errors[0].message, "up to this op its signatures have 1048608 bytes; at most 1048576 are kept"));
    CHECK(n_refused == 2);
    CHECK(errors_with(64).empty()); // there is room for both
    CHECK(errors_with(63).size() == 1);
    CHECK(n_refused == 1);
}

TEST_CASE("a plugin whose ops allow more combinations of dtypes than anybody lists is rejected") {
    const auto with_ops = [](int count, bool listed) {
        static int n_ops;
        static const char *dtypes;
        n_ops = count;
        dtypes = listed ? "f32,f32,f32,f32,f32,f32,f32,f32" : nullptr;
        core::Signatures signatures;
        core::Registrar registrar({"acme", "acme", "libacme.so"}, nullptr, signatures);
        registrar.run([](opdock_registry *registry) {
            const opdock_vendor vendor = sound_vendor();
            registry->register_vendor(registry, &vendor);
            for (int i = 0; i < n_ops; ++i) {
                const std::string name = "acme.many" + std::to_string(i);
                const std::string signature =
                    name + "(a: A[1], b: B[1], c: C[1], d: D[1], e: E[1], f: F[1], g: G[1], h: H[1]) -> (y: A[1])";
                opdock_op_declaration op = {};
                op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
                op.signature = signature.c_str();
                registry->register_op(registry, &op);
                opdock_impl impl = sound_impl();
                impl.op = name.c_str();
                impl.dtypes = dtypes;
                registry->register_impl(registry, &impl);
            }
            return OPDOCK_OK;
        });
        return registrar.errors().empty() ? std::string() : registrar.errors()[0].message;
    };
    CHECK(with_ops(8, false).empty()); // 4,096 each for the op and the implementation
    check_says(with_ops(9, false), {"73728 combinations of dtypes; at most 65536 are kept"});
    CHECK(with_ops(15, true).empty());
    check_says(with_ops(16, true), {"65552 combinations of dtypes"});
}

TEST_CASE("tens of thousands of vendors, ops and implementations are looked through") {
    core::Signatures signatures;
    core::Registrar registrar({"acme", "acme", "libacme.so"}, nullptr, signatures);
    registrar.run([](opdock_registry *registry) {
        for (int i = 0; i < 20000; ++i) {
            const std::string name = "acme.op" + std::to_string(i);
            const std::string vendor_name = "vendor" + std::to_string(i);
            opdock_vendor vendor = sound_vendor();
            vendor.name = vendor_name.c_str();
            registry->register_vendor(registry, &vendor);
            declare(registry, (name + "(x: f32[n]) -> (y: f32[n])").c_str());
            opdock_impl impl = sound_impl();
            impl.op = name.c_str();
            impl.dtypes = nullptr;
            impl.device = "npu";
            registry->register_impl(registry, &impl);
        }
        return OPDOCK_OK;
    });
    CHECK(registrar.errors().empty());
    CHECK(registrar.registration().implementations.size() == 20000);
}

TEST_CASE("a plugin provides few device types") {
    core::Signatures signatures;
    core::Registrar registrar({"acme", "acme", "libacme.so"}, nullptr, signatures);
    registrar.run([](opdock_registry *registry) {
        FakeKind fake;
        for (int i = 0; i < 17; ++i) {
            fake.device = "npu" + std::to_string(i);
            fake.type = 2000 + i;
            CHECK(fake.provide(registry) == (i < 16 ? OPDOCK_OK : OPDOCK_INVALID_ARGUMENT));
        }
        return OPDOCK_OK;
    });
    REQUIRE(registrar.errors().size() == 1);
    CHECK(registrar.errors()[0].code == core::RejectCode::too_many_registrations);
    check_says(registrar.errors()[0].message, {"at most 16 device types"});
}

TEST_CASE("a plugin may register 65,536 things") {
    core::Signatures signatures;
    core::Registrar registrar({"acme", "acme", "libacme.so"}, nullptr, signatures);
    registrar.run([](opdock_registry *registry) {
        const opdock_vendor vendor = sound_vendor();
        for (size_t i = 0; i < 65536; ++i) {
            registry->register_vendor(registry, &vendor);
        }
        return OPDOCK_OK;
    });
    CHECK(registrar.errors().empty());
    CHECK(registrar.registration().vendors.size() == 65536);
}

TEST_CASE("everything but functions and user_data is copied") {
    std::string signature = sound_op, doc = "What it does.", impl_id = "default.sound", device = "cpu", dtypes = "f32",
                vendor_name = "soundvendor", knob_name = "block";
    opdock_knob knob = sound_knob(knob_name.c_str());
    const opdock_knob *knobs[] = {&knob};
    opdock_impl impl = sound_impl(impl_id.c_str());
    MadeHost host;
    host.module("copied", [&](opdock_registry *registry) {
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        op.signature = signature.c_str();
        op.doc = doc.c_str();
        const opdock_vendor vendor = sound_vendor(vendor_name.c_str());
        impl.device = device.c_str();
        impl.dtypes = dtypes.c_str();
        impl.n_knobs = 1;
        impl.knobs = knobs;
        registry->register_vendor(registry, &vendor);
        registry->register_op(registry, &op);
        return registry->register_impl(registry, &impl);
    });
    const nlohmann::json before = host->describe();
    for (std::string *text : {&signature, &doc, &impl_id, &device, &dtypes, &vendor_name, &knob_name}) {
        std::fill(text->begin(), text->end(), '?');
    }
    knob = {};
    knobs[0] = nullptr;
    impl = {};
    CHECK(host->describe() == before);
    std::vector<float> in(3), out(3);
    CHECK(host.op("sound.op").try_call({Tensor(in.data(), f32, {3})}, {Tensor(out.data(), f32, {3})}) == OPDOCK_OK);
}

TEST_CASE("the registry tells the ABI of the host and has its table") {
    MadeHost host;
    host.module("curious", [](opdock_registry *registry) {
        CHECK(registry->struct_size >= OPDOCK_STRUCT_SIZE(opdock_registry, user_data));
        CHECK(registry->abi_major == OPDOCK_ABI_MAJOR);
        CHECK(registry->abi_minor == OPDOCK_ABI_MINOR);
        CHECK(registry->host->struct_size >= OPDOCK_STRUCT_SIZE(opdock_host_api, call_op));
        CHECK(registry->host->abi_minor == OPDOCK_ABI_MINOR);
        return OPDOCK_OK;
    });
}

// --- standard ops and names of one's own

TEST_CASE("a standard op is declared as the standard says, whoever comes first") {
    const std::string why =
        rejection_of([](opdock_registry *registry) { return declare(registry, "relu(inp: T[n]) -> (output: T[n])"); });
    check_says(why, {"OPDOCK-E037", "op 'relu' is a standard op", "opdock/standard_ops.h", "vendor.relu"});
    MadeHost host;
    host.module("longer", [](opdock_registry *registry) {
        return declare(registry, "relu(input: T[...], *, slope: float = 0.0) -> (output ~ input: T[...])");
    });
}

TEST_CASE("every standard op of the SDK is known to the host") {
    for (const OpDeclaration &op : test::standard_ops) {
        CHECK(core::standard_signature(op.name) == op.signature);
    }
    CHECK(core::standard_signature("rel").empty());
    CHECK(core::standard_signature("").empty());
}

TEST_CASE("an implementation of an op whose declaration is wrong is not blamed as well") {
    const std::string why = rejection_of([](opdock_registry *registry) {
        declare(registry, "typo.op(a T[n]) -> (b: T[n])");
        opdock_impl impl = sound_impl("default.typo");
        impl.op = "typo.op";
        registry->register_impl(registry, &impl);
        return OPDOCK_OK;
    });
    check_says(why, {"OPDOCK-E036", "an error: register_op"});
    CHECK_FALSE(contains(why, "does not declare"));
}

TEST_CASE("of thousands of errors the first are told, and how many there are") {
    const std::vector<core::RegistrationError> errors(65536, {core::RejectCode::bad_field, "this is wrong"});
    const std::string text = core::text_of("acme", errors);
    CHECK(contains(text, "plugin 'acme' registered nothing because of 65536 errors:\n  this is wrong"));
    CHECK(contains(text, "\n  and 65472 more"));
    CHECK(text.size() < 2000);
    CHECK_FALSE(contains(core::text_of("acme", std::vector(errors.begin(), errors.begin() + 64)), "more"));
}

TEST_CASE("dtypes that no call can have are rejected") {
    const std::string why = rejection_of([](opdock_registry *registry) {
        opdock_impl impl = sound_impl("default.faulty");
        impl.dtypes = "f32|i64";
        return registry->register_impl(registry, &impl);
    });
    check_says(why, {"OPDOCK-E039", "T of 'sound.op' is never i64, so 'i64' would never be chosen; remove it"});
}

TEST_CASE("an op without a prefix that is not standard is a warning, and so is registering nothing") {
    MadeHost host;
    host.module("short", [](opdock_registry *registry) { return declare(registry, "fastop(a: T[n]) -> (b: T[n])"); });
    CHECK(host.logged("name it 'vendor.fastop'") == 1);
    host.module("empty", [](opdock_registry *) { return OPDOCK_OK; });
    CHECK(host.logged("Plugin 'empty': it registers nothing") == 1);
}

TEST_CASE("the implementations of a plugin file are of the vendor that its note names") {
    const auto entry = [](opdock_registry *registry) -> opdock_status {
        declare(registry, sound_op);
        opdock_impl impl = sound_impl("vendor.other");
        impl.kind = OPDOCK_KIND_VENDOR;
        impl.vendor = "other";
        return registry->register_impl(registry, &impl);
    };
    core::Signatures signatures;
    core::Registrar strict({"acme", "acme", "/opt/libacme.so", true, {}}, nullptr, signatures);
    strict.run(entry);
    REQUIRE(strict.errors().size() == 2); // the entry passed on the first one
    CHECK(strict.errors().front().code == core::RejectCode::bad_field);
    CHECK(contains(strict.errors().front().message, "vendor is 'other', but the plugin's vendor is 'acme'"));
    core::Registrar program({"acme", "acme", "acme"}, nullptr, signatures);
    program.run(entry);
    CHECK(program.errors().empty());
}

// --- plugins for a newer minor
// ------------------------------------------------------------------------------------------

namespace {

// A plugin built for this ABI that registers `more` in addition to something sound.
struct OfAbi {
    OfAbi(core::AbiVersion abi, const Register &more) : registrar(identity_for(abi), nullptr, signatures) {
        registrar.run([&](opdock_registry *registry) {
            const opdock_impl impl = sound_impl();
            CHECK(declare(registry, sound_op) == OPDOCK_OK);
            CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
            return more(registry);
        });
    }
    static core::PluginIdentity identity_for(core::AbiVersion abi) {
        core::PluginIdentity identity{"acme", "acme", "/opt/libacme.so", true, {"cpu"}};
        identity.abi = abi;
        return identity;
    }

    core::Signatures signatures;
    core::Registrar registrar;
};

constexpr core::AbiVersion next_minor{OPDOCK_ABI_MAJOR, OPDOCK_ABI_MINOR + 1};

// The host's message about what it leaves out. For a plugin of the host's own ABI the same is an error.
std::string left_out_of_newer(const Register &more) {
    const OfAbi own(core::host_abi, more);
    CHECK(own.registrar.errors().size() >= 1);
    CHECK(own.registrar.left_out().empty());
    CHECK(own.registrar.registration().ops.empty());

    const OfAbi newer(next_minor, more);
    CHECK(newer.registrar.errors().empty());
    const core::Registration &taken = newer.registrar.registration();
    REQUIRE(taken.ops.size() == 1);
    REQUIRE(taken.implementations.size() == 1);
    CHECK(taken.implementations[0]->impl_id == "default.sound");
    CHECK(taken.devices.empty());
    REQUIRE(newer.registrar.left_out().size() == 1);
    const std::string sentence = newer.registrar.left_out()[0];
    CHECK(sentence.ends_with("\nThe plugin is built for ABI " + core::to_text(next_minor) + ", this host has " +
                             core::to_text(core::host_abi) + "; install a newer opdock."));
    return sentence;
}

std::string left_out_op(const std::string &signature, uint32_t required_flags = 0) {
    return left_out_of_newer([&](opdock_registry *registry) {
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        op.required_flags = required_flags;
        op.signature = signature.c_str();
        for (const char *impl_id : {"default.newer", "default.newest"}) { // left out with their op, and not reported
            opdock_impl impl = sound_impl(impl_id);
            impl.op = "acme.newer";
            CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
        }
        return registry->register_op(registry, &op); // an entry may pass on the status that it gets
    });
}

std::string left_out_impl(const std::function<void(opdock_impl &)> &adjust) {
    return left_out_of_newer([&](opdock_registry *registry) {
        opdock_impl impl = sound_impl("default.newer");
        adjust(impl);
        return registry->register_impl(registry, &impl);
    });
}

} // namespace

TEST_CASE(
    "of a plugin for a newer minor an op that this host does not understand is left out with what implements it") {
    check_says(left_out_op("acme.newer(input: T[n], scale: f4[n]) -> (output: T[n])"),
               {"op 'acme.newer' is left out: signature, column ", "'f4'"});
    check_says(left_out_op("acme.newer(input: T[n]) -> (output: T[n]) where T in f32|f4"),
               {"op 'acme.newer' is left out: signature, column ", "'f4'"});
    check_says(left_out_op("acme.newer(input: T[n], *, p: complex) -> (output: T[n])"),
               {"op 'acme.newer' is left out: signature, column ", "'complex'"});
    check_says(left_out_op(" acme.newer (input: sparse T[n]) -> (output: T[n])"),
               {"op 'acme.newer' is left out: signature, column "});
    check_says(left_out_op("acme.newer(input: T[n]) -> (output: T[n])", 2),
               {"op 'acme.newer' is left out: required_flags 0x2 are not known to this host"});
    const std::string longer(core::max_signature_bytes, ' ');
    check_says(left_out_op("acme.newer(" + longer + ") -> ()"),
               {"op 'acme.newer' is left out: signature is longer than 4096 bytes"});
}

TEST_CASE("of a plugin for a newer minor a standard op that is declared otherwise is left out") {
    check_says(left_out_of_newer([](opdock_registry *registry) {
                   return declare(registry, "relu(input: T[...], mask: u8[...]) -> (output ~ input: T[...])");
               }),
               {"op 'relu' is left out: op 'relu' is a standard op", "contradicts the standard's"});
}

TEST_CASE("of a plugin for a newer minor an implementation that this host does not understand is left out alone") {
    const auto says = [](const std::function<void(opdock_impl &)> &adjust, const char *reason) {
        check_says(left_out_impl(adjust), {"implementation 'default.newer' for op 'sound.op' is left out: ", reason});
    };
    says([](opdock_impl &impl) { impl.dtypes = "f32|f4"; }, "left out: dtypes 'f32|f4': 'f4' is not a dtype");
    says([](opdock_impl &impl) { impl.dtypes = "f32|i64"; }, "T of 'sound.op' is never i64");
    says([](opdock_impl &impl) { impl.kind = 4; }, "left out: kind is 4");
    says([](opdock_impl &impl) { impl.architectures = "sm_90+f"; }, "left out: architecture 'sm_90+f'");
    says([](opdock_impl &impl) { impl.kernel = nullptr; }, "left out: kernel is null");
    static const opdock_knob newer = [] {
        opdock_knob knob = sound_knob();
        knob.type = 4;
        return knob;
    }();
    static const opdock_knob *const knobs[] = {&newer};
    says(
        [](opdock_impl &impl) {
            impl.n_knobs = 1;
            impl.knobs = knobs;
        },
        "left out: knob 'block' has type 4");
    check_says(left_out_impl([](opdock_impl &impl) { impl.impl_id = nullptr; }),
               {"an implementation of op 'sound.op' is left out: impl_id is null"});
}

TEST_CASE("of a plugin for a newer minor a provider of devices that this host does not understand is left out") {
    FakeKind fake;
    check_says(left_out_of_newer([&](opdock_registry *registry) {
                   opdock_device_provider device = fake.table();
                   device.required_flags = 4;
                   return registry->register_device_provider(registry, &device);
               }),
               {"device 'fake' is left out: required_flags 0x4 are not known to this host"});
}

TEST_CASE("of a plugin for a newer minor too, what no ABI allows is an error") {
    const Register wrong[] = {
        [](opdock_registry *registry) { return registry->register_op(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_impl(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_device_provider(registry, nullptr); },
        [](opdock_registry *registry) { return registry->register_shutdown(registry, nullptr, nullptr); },
        [](opdock_registry *) { return OPDOCK_FAILED; },
        [](opdock_registry *) -> opdock_status { throw std::runtime_error("oh no"); },
        [](opdock_registry *registry) { // never declared
            opdock_impl impl = sound_impl();
            impl.op = "acme.never";
            return registry->register_impl(registry, &impl);
        },
        [](opdock_registry *registry) {
            static const opdock_knob *const knobs[] = {nullptr};
            opdock_impl impl = sound_impl("default.newer");
            impl.n_knobs = core::max_registrations + 1;
            impl.knobs = knobs;
            return registry->register_impl(registry, &impl);
        },
        [](opdock_registry *registry) {
            const opdock_vendor vendor = sound_vendor();
            for (size_t i = 0; i <= core::max_registrations; ++i) {
                (void)registry->register_vendor(registry, &vendor);
            }
            return OPDOCK_OK;
        },
    };
    for (const Register &more : wrong) {
        CAPTURE(&more - wrong);
        const OfAbi newer(next_minor, more);
        CHECK(newer.registrar.errors().size() >= 1);
        CHECK(newer.registrar.registration().ops.empty());
    }
}

TEST_CASE("an implementation that lists no dtypes takes those of its plugin's declaration") {
    const OfAbi plugin(core::host_abi, [](opdock_registry *registry) {
        opdock_impl impl = sound_impl("default.listed");
        impl.dtypes = "f32";
        CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
        CHECK(declare(registry, "acme.wide(x: T[n]) -> () where T in f32|e4m3") == OPDOCK_OK);
        impl = sound_impl("default.wide");
        impl.op = "acme.wide";
        return registry->register_impl(registry, &impl);
    });
    const auto &taken = plugin.registrar.registration().implementations;
    REQUIRE(taken.size() == 3);
    using Sets = std::vector<std::vector<uint32_t>>;
    CHECK(taken[0]->allowed_dtypes == Sets{{OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16}});
    CHECK(taken[1]->allowed_dtypes.empty());
    CHECK(taken[2]->allowed_dtypes == Sets{{OPDOCK_F32, OPDOCK_E4M3}});
}

TEST_CASE("a plugin may declare a standard op with more dtypes than the standard, or fewer") {
    MadeHost host;
    host.module("more", [](opdock_registry *registry) {
        return declare(registry, "relu(input: T[...]) -> (output ~ input: T[...]) where T in f32|f16|bf16|e4m3");
    });
    host.module("fewer", [](opdock_registry *registry) {
        return declare(registry, "relu(input: T[...]) -> (output ~ input: T[...]) where T in f32");
    });
    CHECK(host->describe()["ops"][0]["signature"] ==
          "relu(input: T[...]) -> (output ~ input: T[...]) where T in f32|f16|bf16|e4m3");
}
