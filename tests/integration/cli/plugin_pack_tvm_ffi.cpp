// plugin-pack tvm-ffi, and the tools on the plugins that it makes.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tools.hpp"

using namespace opdock::test;

namespace {

constexpr const char *manifest = R"(plugin: acme-modules
version: 1.2.0
vendor: acme
module: modules/kernels.so
device: cpu
alignment: 4
implementations:
  - op: relu
    function: relu
    dtypes: f32
    arguments: [input, output]
  - op: rmsnorm_fwd
    function: rmsnorm
    dtypes: f32,f32
    flatten: true
    knobs: {block: {minimum: 1, maximum: 64, default: 8}}
    arguments: [output, input, weight, eps, block]
)";

// Sees the plugin and, unless the name is "", the stand-in for libtvm_ffi.so of that name.
struct PluginTool : Tool {
    PluginTool(const char *program, const std::string &plugin, const std::string &library)
        : Tool(program, {plugin, REFERENCE_PLUGIN}) {
        with("PLUGIN_PREFER", "vendor");
        if (!library.empty()) {
            const char *before = std::getenv("LD_LIBRARY_PATH"); // has a sanitizer's library, if any
            with("LD_LIBRARY_PATH",
                 std::string(TVM_FFI_FAKES "/") + library + (before != nullptr ? ":" + std::string(before) : ""));
        }
    }
};

// A folder with a manifest, the module that it names, and the plugin made from it.
struct Workplace {
    explicit Workplace(const std::string &text = manifest) {
        folder.write("acme.yaml", text);
        std::filesystem::create_directory(folder.path() / "modules");
        std::filesystem::copy_file(TVM_FFI_KERNELS, folder.path() / "modules/kernels.so");
    }

    Finished make(const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"tvm-ffi", folder.path() / "acme.yaml", "--out", plugin};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return Tool(PLUGIN_PACK, {}).run(arguments);
    }

    PluginTool tool(const char *program, const std::string &library = "fake") const {
        return {program, plugin, library};
    }

    // The reason why relu's implementation is not used.
    std::string why_not(const std::string &library) const {
        const Finished why = tool(PLUGIN_LS, library).run({"--why", "relu", "--device", "cpu", "--json"});
        CHECK(why.code == 0);
        return why.out;
    }

    TemporaryDirectory folder;
    std::string plugin = folder.path() / "libacme.so";
};

Finished fault_of(const std::string &text) {
    return Workplace(text).make();
}

} // namespace

TEST_CASE("plugin-pack makes a plugin of a manifest, with the note and the implementations that it says") {
    const Workplace workplace;
    const Finished made = workplace.make();
    REQUIRE(made.code == 0);
    CHECK(contains(made.out, "2 implementations"));
    const Finished listed = workplace.tool(PLUGIN_LS).run({"--json"});
    CHECK(contains(listed.out, "\"id\": \"acme-modules\""));
    CHECK(contains(listed.out, "\"version\": \"1.2.0\""));
    CHECK(contains(listed.out, "\"impl_id\": \"vendor.acme\""));
    CHECK(workplace.tool(PLUGIN_LS).run({"--check", workplace.plugin}).code == 0);
    const Finished run = workplace.tool(PLUGIN_RUN).run({"relu", "--in", "input=random:f32[2,3]", "--json"});
    CHECK(run.code == 0);
    CHECK(contains(run.out, "\"vendor.acme\""));
}

TEST_CASE("the same manifest makes the same bytes, and another one another build") {
    const Workplace workplace;
    REQUIRE(workplace.make().code == 0);
    const auto read = [&] { return workplace.tool(PLUGIN_SIGN).run({"digest", workplace.plugin}).out; };
    const std::string first = read();
    CHECK(workplace.make().code == 1); // the output exists
    REQUIRE(workplace.make({"--force"}).code == 0);
    CHECK(read() == first);
    workplace.folder.write("acme.yaml", std::string(manifest) + "    priority: 1\n");
    REQUIRE(workplace.make({"--force"}).code == 0);
    CHECK(read() != first);
}

TEST_CASE("a plugin of modules is checked, tuned, denied, signed and packed as any other") {
    const Workplace workplace;
    REQUIRE(workplace.make().code == 0);
    const Finished checked = workplace.tool(PLUGIN_CHECK).run({workplace.plugin, "--seed", "1"});
    CHECK_MESSAGE(checked.code == 0, checked.out);
    CHECK(contains(checked.out, "2 implementations checked"));

    workplace.folder.write("acme.tune.yaml",
                           "schema: opdock.tune/1\nops:\n  rmsnorm_fwd:\n    configs: [{block: 1}, {block: 64}]\n");
    const Finished tuned = workplace.tool(PLUGIN_TUNE)
                               .with("PLUGIN_TUNE_DB", (workplace.folder.path() / "tune.sqlite").string())
                               .run({"rmsnorm_fwd", "--impl", "vendor.acme", "--shape", "input=f32[8,64]", "--shape",
                                     "weight=f32[64]", "--budget", "200ms"});
    CHECK_MESSAGE(tuned.code == 0, tuned.err);
    CHECK(contains(tuned.out, "block"));

    const Finished denied = workplace.tool(PLUGIN_RUN)
                                .with("PLUGIN_DENY_VENDORS", "acme")
                                .run({"relu", "--in", "input=random:f32[2,3]", "--json"});
    CHECK(contains(denied.out, "\"reference.cpp\""));

    const std::string key = workplace.folder.path() / "acme";
    REQUIRE(workplace.tool(PLUGIN_SIGN).run({"keygen", key, "--no-passphrase"}).code == 0);
    REQUIRE(workplace.tool(PLUGIN_SIGN).run({"sign", workplace.plugin, "--key", key + ".key"}).code == 0);
    CHECK(workplace.tool(PLUGIN_SIGN).run({"verify", workplace.plugin, "--pub", key + ".pub"}).code == 0);
    const std::string package = workplace.folder.path() / "acme.opdock";
    CHECK(workplace.tool(PLUGIN_PACK)
              .run({"patch", "--device-type", "Acme_A1", "--task", "inference", "--plugin", workplace.plugin, "--key",
                    key + ".key", "--out", package, "--no-questions"})
              .code == 0);
}

TEST_CASE("what a plugin of modules needs and has not is a reason") {
    const Workplace workplace;
    REQUIRE(workplace.make().code == 0);
    CHECK(contains(workplace.why_not(""), "tvm-ffi cannot be opened"));
    CHECK(contains(workplace.why_not("fake_old"), "tvm-ffi is 0.0.0; this plugin needs 0.1 or newer"));
    CHECK(contains(workplace.why_not("fake_incomplete"), "tvm-ffi has no function TVMFFIEnvSetStream"));
    workplace.folder.write("modules/kernels.so", "not ELF");
    CHECK(contains(workplace.why_not("fake"), "modules/kernels.so' does not load: RuntimeError"));
    std::filesystem::remove(workplace.folder.path() / "modules/kernels.so");
    CHECK(contains(workplace.why_not("fake"), "modules/kernels.so' does not exist, or cannot be read"));
    std::filesystem::copy_file(TVM_FFI_FAKES "/fake/libtvm_ffi.so", workplace.folder.path() / "modules/kernels.so");
    CHECK(contains(workplace.why_not("fake"), "has no function 'relu'; it would export the symbol __tvm_ffi_relu"));
}

TEST_CASE("the library may lie where the manifest says") {
    const Workplace workplace("library: modules/libtvm_ffi.so\n" + std::string(manifest));
    REQUIRE(workplace.make().code == 0);
    CHECK(contains(workplace.why_not(""), "modules/libtvm_ffi.so: cannot open shared object file"));
    std::filesystem::copy_file(TVM_FFI_FAKES "/fake/libtvm_ffi.so", workplace.folder.path() / "modules/libtvm_ffi.so");
    const Finished run = workplace.tool(PLUGIN_RUN, "").run({"relu", "--in", "input=random:f32[2,3]", "--json"});
    CHECK(contains(run.out, "\"vendor.acme\""));
}

TEST_CASE("each fault of a manifest has its line and column") {
    const Finished made = fault_of(R"yaml(plugin: Acme
version: 1.0.0
vendr: acme
device: cpu
implementations:
  - op: rel
    function: relu
    module: a.so
  - op: rmsnorm_fwd
    function: rmsnorm
    module: a.so
    dtypes: f32
    alignment: 12
    priority: high
    contiguous: false
    flatten: true
    architectures: sm_90++
    where: m < 8
    knobs: {block: {minimum: 1, maximum: 64, default: 80}, fast: 3, slow: {minimum: 1}}
    arguments: [outptu, input, eps, block, [1]]
  - op: "acme.scale(x: T[..., n], f: float) -> (y: T[..., n])"
    module: a.so
  - op: 'acme.all(x: T[n]*, *, sizes: int[]) -> (y: T[n]*)'
    module: a.so
    function: all
    arguments: [x, sizes, y]
  - relu
)yaml");
    CHECK(made.code == 1);
    for (const char *fault :
         {"acme.yaml:1:9: plugin: expected lower-case letters",
          "1:1: expected a field 'vendor'",
          "3:1: unknown field 'vendr'; did you mean 'vendor'?",
          "6:9: op: 'rel' is not a standard op",
          "12:13: dtypes 'f32': 'f32' has 1 dtype, but the signature has 2",
          "13:16: alignment: expected a power of two",
          "14:15: priority: expected an integer",
          "15:17: contiguous: only contiguous tensors can be flattened",
          "17:20: architectures: 'sm_90++' is not an architecture",
          "18:12: where: signature, column",
          "19:13: knob 'block' has default 80 outside its range 1 to 64",
          "19:66: a knob: expected true, false or a map",
          "19:75: a knob: expected a field 'maximum'",
          "20:17: 'outptu' is not a tensor, attribute or knob of 'rmsnorm_fwd'; did you mean 'output'?",
          "20:44: an argument: expected a value, found a list",
          "20:16: arguments: the function does not get 'weight'",
          "21:9: op: signature, column 29",
          "21:5: expected a field 'function'",
          "23:5: op 'acme.all' has lists of tensors",
          "27:5: an implementation: expected a map, found a value"}) {
        CHECK_MESSAGE(contains(made.err, fault), fault, "\n", made.err);
    }
}

TEST_CASE("a manifest that is no YAML, is too large, names no implementations or one twice is refused") {
    CHECK(contains(fault_of("plugin: [").err, "acme.yaml:"));
    CHECK(contains(fault_of("- a\n").err, "1:1: the manifest: expected a map, found a list"));
    CHECK(contains(fault_of(std::string(300 * 1024, '#')).err, "acme.yaml"));
    CHECK(contains(fault_of("plugin: a\nversion: 1\nvendor: a\n").err, "1:1: expected a field 'implementations'"));
    const std::string text = manifest;
    CHECK(contains(
        fault_of(text + text.substr(text.find("  - op: rmsnorm"))).err,
        "18:5: op 'rmsnorm_fwd' has two implementations with the id 'vendor.acme'; give one of them another 'id'"));
    std::string many = text.substr(0, text.find("  - op: rmsnorm"));
    for (int i = 0; i < 600; ++i) {
        many += "  - {op: relu, id: " + std::string(100, 'a') + std::to_string(i) +
                ", function: relu, arguments: [input, output]}\n";
    }
    CHECK(contains(fault_of(many).err, "more than a plugin has room for"));
}

TEST_CASE("the library of which plugins are made is none itself") {
    const Finished rejected = PluginLs({TVM_FFI_EMPTY}).run({"--rejected"});
    CHECK(contains(rejected.out, "it contains no modules"));
}
