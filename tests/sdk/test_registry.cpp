#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_host.hpp"
#include "opdock/standard_ops.h"

using namespace opdock;

namespace {

std::string text(const char *c) {
    return c == nullptr ? "(null)" : c;
}

struct SeenKnob {
    std::string name, doc, choices;
    opdock_knob c;
};

struct SeenImpl {
    std::string op, impl_id, vendor, device, dtypes, architectures;
    opdock_impl c;
    std::vector<SeenKnob> knobs;
};

// A registry that copies its arguments, as hosts do.
class FakeRegistry {
  public:
    FakeRegistry() {
        table_.struct_size = OPDOCK_STRUCT_SIZE(opdock_registry, user_data);
        table_.host_data = this;
        table_.register_vendor = [](opdock_registry *registry, const opdock_vendor *vendor) {
            of(registry).vendors.push_back({text(vendor->name), text(vendor->device_name), text(vendor->dispatch_key),
                                            text(vendor->device_query_command)});
            return OPDOCK_OK;
        };
        table_.register_op = [](opdock_registry *registry, const opdock_op_declaration *op) {
            of(registry).signatures.push_back(text(op->signature));
            of(registry).docs.push_back(text(op->doc));
            return OPDOCK_OK;
        };
        table_.register_impl = [](opdock_registry *registry, const opdock_impl *impl) {
            SeenImpl seen = {text(impl->op),
                             text(impl->impl_id),
                             text(impl->vendor),
                             text(impl->device),
                             text(impl->dtypes),
                             text(impl->architectures),
                             *impl,
                             {}};
            for (std::uint32_t i = 0; i < impl->n_knobs; ++i)
                seen.knobs.push_back({text(impl->knobs[i]->name), text(impl->knobs[i]->doc),
                                      text(impl->knobs[i]->choices), *impl->knobs[i]});
            of(registry).impls.push_back(seen);
            return OPDOCK_OK;
        };
        table_.register_shutdown = [](opdock_registry *registry, void (*shutdown)(void *), void *user_data) {
            (void)registry;
            shutdown(user_data);
            return OPDOCK_OK;
        };
        table_.fail = [](opdock_registry *registry, opdock_status status, const char *sentence) {
            of(registry).message = sentence;
            return status;
        };
    }
    FakeRegistry(const FakeRegistry &) = delete;
    FakeRegistry &operator=(const FakeRegistry &) = delete;

    opdock_registry *c() { return &table_; }

    std::vector<std::vector<std::string>> vendors;
    std::vector<std::string> signatures, docs;
    std::vector<SeenImpl> impls;
    std::string message;

  private:
    static FakeRegistry &of(opdock_registry *registry) { return *static_cast<FakeRegistry *>(registry->host_data); }

    opdock_registry table_ = {};
};

Status nothing(const Call &) {
    return {};
}
Status anywhere(DLDevice) {
    return {};
}
Status anything(const Problem &) {
    return {};
}
Status fixed(const Problem &, std::int64_t *) {
    return {};
}
std::uint64_t none(const Problem &) {
    return 0;
}
Status no_plan(const Problem &, std::unique_ptr<int> &) {
    return {};
}
Status no_state(DLDevice, std::unique_ptr<int> &) {
    return {};
}

} // namespace

TEST_CASE("an implementation arrives as it was described") {
    FakeRegistry registry;
    int user_data = 0;
    const opdock_status status = register_plugin(registry.c(), [&](Registry &plugin) {
        plugin.implement(ops::rmsnorm_fwd, Impl("default.cpu")
                                               .kind(OPDOCK_KIND_DEFAULT)
                                               .vendor("acme")
                                               .device("cuda")
                                               .dtypes("f32,f32|bf16,f32")
                                               .architectures("sm_80+")
                                               .priority(-3)
                                               .alignment(16)
                                               .tune_version(2)
                                               .deterministic()
                                               .batch_invariant()
                                               .capture_safe()
                                               .needs_contiguous()
                                               .knob("block", 1, 64, 8, "Rows per task.")
                                               .bool_knob("unroll", true)
                                               .choice_knob("pipeline", "none,cpasync,tma", 1)
                                               .user_data(&user_data)
                                               .kernel(kernel<&nothing>)
                                               .available(available<&anywhere>)
                                               .supports(supports<&anything>)
                                               .heuristic(heuristic<&fixed>)
                                               .workspace_size(workspace_size<&none>)
                                               .device_state(device_state<&no_state>)
                                               .plan(plan<&no_plan>));
    });

    CHECK(status == OPDOCK_OK);
    REQUIRE(registry.impls.size() == 1);
    const SeenImpl &impl = registry.impls[0];
    CHECK(impl.op == "rmsnorm_fwd");
    CHECK(impl.impl_id == "default.cpu");
    CHECK(impl.vendor == "acme");
    CHECK(impl.device == "cuda");
    CHECK(impl.dtypes == "f32,f32|bf16,f32");
    CHECK(impl.architectures == "sm_80+");
    CHECK(impl.c.struct_size == sizeof(opdock_impl));
    CHECK(impl.c.kind == OPDOCK_KIND_DEFAULT);
    CHECK(impl.c.priority == -3);
    CHECK(impl.c.alignment == 16);
    CHECK(impl.c.tune_version == 2);
    CHECK(impl.c.flags == (OPDOCK_IMPL_DETERMINISTIC | OPDOCK_IMPL_BATCH_INVARIANT | OPDOCK_IMPL_CAPTURE_SAFE));
    CHECK(impl.c.required_flags == OPDOCK_IMPL_NEEDS_CONTIGUOUS);
    CHECK(impl.c.user_data == &user_data);
    CHECK((impl.c.kernel == &kernel<&nothing>));
    CHECK((impl.c.available == &available<&anywhere>));
    CHECK((impl.c.supports == &supports<&anything>));
    CHECK((impl.c.heuristic == &heuristic<&fixed>));
    CHECK((impl.c.workspace_size == &workspace_size<&none>));
    CHECK((impl.c.device_init == device_state<&no_state>.init));
    CHECK((impl.c.device_fini == device_state<&no_state>.fini));
    CHECK((impl.c.plan_create == plan<&no_plan>.create));
    CHECK((impl.c.plan_destroy == plan<&no_plan>.destroy));
    REQUIRE(impl.knobs.size() == 3);
    CHECK(impl.knobs[0].name == "block");
    CHECK(impl.knobs[0].doc == "Rows per task.");
    CHECK(impl.knobs[0].c.type == OPDOCK_KNOB_INT);
    CHECK(impl.knobs[0].c.minimum == 1);
    CHECK(impl.knobs[0].c.maximum == 64);
    CHECK(impl.knobs[0].c.default_value == 8);
    CHECK(impl.knobs[1].name == "unroll");
    CHECK(impl.knobs[1].doc == "(null)");
    CHECK(impl.knobs[1].c.type == OPDOCK_KNOB_BOOL);
    CHECK(impl.knobs[1].c.maximum == 1);
    CHECK(impl.knobs[1].c.default_value == 1);
    CHECK(impl.knobs[2].c.type == OPDOCK_KNOB_CHOICE);
    CHECK(impl.knobs[2].c.minimum == 0);
    CHECK(impl.knobs[2].c.maximum == 2);
    CHECK(impl.knobs[2].c.default_value == 1);
    CHECK(impl.knobs[2].choices == "none,cpasync,tma");
}

TEST_CASE("an entry finds what the program gave for it") {
    FakeRegistry registry;
    int given = 5;
    CHECK(Registry(*registry.c()).user_data<int>() == nullptr);
    registry.c()->user_data = &given;
    CHECK(register_plugin(registry.c(), [](Registry &plugin) { ++*plugin.user_data<int>(); }) == OPDOCK_OK);
    CHECK(given == 6);
}

TEST_CASE("what was not described is null or 0, a vendor's, and on the CPU") {
    FakeRegistry registry;
    Registry(*registry.c()).implement(ops::add, Impl("vendor.acme").kernel(kernel<&nothing>));
    REQUIRE(registry.impls.size() == 1);
    const SeenImpl &impl = registry.impls[0];
    CHECK(impl.vendor == "(null)");
    CHECK(impl.device == "cpu");
    CHECK(impl.dtypes == "(null)");
    CHECK(impl.architectures == "(null)");
    CHECK(impl.c.kind == OPDOCK_KIND_VENDOR);
    CHECK(impl.c.n_knobs == 0);
    CHECK(impl.c.knobs == nullptr);
    CHECK((impl.c.available == nullptr));
    CHECK((impl.c.plan_create == nullptr));
}

TEST_CASE("descriptions with a common start do not influence each other") {
    FakeRegistry registry;
    Registry plugin(*registry.c());
    const Impl base = Impl("default.cpu").kind(OPDOCK_KIND_DEFAULT).dtypes("f32");
    plugin.implement(ops::silu, Impl(base).kernel(kernel<&nothing>).knob("block", 1, 2, 1));
    plugin.implement(ops::gelu, Impl(base).dtypes("f16"));
    REQUIRE(registry.impls.size() == 2);
    CHECK(registry.impls[0].dtypes == "f32");
    CHECK(registry.impls[0].knobs.size() == 1);
    CHECK(registry.impls[1].dtypes == "f16");
    CHECK((registry.impls[1].c.kernel == nullptr));
    CHECK(registry.impls[1].knobs.empty());
}

TEST_CASE("an op with two implementations is declared once, with the standard text") {
    FakeRegistry registry;
    Registry plugin(*registry.c());
    plugin.implement(ops::silu, Impl("default.a")).implement(ops::silu, Impl("default.b"));
    CHECK(registry.signatures == std::vector<std::string>{OPDOCK_OP_SILU});
    CHECK(registry.impls.size() == 2);
}

TEST_CASE("a vendor's own op carries its paragraph") {
    FakeRegistry registry;
    constexpr OpDeclaration own("acme.twice(x: T[...]) -> (y: T[...])", "y = 2 x.");
    static_assert(own.name == "acme.twice");
    Registry(*registry.c()).declare(own).declare(ops::mul);
    CHECK(registry.signatures[0] == "acme.twice(x: T[...]) -> (y: T[...])");
    CHECK(registry.docs == std::vector<std::string>{"y = 2 x.", "(null)"});
}

TEST_CASE("a vendor's empty fields are null") {
    FakeRegistry registry;
    Registry(*registry.c()).vendor({"acme", "npu", "PrivateUse1", ""});
    CHECK(registry.vendors == std::vector<std::vector<std::string>>{{"acme", "npu", "PrivateUse1", "(null)"}});
}

TEST_CASE("a shutdown function gets its data") {
    FakeRegistry registry;
    int closed = 0;
    Registry(*registry.c()).on_shutdown([](void *count) { ++*static_cast<int *>(count); }, &closed);
    CHECK(closed == 1);
}

TEST_CASE("an entry that throws returns a status and its sentence") {
    FakeRegistry registry;
    CHECK(register_plugin(registry.c(), [](Registry &) { throw std::runtime_error("no licence"); }) == OPDOCK_FAILED);
    CHECK(registry.message == "no licence");
    CHECK(register_plugin(registry.c(), [](Registry &) { throw std::bad_alloc(); }) == OPDOCK_OUT_OF_MEMORY);
    CHECK(register_plugin(registry.c(), [](Registry &) { throw Failure(OPDOCK_UNSUPPORTED, "not on this CPU"); }) ==
          OPDOCK_UNSUPPORTED);
    CHECK(registry.message == "not on this CPU");
}
