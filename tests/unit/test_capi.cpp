#include "opdock/opdock.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "call_arguments.hpp"
#include "fake_device.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

std::string fixture(const std::string &name) {
    return fixtures_folder().string() + "/lib" + name + ".so";
}

// Hides the machine's plugins and settings from programs whose prefix is MADE_.
class OwnEnvironment {
  public:
    OwnEnvironment() {
        setenv("MADE_PLUGIN_MODULES_ONLY", "1", 1);
        setenv("MADE_SCAN_CACHE", "off", 1);
    }
    ~OwnEnvironment() {
        for (const char *name : {"MADE_PLUGIN_MODULES_ONLY", "MADE_SCAN_CACHE", "MADE_PREFER"}) {
            unsetenv(name);
        }
    }
    OwnEnvironment(const OwnEnvironment &) = delete;
    OwnEnvironment &operator=(const OwnEnvironment &) = delete;
};

opdock_options options_with(std::vector<std::string> &log) {
    opdock_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, workspace_user_data);
    options.prefix = "MADE_";
    options.log = [](void *self, int32_t level, const char *line) {
        static_cast<std::vector<std::string> *>(self)->push_back(std::to_string(level) + " " + line);
    };
    options.log_user_data = &log;
    return options;
}

// Sets a variable of the environment during its lifetime.
class Exported {
  public:
    Exported(const char *name, const std::string &value) : name_(name) {
        if (const char *given = std::getenv(name)) {
            before_ = given;
        }
        setenv(name, value.c_str(), 1);
    }
    ~Exported() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
    Exported(const Exported &) = delete;
    Exported &operator=(const Exported &) = delete;

  private:
    const char *name_;
    std::optional<std::string> before_;
};

// A host opened as a C program opens it.
struct Opened {
    OwnEnvironment environment;
    std::vector<std::string> log;
    opdock_host *runtime = nullptr;

    opdock_options options = options_with(log);

    explicit Opened(std::vector<const char *> modules = {})
        : Opened([&](opdock_options &given) {
              given.modules = modules.data();
              given.n_modules = static_cast<uint32_t>(modules.size());
          }) {}
    explicit Opened(const std::function<void(opdock_options &)> &adjust) {
        adjust(options);
        REQUIRE_MESSAGE(opdock_open(&options, &runtime) == OPDOCK_OK, last_error());
    }
    ~Opened() { close(); }
    void close() { opdock_close(std::exchange(runtime, nullptr)); }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;

    void add(const std::string &id, std::function<opdock_status(opdock_registry *)> entry,
             const char *vendor = nullptr) {
        next_entry = std::move(entry);
        REQUIRE_MESSAGE(opdock_register_module(runtime, id.c_str(), vendor, run_next_entry, nullptr) == OPDOCK_OK,
                        last_error());
    }
    void add(Made &made) {
        add("module-of-" + made.impl_id, [&](opdock_registry *registry) {
            for (const char *signature : test_ops) {
                declare(registry, signature);
            }
            register_made(registry, made);
            return OPDOCK_OK;
        });
    }
    opdock_op *op(const char *name = "test.add") const {
        opdock_op *handle = nullptr;
        REQUIRE(opdock_find_op(runtime, name, &handle) == OPDOCK_OK);
        return handle;
    }
};

// Parses the text that a C function returned, and frees it.
json taken(char *text) {
    REQUIRE(text != nullptr);
    const json parsed = json::parse(text);
    opdock_string_free(text);
    return parsed;
}

struct AddCall {
    std::vector<float> in = {1, 2, 3};
    std::vector<float> out = {0, 0, 0};
    CallArguments call;

    opdock_args &args() {
        call.input(0).address = reinterpret_cast<uint64_t>(in.data());
        call.output(0).address = reinterpret_cast<uint64_t>(out.data());
        return call.args();
    }
    AddCall() { call.in(OPDOCK_F32, {3}).out(OPDOCK_F32, {3}); }
};

} // namespace

TEST_CASE("options that a host does not know, or that lack their other half, are refused") {
    const OwnEnvironment environment;
    std::vector<std::string> log;
    opdock_host *runtime = nullptr;
    const auto refusal = [&](const opdock_options &options) {
        CHECK(opdock_open(&options, &runtime) == OPDOCK_INVALID_ARGUMENT);
        CHECK(runtime == nullptr);
        return last_error();
    };
    opdock_options options = options_with(log);
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, log_user_data) - 1;
    CHECK(contains(refusal(options), "struct_size is too small"));
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, allocate_workspace) - 4;
    CHECK(contains(refusal(options), "struct_size ends inside a field"));
    options = options_with(log);
    options.flags = OPDOCK_OPEN_RETRY << 1;
    CHECK(contains(refusal(options), "flags has bits that this host does not know"));
    options = options_with(log);
    options.allocate_workspace = [](void *, DLDevice, void *, uint64_t) -> void * { return nullptr; };
    CHECK(contains(refusal(options), "set both allocate_workspace and free_workspace, or neither"));
    options.allocate_workspace = nullptr;
    options.free_workspace = [](void *, DLDevice, void *, void *) {};
    CHECK(contains(refusal(options), "set both allocate_workspace and free_workspace, or neither"));
    opdock_close(nullptr);
}

TEST_CASE("options end where the header of an older program ended, and what lies behind is not read") {
    const OwnEnvironment environment;
    std::vector<std::string> log;
    opdock_options options = options_with(log);
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, log_user_data);
    options.free_workspace = [](void *, DLDevice, void *, void *) {}; // refused without the other function of the pair
    opdock_host *host = nullptr;
    REQUIRE_MESSAGE(opdock_open(&options, &host) == OPDOCK_OK, last_error());
    opdock_close(host);
    CHECK_FALSE(log.empty());
    struct {
        opdock_options known;
        void *appended[2];
    } newer = {options_with(log), {&log, &log}};
    newer.known.struct_size = sizeof newer;
    REQUIRE_MESSAGE(opdock_open(&newer.known, &host) == OPDOCK_OK, last_error());
    opdock_close(host);
}

TEST_CASE("a kernel finds the extensions that the program offers, until the host is closed") {
    Opened opened([](opdock_options &options) {
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, extension_user_data);
        options.get_extension = [](void *user_data, const char *name) -> const void * {
            return std::string_view(name) == "acme.counters" ? user_data : nullptr;
        };
        static uint32_t counters = sizeof counters;
        options.extension_user_data = &counters;
    });
    const opdock_host_api *api = nullptr;
    std::vector<const void *> found;
    Made made("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        api = problem.host;
        found = {api->get_extension(api, "acme.counters"), api->get_extension(api, "acme.other"),
                 opdock_thread_pool_of(api)};
        return OPDOCK_OK;
    };
    opened.add(made);
    AddCall add;
    REQUIRE_MESSAGE(opdock_call_op(opened.op(), &add.args()) == OPDOCK_OK, last_error());
    CHECK(found == std::vector<const void *>{opened.options.extension_user_data, nullptr, nullptr});
    opened.close();
    CHECK(api->get_extension(api, "acme.counters") == nullptr);
}

TEST_CASE("a thread pool of an older header that lacks what a kernel needs is none") {
    static opdock_thread_pool pool = {};
    Opened opened([](opdock_options &options) {
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, extension_user_data);
        options.get_extension = [](void *, const char *) -> const void * { return &pool; };
    });
    std::vector<const void *> found;
    Made made("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        found.push_back(opdock_thread_pool_of(problem.host));
        return OPDOCK_OK;
    };
    opened.add(made);
    for (const uint32_t size :
         {OPDOCK_STRUCT_SIZE(opdock_thread_pool, user_data), OPDOCK_STRUCT_SIZE(opdock_thread_pool, parallel_for)}) {
        pool.struct_size = size;
        AddCall add;
        REQUIRE_MESSAGE(opdock_call_op(opened.op(), &add.args()) == OPDOCK_OK, last_error());
    }
    CHECK(found == std::vector<const void *>{nullptr, &pool});
}

TEST_CASE("the library says which ABI it has") {
    uint32_t major = 99, minor = 99;
    opdock_abi_version(&major, &minor);
    CHECK(major == OPDOCK_ABI_MAJOR);
    CHECK(minor == OPDOCK_ABI_MINOR);
}

TEST_CASE("the entry of a module finds what the program gave for it, and that of another one nothing") {
    Opened host;
    int mine = 0;
    const opdock_entry count = [](opdock_registry *registry) -> opdock_status {
        CHECK(registry->struct_size >= OPDOCK_STRUCT_SIZE(opdock_registry, user_data));
        ++*static_cast<int *>(registry->user_data);
        return OPDOCK_OK;
    };
    CHECK(opdock_register_module(host.runtime, "counted", nullptr, count, &mine) == OPDOCK_OK);
    CHECK(mine == 1);
    host.add("without", [](opdock_registry *registry) {
        CHECK(registry->user_data == nullptr);
        return OPDOCK_OK;
    });
}

TEST_CASE("a call on another device leaves the program's device current, whichever way it is made") {
    Opened host;
    FakeKind fake;
    host.add("fake", [&](opdock_registry *registry) { return fake.provide(registry); });
    Made made("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    made.device = "fake";
    std::vector<int32_t> current;
    made.work = [&](const opdock_problem &, const opdock_call &) {
        current.push_back(fake.current);
        return OPDOCK_OK;
    };
    host.add(made);
    FakeRows rows(1);
    const std::array<opdock::TensorArg, 1> inputs = {rows.x}, outputs = {rows.y};
    const opdock::Args args(inputs, outputs);
    fake.current = 0;
    CHECK(opdock_call_op(host.op(), &args.c()) == OPDOCK_OK);
    CHECK(fake.current == 0);
    CHECK(opdock_call_by_name(host.runtime, "test.add", &args.c()) == OPDOCK_OK);
    CHECK(fake.current == 0);
    CHECK(current == std::vector<int32_t>{1, 1});
}

TEST_CASE("a program in C loads plugins, calls by handle and by name, and counts") {
    const std::string good = fixture("good");
    Opened host({good.c_str()});
    CHECK(std::any_of(host.log.begin(), host.log.end(), [](const std::string &line) {
        return line.starts_with(std::to_string(OPDOCK_LOG_INFO)) &&
               contains(line, "Registered impl_ids: ['vendor.acme']");
    }));
    CHECK(opdock_load(host.runtime, "/nonexistent/libnone.so") == OPDOCK_LOAD_FAILED);
    CHECK(opdock_load(host.runtime, fixture("default_adder").c_str()) == OPDOCK_OK);
    Made made("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add(made);
    AddCall call;
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_OK);
    CHECK(opdock_call_by_name(host.runtime, "test.add", &call.args()) == OPDOCK_OK);
    CHECK(call.out == std::vector<float>{2, 3, 4});
    CHECK(opdock_call_by_name(host.runtime, "test.ad", &call.args()) == OPDOCK_UNKNOWN_OP);
    CHECK(contains(last_error(), "did you mean 'test.add'?"));
    opdock_op *handle = host.op();
    CHECK(opdock_find_op(host.runtime, "test.ad", &handle) == OPDOCK_UNKNOWN_OP);
    CHECK(handle == nullptr);
    uint64_t count = 0;
    CHECK(opdock_served_count(host.runtime, "test.add", "default.one", &count) == OPDOCK_OK);
    CHECK(count == 2);

    made.status = OPDOCK_FAILED;
    for (int i = 0; i < 3; ++i) {
        CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_ALL_FAILED);
    }
    made.status = OPDOCK_OK;
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_ALL_DROPPED);
    CHECK(opdock_reset_health(host.runtime, nullptr, nullptr) == OPDOCK_OK);
    CHECK(opdock_refresh_availability(host.runtime) == OPDOCK_OK);
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_OK);
    char *text = nullptr;
    CHECK(opdock_describe(host.runtime, &text) == OPDOCK_OK);
    CHECK_FALSE(contains(text, "\n")); // a single line, as programs that log it expect
    CHECK(taken(text)["plugins"].size() == 3);
    CHECK(opdock_check_file(good.c_str(), nullptr, &text) == OPDOCK_OK);
    CHECK(taken(text)["status"] == "ok");
}

TEST_CASE("a quarantined plugin is tried again where a program in C names it and asks for that") {
    const TemporaryDirectory folder;
    const Exported cache("XDG_CACHE_HOME", folder.path().string());
    const std::string plugin = fixture("aborts_when_asked");
    const char *const modules[] = {plugin.c_str()};
    const auto status = [&](uint32_t flags, bool is_named = true) {
        std::optional<Exported> found;
        const Opened host([&](opdock_options &options) {
            unsetenv("MADE_SCAN_CACHE");
            options.flags = flags;
            if (is_named) {
                options.modules = modules;
                options.n_modules = 1;
            } else {
                found.emplace("MADE_PLUGIN_MODULES", plugin);
            }
        });
        char *text = nullptr;
        REQUIRE(opdock_describe(host.runtime, &text) == OPDOCK_OK);
        const json plugins = taken(text)["plugins"];
        REQUIRE(plugins.size() == 1);
        return plugins[0]["status"].get<std::string>();
    };
    {
        const Exported aborts("OPDOCK_FIXTURE_ABORTS", "1");
        CHECK(status(0) == "rejected");
    }
    CHECK(status(0) == "rejected");
    CHECK(status(OPDOCK_OPEN_RETRY, false) == "rejected");
    CHECK(status(OPDOCK_OPEN_RETRY) == "loaded");
    const Exported aborts("OPDOCK_FIXTURE_ABORTS", "1");
    CHECK(status(OPDOCK_OPEN_RETRY) == "loaded"); // the plugin is known by now, and not tried again
    CHECK(status(OPDOCK_OPEN_RESCAN) == "rejected");
}

TEST_CASE("a program in C has plugins asked again what is available") {
    static bool is_available;
    is_available = false;
    Opened host;
    Made made("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    made.adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status {
            return is_available ? OPDOCK_OK : OPDOCK_UNSUPPORTED;
        };
    };
    host.add(made);
    AddCall call;
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_ALL_DROPPED);
    is_available = true;
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_ALL_DROPPED);
    CHECK(opdock_refresh_availability(host.runtime) == OPDOCK_OK);
    CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_OK);
}

TEST_CASE("outputs are inferred as far as there is room for them, and all are counted") {
    Opened host;
    Made made("default.pair", OPDOCK_KIND_DEFAULT);
    made.op = "test.pair";
    host.add(made);
    CallArguments call;
    call.in(OPDOCK_F32, {5}).in(OPDOCK_F16, {5});
    std::vector<opdock_tensor_spec> specs(2);
    specs[1].ndim = -1;
    uint32_t count = 0;
    constexpr uint32_t size = sizeof(opdock_tensor_spec);
    CHECK(opdock_infer_outputs(host.op("test.pair"), &call.args(), specs.data(), size, 1, &count) == OPDOCK_OK);
    CHECK(count == 2);
    CHECK(specs[0].shape[0] == 5);
    CHECK(specs[1].ndim == -1);
    CHECK(opdock_infer_outputs(host.op("test.pair"), &call.args(), specs.data(), size, 2, &count) == OPDOCK_OK);
    CHECK(std::string(specs[1].name) == "extra");
    CHECK(specs[1].dtype.bits == 16);
    CHECK(specs[1].shape[0] == 5);
    CHECK(specs[0].shape[0] == 5); // both outputs at once

    // Programs whose headers have a longer spec, or a shorter one than any header ever had.
    struct Longer {
        opdock_tensor_spec known;
        uint64_t appended;
    };
    std::vector<Longer> longer(2, Longer{{}, 7});
    CHECK(opdock_infer_outputs(host.op("test.pair"), &call.args(), &longer[0].known, sizeof(Longer), 2, &count) ==
          OPDOCK_OK);
    CHECK(std::string(longer[0].known.name) == "output");
    CHECK(std::string(longer[1].known.name) == "extra");
    CHECK(longer[1].known.shape[0] == 5);
    CHECK(longer[1].appended == 0);
    CHECK(opdock_infer_outputs(host.op("test.pair"), &call.args(), specs.data(), size - 1, 2, &count) ==
          OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "spec_size"));
}

TEST_CASE("a signature as JSON has every parameter with what it is, and every attribute with its default") {
    Opened host;
    host.add("module", [](opdock_registry *registry) {
        return declare(
            registry,
            "test.all(mut a: T[m]*, b: U[..., 2*n]?, host c: i32[n], *, i: int, j: int = 3, f: float = 0.5, b1: bool = "
            "true, b0: bool = false, s: string = \"text\", l: int[] = [1, 2], d: U = f32) -> (x ~ b: U[..., 2*n]?) "
            "where n % 4 == 0, m in 1|2*n, U in f32|f64");
    });
    char *text = nullptr;
    CHECK(opdock_signature_json(host.op("test.all"), &text) == OPDOCK_OK);
    const json signature = taken(text);
    CHECK(signature["op"] == "test.all");
    CHECK(signature["inputs"] == json::parse(R"json([
        {"name": "a", "dtype": "T", "dims": ["m"], "optional": false, "list": true, "mut": true, "host": false},
        {"name": "b", "dtype": "U", "dims": ["...", "2*n"], "optional": true, "list": false, "mut": false, "host": false},
        {"name": "c", "dtype": "i32", "dims": ["n"], "optional": false, "list": false, "mut": false, "host": true}])json"));
    CHECK(signature["outputs"].size() == 1);
    CHECK(signature["outputs"][0]["name"] == "x");
    CHECK(signature["outputs"][0]["dims"] == json({"...", "2*n"}));
    CHECK(signature["dtype_variables"] == json({"T", "U"}));
    CHECK(signature["dtypes"] == json::parse(R"json({"T": ["f32", "f16", "bf16"], "U": ["f64", "f32"]})json"));
    CHECK(signature["where"] == json::parse(R"json([{"left": "n%4", "operator": "==", "right": ["0"]},
                                                    {"left": "m", "operator": "in", "right": ["1", "2*n"]}])json"));
    const json &attributes = signature["attributes"];
    REQUIRE(attributes.size() == 8);
    CHECK(attributes[0]["default"] == nullptr);
    CHECK(attributes[0]["type"] == "int");
    CHECK(attributes[1]["default"] == 3);
    CHECK(attributes[2]["default"] == 0.5);
    CHECK(attributes[3]["default"] == true);
    CHECK(attributes[4]["default"] == false);
    CHECK(attributes[5]["default"] == "text");
    CHECK(attributes[6]["default"] == json({1, 2}));
    CHECK(attributes[7]["default"] == "f32");
    CHECK(attributes[7]["variable"] == "U");
    CHECK(attributes[6]["variable"] == nullptr);
}

TEST_CASE("a text is parsed without a host, and a wrong one is refused with the column") {
    char *text = nullptr;
    CHECK(opdock_parse_signature("acme.f(a: T[ n ])->(b: T[n])", &text) == OPDOCK_OK);
    const json signature = taken(text);
    CHECK(signature["op"] == "acme.f");
    CHECK(signature["signature"] == "acme.f(a: T[n]) -> (b: T[n])");
    CHECK(opdock_parse_signature("acme.f(a: T[n]) -> (b: T[n", &text) == OPDOCK_INVALID_ARGUMENT);
    CHECK(text == nullptr);
    CHECK(contains(last_error(), "signature, column 27"));
}

TEST_CASE("a policy of the program, of a thread and of the environment, each over the one before") {
    Opened host;
    Made standard("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Made acme("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Made reference("reference.three", OPDOCK_KIND_REFERENCE, {}, 3);
    for (Made *made : {&standard, &acme, &reference}) {
        host.add(*made);
    }
    AddCall call;
    const auto added = [&] {
        CHECK(opdock_call_op(host.op(), &call.args()) == OPDOCK_OK);
        return call.out[0] - call.in[0];
    };
    const auto policy = [&](const char *value) {
        const opdock_setting setting = {"prefer", value};
        opdock_policy *made = nullptr;
        REQUIRE(opdock_policy_create(host.runtime, &setting, 1, &made) == OPDOCK_OK);
        return made;
    };
    CHECK(added() == 1);
    setenv("MADE_PREFER", "vendor", 1);
    CHECK(added() == 1);
    CHECK(opdock_policy_reload(host.runtime) == OPDOCK_OK);
    CHECK(added() == 2);
    opdock_policy *const of_program = policy("reference");
    CHECK(opdock_policy_set(host.runtime, of_program) == OPDOCK_OK);
    CHECK(added() == 3);
    opdock_policy *const of_thread = policy("default");
    CHECK(opdock_policy_push(host.runtime, of_thread) == OPDOCK_OK);
    CHECK(added() == 1);
    opdock_policy *effective = nullptr;
    CHECK(opdock_policy_effective(host.runtime, &effective) == OPDOCK_OK);
    CHECK(opdock_policy_pop(host.runtime) == OPDOCK_OK);
    CHECK(added() == 3);
    CHECK(opdock_policy_pop(host.runtime) == OPDOCK_INVALID_ARGUMENT);
    CHECK(opdock_policy_push(host.runtime, effective) == OPDOCK_OK);
    CHECK(added() == 1);
    CHECK(opdock_policy_pop(host.runtime) == OPDOCK_OK);
    CHECK(opdock_policy_set(host.runtime, nullptr) == OPDOCK_OK);
    CHECK(added() == 2);
    for (opdock_policy *made : {of_program, of_thread, effective}) {
        opdock_policy_release(made);
    }
    opdock_policy *wrong = nullptr;
    const opdock_setting setting = {"prefer", "quickest"};
    CHECK(opdock_policy_create(host.runtime, &setting, 1, &wrong) == OPDOCK_INVALID_POLICY);
    CHECK(wrong == nullptr);
}

TEST_CASE("a program in C has a device's memory, copies there and back, and times what it does") {
    Opened host;
    FakeKind fake;
    host.add("fake", [&](opdock_registry *registry) { return fake.provide(registry); });
    DLDevice device = {};
    CHECK(opdock_find_device(host.runtime, "fake:1", &device) == OPDOCK_OK);
    CHECK(device.device_id == 1);
    CHECK(opdock_find_device(host.runtime, "fak:1", &device) == OPDOCK_INVALID_ARGUMENT);
    char *text = nullptr;
    CHECK(opdock_devices(host.runtime, &text) == OPDOCK_OK);
    const json devices = taken(text);
    std::vector<std::string> architectures;
    for (const json &one : devices) {
        if (one["type"] == "fake") {
            architectures.push_back(one["device"].get<std::string>() + " " + one["architecture"].get<std::string>());
        }
    }
    CHECK(architectures == std::vector<std::string>{"fake:0 fk_10", "fake:1 fk_20"});

    void *memory = nullptr;
    REQUIRE(opdock_device_allocate(host.runtime, device, &fake, 8, &memory) == OPDOCK_OK);
    CHECK(fake.streams.back() == &fake);
    const std::vector<float> sent = {5, 6};
    std::vector<float> back = {0, 0};
    CHECK(opdock_device_copy(host.runtime, memory, device, sent.data(), cpu, 8, nullptr) == OPDOCK_OK);
    CHECK(opdock_device_copy(host.runtime, back.data(), cpu, memory, device, 8, nullptr) == OPDOCK_OK);
    CHECK(back == sent);
    const char one_byte = 'x';
    CHECK(opdock_device_copy(host.runtime, memory, device, &one_byte, cpu, 1, nullptr) == OPDOCK_OK);
    CHECK(*static_cast<const char *>(memory) == 'x');
    const int64_t waited = fake.count("stream 1");
    CHECK(opdock_device_synchronize(host.runtime, device, nullptr) == OPDOCK_OK);
    CHECK(fake.count("stream 1") == waited + 1);
    CHECK(opdock_device_free(host.runtime, device, nullptr, memory) == OPDOCK_OK);
    CHECK(fake.outstanding.empty());

    CHECK(fake.current == -1); // unchanged

    double microseconds = -1;
    const auto advance = [](void *self) -> opdock_status {
        auto &kind = *static_cast<FakeKind *>(self);
        kind.clock += 25;
        return kind.current == 1 ? OPDOCK_OK : OPDOCK_FAILED;
    };
    CHECK(opdock_device_time(host.runtime, device, &fake.clock, advance, &fake, &microseconds) == OPDOCK_OK);
    CHECK(microseconds == doctest::Approx(25));
    fake.current = 0;
    CHECK(opdock_device_time(host.runtime, device, &fake.clock, advance, &fake, &microseconds) == OPDOCK_OK);
    CHECK(fake.current == 0);
    const auto decline = [](void *) -> opdock_status { return OPDOCK_UNSUPPORTED; };
    CHECK(opdock_device_time(host.runtime, device, &fake.clock, decline, nullptr, &microseconds) == OPDOCK_UNSUPPORTED);
    CHECK(microseconds == 0);
    CHECK(fake.current == 0);
    const DLDevice nobodys = {kDLVPI, 0};
    CHECK(opdock_device_time(host.runtime, nobodys, nullptr, decline, nullptr, &microseconds) == OPDOCK_UNSUPPORTED);
    CHECK_FALSE(last_error().empty());
}

TEST_CASE("a provider is asked about no device that it does not count") {
    Opened host;
    FakeKind fake;
    host.add("fake", [&](opdock_registry *registry) { return fake.provide(registry); });
    DLDevice found = {kDLCPU, 0};
    CHECK(opdock_find_device(host.runtime, "fake:2", &found) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "there is no device fake:2: plugin 'fake' reports 2 devices"));
    CHECK(found.device_type == kDLCPU);
    CHECK(opdock_find_device(host.runtime, "cpu:1", &found) == OPDOCK_INVALID_ARGUMENT);
    CHECK(opdock_find_device(host.runtime, "cuda:3", &found) == OPDOCK_OK); // no plugin provides it
    fake.events.clear();
    const DLDevice beyond = fake_device(2), there = fake_device(0);
    float numbers[2] = {1, 2};
    void *memory = &numbers;
    double microseconds = 0;
    CHECK(opdock_device_allocate(host.runtime, beyond, nullptr, 8, &memory) == OPDOCK_INVALID_ARGUMENT);
    CHECK(opdock_device_free(host.runtime, beyond, nullptr, numbers) == OPDOCK_INVALID_ARGUMENT);
    CHECK(opdock_device_synchronize(host.runtime, beyond, nullptr) == OPDOCK_INVALID_ARGUMENT);
    CHECK(opdock_device_time(host.runtime, beyond, nullptr, nullptr, nullptr, &microseconds) ==
          OPDOCK_INVALID_ARGUMENT);
    for (const DLDevice &other : {there, cpu}) {
        CHECK(opdock_device_copy(host.runtime, numbers, beyond, numbers, other, 4, nullptr) == OPDOCK_INVALID_ARGUMENT);
        CHECK(opdock_device_copy(host.runtime, numbers, other, numbers, beyond, 4, nullptr) == OPDOCK_INVALID_ARGUMENT);
    }
    CHECK(fake.events.empty());
}

TEST_CASE("options of tuning that end before what every host reads are refused, and longer ones are read") {
    Opened host;
    Made made("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add(made);
    AddCall call;
    struct Newer {
        opdock_tune_options known;
        uint64_t more;
    } newer = {};
    opdock_tune_options &options = newer.known;
    char *text = nullptr;
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data) - 1;
    CHECK(opdock_tune(host.op(), &call.args(), &options, &text) == OPDOCK_INVALID_ARGUMENT);
    CHECK(contains(last_error(), "opdock_tune_options.struct_size is too small"));
    options.struct_size = sizeof newer;
    CHECK(opdock_tune(host.op(), &call.args(), &options, &text) == OPDOCK_UNSUPPORTED);
    CHECK(contains(last_error(), "there is nothing to tune"));
    CHECK(text == nullptr);
}

TEST_CASE("tune files are joined, and what is left out of them is said") {
    const char *const texts[] = {
        "schema: opdock.tune/1\nops:\n  a: {pinned: [{key: {n: 1}, config: {block: 2}}]}\n",
        "schema: opdock.tune/1\nops:\n  a: {pinned: [{key: {n: 1}, config: {block: 4}}], confgs: []}\n"};
    const char *const names[] = {"one.yaml", "two.yaml"};
    char *yaml = nullptr;
    char *warnings = nullptr;
    REQUIRE(opdock_tune_merge(texts, names, 1, &yaml, &warnings) == OPDOCK_OK);
    CHECK(warnings == nullptr);
    CHECK(contains(yaml, "block: 2"));
    opdock_string_free(yaml);
    REQUIRE(opdock_tune_merge(texts, names, 2, &yaml, &warnings) == OPDOCK_OK);
    CHECK(contains(yaml, "block: 4"));
    CHECK_FALSE(contains(yaml, "block: 2"));
    REQUIRE(warnings != nullptr);
    CHECK(contains(warnings, "two.yaml:3:"));
    CHECK(contains(warnings, "unknown field 'confgs'"));
    CHECK(std::string(warnings).ends_with("\n"));
    opdock_string_free(yaml);
    opdock_string_free(warnings);

    Opened host;
    CHECK(opdock_tune_export(host.runtime, "nosuch", nullptr, &yaml) == OPDOCK_UNKNOWN_OP);
    CHECK(yaml == nullptr);
    uint64_t count = 7;
    CHECK(opdock_tune_import(host.runtime, "rubbish: [", "mine.yaml", &count) == OPDOCK_INVALID_TUNE_FILE);
    CHECK(count == 0);
    CHECK(contains(last_error(), "mine.yaml"));
}
