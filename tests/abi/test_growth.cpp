// The rules by which the ABI grows (opdock/abi/version.h), in every direction: plugins of 1.0 and of made-up later
// versions on this host; programs whose structs are shorter or longer than this library's; and a plugin of 1.0 on a
// made-up later host.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "opdock/opdock.hpp"
#include "opdock/plugin.hpp"

using namespace opdock;
using nlohmann::json;

namespace {

// Turns the scan cache off, because a plugin may register different things in the hosts of one test.
struct OwnEnvironment {
    explicit OwnEnvironment(const char *which = "") {
        setenv("PLUGIN_MODULES_ONLY", "1", 1);
        setenv("PLUGIN_SCAN_CACHE", "off", 1);
        setenv("OPDOCK_ABI_CASE", which, 1);
    }
};

// A host with these plugins. The tests use the first implementation of abi.scale.
struct Opened {
    explicit Opened(std::vector<std::string> modules, const char *which = "") : environment(which) {
        Options options;
        options.modules = std::move(modules);
        options.log = [this](int32_t, std::string_view line) { log.emplace_back(line); };
        host.emplace(std::move(options));
    }

    json plugin(const std::string &id) const {
        const json described = json::parse(host->describe());
        for (const json &one : described["plugins"]) {
            if (one["id"] == id) {
                return one;
            }
        }
        return {};
    }
    bool logged(const std::string &text) const {
        return std::any_of(log.begin(), log.end(),
                           [&](const std::string &line) { return line.find(text) != std::string::npos; });
    }

    OwnEnvironment environment;
    std::vector<std::string> log;
    std::optional<Host> host;
};

// A call of abi.scale as programs built for 1.0 make it.
struct Scale {
    std::vector<float> in = {1, 2, 3};
    std::vector<float> out = {0, 0, 0};
    Tensor x{in.data(), f32, {3}};
    Tensor y{out.data(), f32, {3}};
    const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
    const std::array<Attribute, 1> attributes = {Attribute("factor", 3.0)};
    Args args{inputs, outputs, attributes};

    // Amount added to 3 * x; -1 if the call failed.
    double added(opdock_status status) {
        const double result = status == OPDOCK_OK ? out[2] - 9.0 : -1;
        out.assign(3, 0);
        return result;
    }
};

enum class Way { handle, name, prepared };
constexpr Way ways[] = {Way::handle, Way::name, Way::prepared};

const char *text_of(Way way) {
    constexpr const char *texts[] = {"by handle", "by name", "prepared"};
    return texts[static_cast<size_t>(way)];
}

opdock_status call(const Host &host, Way way, Scale &scale) {
    switch (way) {
    case Way::handle:
        return host.op("abi.scale").try_call(scale.args);
    case Way::name:
        return opdock_call_by_name(host.c(), "abi.scale", &scale.args.c());
    case Way::prepared:
        break;
    }
    opdock_prepared *prepared = nullptr;
    const opdock_status status = opdock_prepare(host.op("abi.scale").c(), &scale.args.c(), nullptr, &prepared);
    return status == OPDOCK_OK ? Prepared(prepared).run({scale.in.data(), scale.out.data()}) : status;
}

// Longer signatures of abi.scale, as later versions may declare them.
struct Form {
    const char *what, *signature;
};
constexpr Form forms[] = {
    {"an attribute", "abi.scale(x: T[..., n], *, factor: float = 2.0, power: int = 1) -> (y: T[..., n])"},
    {"an input", "abi.scale(x: T[..., n], z: T[..., n]?, *, factor: float = 2.0) -> (y: T[..., n])"},
    {"an output", "abi.scale(x: T[..., n], *, factor: float = 2.0) -> (y: T[..., n], extra: T[n]?)"},
    {"an attribute that may be absent",
     "abi.scale(x: T[..., n], *, factor: float = 2.0, how: string?) -> (y: T[..., n])"},
    {"dtypes", "abi.scale(x: T[..., n], *, factor: float = 2.0) -> (y: T[..., n]) where T in f32|f16|bf16|e4m3|f64"},
};

// Adds 0.25. It is last in the chain.
opdock_status longer_kernel(const opdock_problem *problem, const opdock_call *call) {
    const auto *x = static_cast<const float *>(call->data[0]);
    auto *y = static_cast<float *>(call->data[problem->tensor_offsets[problem->n_inputs]]);
    for (int64_t i = 0; i < opdock_n_elements(problem->tensors[0]); ++i) {
        y[i] = static_cast<float>(problem->attributes[0].as.f * x[i] + 0.25);
    }
    return OPDOCK_OK;
}

void extend(Host &host, const Form &form) {
    static const char *signature;
    signature = form.signature;
    host.register_module("later", "", [](opdock_registry *registry) {
        opdock_op_declaration op = {};
        op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        op.signature = signature;
        registry->register_op(registry, &op);
        opdock_impl impl = {};
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, get_extension);
        impl.kind = OPDOCK_KIND_REFERENCE;
        impl.op = "abi.scale";
        impl.impl_id = "reference.later";
        impl.device = "cpu";
        impl.dtypes = "f32";
        impl.kernel = longer_kernel;
        return registry->register_impl(registry, &impl);
    });
}

// Registrations that today's host leaves out of a plugin for a later version.
struct Unknown {
    const char *which, *sentence;
};
constexpr Unknown unknowns[] = {
    {"required flag", "implementation 'vendor.odd' for op 'abi.scale' is left out: its required_flags 0x80000000"},
    {"kind", "implementation 'vendor.odd' for op 'abi.scale' is left out: kind is 77"},
    {"dtypes", "implementation 'vendor.odd' for op 'abi.scale' is left out: dtypes 'f32|f6e9': 'f6e9' is not a dtype"},
    {"knob", "implementation 'vendor.odd' for op 'abi.scale' is left out: knob 'block'"},
    {"required flag of an op", "op 'abi.odd' is left out: required_flags 0x80000000"},
    {"dtype of a signature", "op 'abi.odd' is left out: signature, column"},
    {"type of an attribute", "op 'abi.odd' is left out: signature, column"},
    {"grammar", "op 'abi.odd' is left out: signature, column"},
    {"name", "op 'abi.odd@2' is left out: signature, column"},
    {"required flag of a device", "device 'newdev' is left out: required_flags 0x80000000"},
};

struct Version {
    const char *text, *id, *file;
};
constexpr Version later_versions[] = {{"1.1", "abi-newer-1-1", ABI_NEWER_1_1}, {"1.7", "abi-newer-1-7", ABI_NEWER_1_7}};

} // namespace

TEST_CASE("a plugin of 1.0 finds all that it was promised, in each way to call") {
    Opened opened({ABI_WORKER});
    CHECK(opened.plugin("abi-worker")["left_out"].empty());
    for (const Way way : ways) {
        CAPTURE(std::string(text_of(way)));
        Scale scale;
        CHECK_MESSAGE(scale.added(call(*opened.host, way, scale)) == 0, std::string(opdock_last_error()));
    }
}

TEST_CASE("a plugin of 1.0 serves what it knows, whatever is appended to its op before or after a call is prepared") {
    for (const Form &form : forms) {
        CAPTURE(std::string(form.what));
        for (const bool is_before : {true, false}) {
            CAPTURE(is_before);
            Opened opened({ABI_WORKER});
            Host &host = *opened.host;
            Scale scale;
            if (is_before) {
                extend(host, form);
            }
            const Op op = host.op("abi.scale");
            const Prepared prepared = op.prepare(scale.args);
            CHECK(scale.added(prepared.run({scale.in.data(), scale.out.data()})) == 0);
            CHECK(scale.added(op.try_call(scale.args)) == 0);
            if (!is_before) {
                extend(host, form);
            }
            CHECK(prepared.n_data() == 2);
            CHECK(prepared.impl() == "vendor.worker");
            CHECK(scale.added(prepared.run({scale.in.data(), scale.out.data()})) == 0);
            for (const Way way : ways) {
                CAPTURE(std::string(text_of(way)));
                CHECK(scale.added(call(host, way, scale)) == 0);
            }
            // The later one serves what this one declines.
            const std::array<Attribute, 1> negative = {Attribute("factor", -3.0)};
            op(Args(scale.inputs, scale.outputs, negative));
            CHECK(scale.out[2] == doctest::Approx(-8.75));
        }
    }
}

TEST_CASE("a call that uses what was appended is served by who knows it") {
    Opened opened({ABI_WORKER});
    Host &host = *opened.host;
    extend(host, forms[1]);
    Scale scale;
    std::vector<float> more = {1, 1, 1};
    const Tensor z(more.data(), f32, {3});
    const std::array<TensorArg, 2> inputs = {scale.x, z};
    const Args longer(inputs, scale.outputs, scale.attributes);
    const Op op = host.op("abi.scale");
    CHECK(scale.added(op.try_call(longer)) == 0.25);
    CHECK(scale.added(opdock_call_by_name(host.c(), "abi.scale", &longer.c())) == 0.25);
    const Prepared prepared = op.prepare(longer);
    CHECK(prepared.n_data() == 3);
    CHECK(scale.added(prepared.run({scale.in.data(), more.data(), scale.out.data()})) == 0.25);
}

TEST_CASE("of a plugin of a later version structs may be longer and flags have more bits") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        Opened opened({version.file});
        CHECK(opened.plugin(version.id)["status"] == "loaded");
        CHECK(opened.plugin(version.id)["left_out"].empty());
        for (const Way way : ways) {
            CAPTURE(std::string(text_of(way)));
            Scale scale;
            CHECK_MESSAGE(scale.added(call(*opened.host, way, scale)) == 0.5, std::string(opdock_last_error()));
        }
    }
}

TEST_CASE("of a plugin of a later version only what is not known is left out, with a warning") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        for (const Unknown &unknown : unknowns) {
            CAPTURE(std::string(unknown.which));
            Opened opened({version.file}, unknown.which);
            const json row = opened.plugin(version.id);
            CHECK(row["status"] == "loaded");
            REQUIRE(!row["left_out"].empty());
            const auto left_out = row["left_out"][0].get<std::string>();
            CAPTURE(left_out);
            CHECK(left_out.find(unknown.sentence) != std::string::npos);
            CHECK(opened.logged(unknown.sentence));
            for (const Way way : ways) {
                CAPTURE(std::string(text_of(way)));
                Scale scale;
                CHECK(scale.added(call(*opened.host, way, scale)) == 0.5);
            }
            opdock_op *odd = nullptr;
            CHECK(opdock_find_op(opened.host->c(), "abi.odd", &odd) == OPDOCK_UNKNOWN_OP);
        }
    }
}

TEST_CASE("a vendor and a device of a later version are taken as far as they are known") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        {
            const Opened opened({version.file}, "vendor");
            const std::string described = opened.host->describe();
            CHECK(described.find("\"newdev\"") != std::string::npos);
        }
        const Opened opened({version.file}, "device");
        const json devices = json::parse(opened.host->devices());
        REQUIRE(devices.size() == 2);
        CHECK(devices[1]["device"] == "newdev:0");
        CHECK(devices[1]["name"] == "Newer 1");
        void *memory = nullptr;
        CHECK(opdock_device_allocate(opened.host->c(), {kDLExtDev, 0}, nullptr, 100, &memory) == OPDOCK_OK);
        CHECK(opdock_device_free(opened.host->c(), {kDLExtDev, 0}, nullptr, memory) == OPDOCK_OK);
    }
}

TEST_CASE("a status of a later version counts as a failure, and the next implementation serves") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        Opened opened({version.file, ABI_WORKER}, "status");
        Scale scale;
        CHECK(scale.added(call(*opened.host, Way::handle, scale)) == 0);
        CHECK(opened.logged("status 77"));
        CHECK(scale.added(call(*opened.host, Way::name, scale)) == 0);
        CHECK(call(*opened.host, Way::prepared, scale) == 77); // unchanged, with nothing in between
    }
}

TEST_CASE("a plugin of a later version whose op is longer serves programs of 1.0, beside a plugin of 1.0") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        for (const bool is_first : {true, false}) {
            CAPTURE(is_first);
            Opened opened(is_first ? std::vector<std::string>{version.file, ABI_WORKER}
                                   : std::vector<std::string>{ABI_WORKER, version.file},
                          "longer");
            for (const Way way : ways) {
                CAPTURE(std::string(text_of(way)));
                Scale scale;
                CHECK_MESSAGE(scale.added(call(*opened.host, way, scale)) == 0.5, std::string(opdock_last_error()));
            }
            Scale scale;
            opened.host->set_policy(opened.host->policy({{"per_op", "abi.scale=impl:vendor.worker"}}));
            for (const Way way : ways) {
                CAPTURE(std::string(text_of(way)));
                CHECK(scale.added(call(*opened.host, way, scale)) == 0);
            }
        }
    }
}

TEST_CASE("an extension of a later version is not there, and one of a plugin is found") {
    for (const Version &version : later_versions) {
        CAPTURE(std::string(version.text));
        const Opened opened({version.file}, "extension");
        Scale scale;
        CHECK(scale.added(call(*opened.host, Way::handle, scale)) == 0.5);
        const auto *counters = opened.host->find_extension<uint32_t>("abi.scale", "vendor.newer", "newer.counters");
        REQUIRE(counters != nullptr);
        CHECK(counters[1] == 7);
    }
}

TEST_CASE("a later version that needs a later host is refused before its code runs, and so is another major version") {
    const OwnEnvironment environment;
    const auto checked = [](const char *file) {
        char *text = nullptr;
        REQUIRE(opdock_check_file(file, nullptr, &text) == OPDOCK_OK);
        json found = json::parse(text);
        opdock_string_free(text);
        return found;
    };
    CHECK(checked(ABI_WORKER)["status"] == "ok");
    CHECK(checked(ABI_NEWER_1_7)["status"] == "ok");
    CHECK(checked(ABI_NEEDS_1_7)["code"] == "OPDOCK-E012");
    CHECK(checked(ABI_NEEDS_1_7)["reason"].get<std::string>().find(
              "needs a host of ABI 1.7 or newer; this host has 1.0") != std::string::npos);
    CHECK(checked(ABI_2_1)["code"] == "OPDOCK-E012");
    CHECK(checked(ABI_0_1)["code"] == "OPDOCK-E012");
}

// --- programs
// ---------------------------------------------------------------------------------------------------------

namespace {

// A struct of today and the fields that a later version appends.
template<class T>
struct Later {
    T known = {};
    std::array<uint64_t, 7> appended = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
};

} // namespace

TEST_CASE("the options of a program may end early or go on") {
    const OwnEnvironment environment;
    const char *const modules[] = {ABI_WORKER};
    for (const uint32_t size :
         {OPDOCK_STRUCT_SIZE(opdock_options, log_user_data), OPDOCK_STRUCT_SIZE(opdock_options, workspace_user_data),
          OPDOCK_STRUCT_SIZE(opdock_options, extension_user_data),
          static_cast<uint32_t>(sizeof(Later<opdock_options>))}) {
        CAPTURE(size);
        Later<opdock_options> options;
        options.known.struct_size = size;
        options.known.n_modules = 1;
        options.known.modules = modules;
        options.known.log = [](void *, int32_t, const char *) {};
        opdock_host *host = nullptr;
        REQUIRE_MESSAGE(opdock_open(&options.known, &host) == OPDOCK_OK, std::string(opdock_last_error()));
        opdock_op *op = nullptr;
        REQUIRE(opdock_find_op(host, "abi.scale", &op) == OPDOCK_OK);
        Scale scale;
        CHECK(scale.added(opdock_call_op(op, &scale.args.c())) == 0);
        opdock_close(host);
    }
}

TEST_CASE("the arguments of a call may end early or go on, in each way to call") {
    Opened opened({ABI_WORKER});
    const Op op = opened.host->op("abi.scale");
    for (const uint32_t size :
         {OPDOCK_STRUCT_SIZE(opdock_args, stream), OPDOCK_STRUCT_SIZE(opdock_args, list_sizes),
          OPDOCK_STRUCT_SIZE(opdock_args, workspace_size), static_cast<uint32_t>(sizeof(Later<opdock_args>))}) {
        CAPTURE(size);
        Scale scale;
        Later<opdock_args> args;
        std::memset(&args.known, 0xa5, sizeof args.known);
        std::memcpy(&args.known, &scale.args.c(), OPDOCK_STRUCT_SIZE(opdock_args, stream));
        if (size > OPDOCK_STRUCT_SIZE(opdock_args, list_sizes)) {
            args.known.device = {};
            args.known.workspace = nullptr;
            args.known.workspace_size = 0;
        }
        args.known.struct_size = size;
        CHECK(scale.added(opdock_call_op(op.c(), &args.known)) == 0);
        CHECK(scale.added(opdock_call_by_name(opened.host->c(), "abi.scale", &args.known)) == 0);
        opdock_prepared *prepared = nullptr;
        REQUIRE(opdock_prepare(op.c(), &args.known, nullptr, &prepared) == OPDOCK_OK);
        CHECK(scale.added(Prepared(prepared).run({scale.in.data(), scale.out.data()})) == 0);
    }
}

TEST_CASE("what is told of outputs fits the size that the program knows, which is that of 1.0 or more") {
    Opened opened({ABI_WORKER});
    const Op op = opened.host->op("abi.scale");
    Scale scale;
    uint32_t count = 0;
    std::array<Later<opdock_tensor_spec>, 2> longer;
    CHECK(opdock_infer_outputs(op.c(), &scale.args.c(), &longer[0].known, sizeof longer[0], 2, &count) == OPDOCK_OK);
    CHECK(count == 1);
    CHECK(longer[0].known.shape[0] == 3);
    CHECK(longer[0].appended == std::array<uint64_t, 7>{});
    CHECK(longer[1].appended[0] == ~0ULL);
    opdock_tensor_spec shorter;
    std::memset(&shorter, 0xa5, sizeof shorter);
    CHECK(opdock_infer_outputs(op.c(), &scale.args.c(), &shorter, offsetof(opdock_tensor_spec, optional), 1, &count) ==
          OPDOCK_INVALID_ARGUMENT);
    CHECK(shorter.optional == 0xa5a5a5a5);
}

TEST_CASE("options of tuning may end early or go on, and flags that are not known are refused") {
    Opened opened({ABI_WORKER});
    const Op op = opened.host->op("abi.scale");
    Scale scale;
    for (const uint32_t size : {OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data),
                                static_cast<uint32_t>(sizeof(Later<opdock_tune_options>))}) {
        CAPTURE(size);
        Later<opdock_tune_options> options;
        options.known.struct_size = size;
        options.known.flags = OPDOCK_TUNE_DRY_RUN;
        char *text = nullptr;
        // There is nothing to tune: it has a knob but no tune file.
        CHECK(opdock_tune(op.c(), &scale.args.c(), &options.known, &text) == OPDOCK_UNSUPPORTED);
        options.known.flags = 1U << 31;
        CHECK(opdock_tune(op.c(), &scale.args.c(), &options.known, &text) == OPDOCK_INVALID_ARGUMENT);
    }
}

// --- a later host
// -----------------------------------------------------------------------------------------------------

namespace {

// A made-up later host, which knows more, and everything that a plugin of 1.0 hands to it.
struct LaterHost {
    Later<opdock_registry> registry;
    Later<opdock_host_api> api;
    std::vector<opdock_impl> impls;
    std::vector<std::string> signatures;
    std::vector<std::string> vendors;

    LaterHost() {
        api.known.struct_size = sizeof api;
        api.known.abi_major = 1;
        api.known.abi_minor = 7;
        api.known.fail = [](const opdock_host_api *, opdock_status status, const char *) { return status; };
        api.known.get_extension = [](const opdock_host_api *, const char *) -> const void * { return nullptr; };
        api.known.dim = [](const opdock_problem *problem, const char *) { return problem->tensors[0]->shape[0]; };
        registry.known.struct_size = sizeof registry;
        registry.known.abi_major = 1;
        registry.known.abi_minor = 7;
        registry.known.host_data = this;
        registry.known.host = &api.known;
        registry.known.register_op = [](opdock_registry *to, const opdock_op_declaration *op) {
            CHECK(op->struct_size == OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc));
            self(to).signatures.emplace_back(op->signature);
            return OPDOCK_OK;
        };
        registry.known.register_vendor = [](opdock_registry *to, const opdock_vendor *vendor) {
            self(to).vendors.emplace_back(vendor->name);
            return OPDOCK_OK;
        };
        registry.known.register_impl = [](opdock_registry *to, const opdock_impl *impl) {
            opdock_impl known = {};
            std::memcpy(&known, impl, std::min<size_t>(impl->struct_size, sizeof known));
            self(to).impls.push_back(known);
            return OPDOCK_OK;
        };
    }

    static LaterHost &self(opdock_registry *registry) { return *static_cast<LaterHost *>(registry->host_data); }
};

} // namespace

TEST_CASE("a plugin of 1.0 does on a later host what it did") {
    void *library = dlopen(ABI_WORKER, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    const auto entry = reinterpret_cast<opdock_entry>(dlsym(library, OPDOCK_ENTRY_SYMBOL));
    REQUIRE(bool(entry != nullptr));
    LaterHost host;
    REQUIRE(entry(&host.registry.known) == OPDOCK_OK);
    CHECK(host.signatures ==
          std::vector<std::string>{"abi.scale(x: T[..., n], *, factor: float = 2.0) -> (y: T[..., n])"});
    CHECK(host.vendors == std::vector<std::string>{"worker"});
    REQUIRE(host.impls.size() == 1);
    const opdock_impl &impl = host.impls[0];
    CHECK(impl.struct_size == OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size));
    CHECK(bool(impl.get_extension == nullptr));

    Scale scale;
    DLTensor x = scale.x.c(), y = scale.y.c();
    const DLTensor *const tensors[] = {&x, &y};
    const uint32_t offsets[] = {0, 1, 2};
    opdock_value factor = {OPDOCK_VALUE_FLOAT, 0, {}};
    factor.as.f = 3;
    int64_t knobs[] = {4};
    Later<opdock_problem> problem;
    problem.known.struct_size = sizeof problem;
    problem.known.flags = ~0U;
    problem.known.n_inputs = problem.known.n_outputs = problem.known.n_attributes = 1;
    problem.known.n_tensors = 2;
    problem.known.n_knobs = 1;
    problem.known.tensors = tensors;
    problem.known.tensor_offsets = offsets;
    problem.known.attributes = &factor;
    problem.known.device = {kDLCPU, 0};
    problem.known.user_data = impl.user_data;
    problem.known.host = &host.api.known;
    CHECK(impl.available(&host.api.known, impl.user_data, {kDLCPU, 0}) == OPDOCK_OK);
    CHECK(impl.supports(&problem.known) == OPDOCK_OK);
    CHECK(impl.heuristic(&problem.known, knobs) == OPDOCK_OK);
    problem.known.knobs = knobs;
    CHECK(impl.device_init(&host.api.known, impl.user_data, {kDLCPU, 0}, &problem.known.device_state) == OPDOCK_OK);
    CHECK(impl.plan_create(&problem.known, &problem.known.plan) == OPDOCK_OK);
    uint64_t bytes = 0;
    CHECK(impl.workspace_size(&problem.known, &bytes) == OPDOCK_OK);
    CHECK(bytes == 64);
    alignas(256) std::array<std::byte, 64> workspace{};
    void *const data[] = {scale.in.data(), scale.out.data()};
    const opdock_call call{
        OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), ~0U, 2, 0, data, nullptr, workspace.data(), 64};
    CHECK(scale.added(impl.kernel(&problem.known, &call)) == 0);
    impl.plan_destroy(&host.api.known, impl.user_data, {kDLCPU, 0}, problem.known.plan);
    impl.device_fini(&host.api.known, impl.user_data, {kDLCPU, 0}, problem.known.device_state);
}

TEST_CASE("properties of a device fit the host's struct, whoever knows more") {
    opdock_device_properties own = {};
    std::strcpy(own.name, "Acme 1");
    own.cache = 5;
    Later<opdock_device_properties> later;
    later.appended = {};
    later.known.struct_size = sizeof later;
    opdock_device_properties_give(&later.known, &own);
    CHECK(later.known.struct_size == sizeof later);
    CHECK(std::string(later.known.name) == "Acme 1");
    CHECK(later.appended == std::array<uint64_t, 7>{});
    opdock_device_properties older;
    std::memset(&older, 0xa5, sizeof older);
    older.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_properties, driver);
    opdock_device_properties_give(&older, &own);
    CHECK(older.cache == 0xa5a5a5a5a5a5a5a5);
    CHECK(std::string(older.name) == "Acme 1");
}
