// The plugin for tvm-ffi modules that plugin-pack fills in: it registers what its contents describe.
#include <deque>
#include <filesystem>
#include <span>

#include <dlfcn.h>

#include "call.hpp"
#include "room.hpp"

// plugin-pack overwrites these blanks, within their length.
#define BLANKS_32 "                                "
#define BLANKS_256 BLANKS_32 BLANKS_32 BLANKS_32 BLANKS_32 BLANKS_32 BLANKS_32 BLANKS_32 BLANKS_32
OPDOCK_NOTE_OF(OPDOCK_NOTE_JSON("tvm-ffi-empty", "0", "opdock", "cpu", "") BLANKS_256 BLANKS_256 BLANKS_256 BLANKS_256)

namespace {

// Lives as long as the process: hosts keep pointers to it.
struct Plugin {
    tvm_ffi::Contents contents;
    std::filesystem::path folder;
    std::deque<tvm_ffi::Entry> entries;
};

// The folder of this plugin. While the plugin is being opened, a link below /proc gives its path.
std::filesystem::path own_folder() {
    Dl_info info = {};
    if (dladdr(&opdock_note, &info) == 0 || info.dli_fname == nullptr) {
        throw std::runtime_error("the dynamic loader does not report the path of the plugin");
    }
    return std::filesystem::canonical(std::filesystem::path(info.dli_fname).parent_path());
}

tvm_ffi::Library &library();

std::unique_ptr<Plugin> read_plugin() {
    auto plugin = std::make_unique<Plugin>();
    const std::span<const std::byte> filled = tvm_ffi::filled_room();
    if (filled.empty()) {
        throw std::runtime_error("it contains no modules: `plugin-pack tvm-ffi` makes plugins from it");
    }
    tvm_ffi::ContentsReader reader(filled);
    reader(plugin->contents);
    plugin->folder = own_folder();
    for (const tvm_ffi::Implementation &implementation : plugin->contents.implementations) {
        tvm_ffi::Entry &entry = plugin->entries.emplace_back();
        entry.implementation = implementation;
        entry.library = library;
        entry.module = (plugin->folder / implementation.module).lexically_normal();
    }
    return plugin;
}

Plugin &plugin() {
    static Plugin &one = *read_plugin().release();
    return one;
}

tvm_ffi::Library &library() {
    const std::string &file = plugin().contents.library;
    static auto &one = *new tvm_ffi::Library(file.empty() ? file : (plugin().folder / file).string()); // NOLINT
    return one;
}

void add(opdock::Registry &registry, tvm_ffi::Entry &entry) {
    const tvm_ffi::Implementation &from = entry.implementation;
    opdock::Impl impl(from.id);
    impl.device(from.device)
        .dtypes(from.dtypes)
        .architectures(from.architectures)
        .priority(from.priority)
        .alignment(from.alignment)
        .user_data(&entry)
        .available(opdock::available<&tvm_ffi::available>)
        .supports(opdock::supports<&tvm_ffi::supports>)
        .plan(opdock::plan<&tvm_ffi::make_plan>)
        .kernel(opdock::kernel<&tvm_ffi::call>);
    const auto has = [&from](std::uint32_t flag) { return (from.flags & flag) != 0; };
    if (has(OPDOCK_IMPL_DETERMINISTIC)) {
        impl.deterministic();
    }
    if (has(OPDOCK_IMPL_CAPTURE_SAFE)) {
        impl.capture_safe();
    }
    if (has(OPDOCK_IMPL_BATCH_INVARIANT)) {
        impl.batch_invariant();
    }
    if ((from.required_flags & OPDOCK_IMPL_NEEDS_CONTIGUOUS) != 0) {
        impl.needs_contiguous();
    }
    for (const tvm_ffi::Knob &knob : from.knobs) {
        if (knob.is_bool) {
            impl.bool_knob(knob.name, knob.standard != 0);
        } else {
            impl.knob(knob.name, knob.minimum, knob.maximum, knob.standard);
        }
    }
    opdock::OpDeclaration op("");
    op.signature = from.signature;
    op.name = op.signature.substr(0, op.signature.find('('));
    registry.implement(op, impl);
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &to) {
        for (tvm_ffi::Entry &entry : plugin().entries) {
            add(to, entry);
        }
    });
}
