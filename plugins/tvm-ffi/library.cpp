#include "library.hpp"

#include <array>

#include <dlfcn.h>
#include <unistd.h>

namespace tvm_ffi {
namespace {

constexpr const char *file_name = "libtvm_ffi.so";

Bytes bytes_of(const char *text) {
    return {text, std::char_traits<char>::length(text)};
}

std::string text_of(Bytes bytes) {
    return bytes.data == nullptr ? std::string() : std::string(bytes.data, bytes.size);
}

Value raw_text(const std::string &text) {
    Value value = {};
    value.type = type_raw_text;
    value.text = text.c_str();
    return value;
}

std::string loader_error() {
    const char *error = dlerror(); // NOLINT(concurrency-mt-unsafe): of this thread
    return error != nullptr ? error : "the dynamic loader does not say why";
}

} // namespace

Raised take_error(const Functions &functions, int status) {
    Handle handle = nullptr;
    functions.error_move_from_raised(&handle);
    if (handle == nullptr) {
        return {"RuntimeError", "status " + std::to_string(status) + " without an error", ""};
    }
    const auto &error = *static_cast<const ErrorObject *>(handle);
    Raised raised{text_of(error.kind), text_of(error.message), text_of(error.backtrace)};
    functions.object_dec_ref(handle);
    return raised;
}

Library::Library(const std::string &file) {
    open(file);
    if (library_ != nullptr) {
        bind();
    }
}

// Uses RTLD_GLOBAL, as tvm-ffi's Python package does: modules may rely on the process for its symbols.
void Library::open(const std::string &file) {
    library_ = dlopen(file_name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (library_ == nullptr) {
        library_ = dlopen(file.empty() ? file_name : file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
    if (library_ == nullptr) {
        why_not_ = "tvm-ffi cannot be opened: " + loader_error() + ". It is " + file_name +
                   " of the Python package apache-tvm-ffi: add its folder to LD_LIBRARY_PATH, or put the file where "
                   "the plugin's manifest says";
    }
}

template<class Pointer>
void Library::bind(const char *name, Pointer &pointer) {
    pointer = reinterpret_cast<Pointer>(dlsym(library_, name));
    if (pointer == nullptr && why_not_.empty()) {
        why_not_ = std::string("tvm-ffi has no function ") + name + "; install apache-tvm-ffi 0.1 or newer";
    }
}

void Library::bind() {
    bind("TVMFFIGetVersion", functions_.get_version);
    bind("TVMFFIFunctionGetGlobal", functions_.function_get_global);
    bind("TVMFFIFunctionCall", functions_.function_call);
    bind("TVMFFIErrorMoveFromRaised", functions_.error_move_from_raised);
    bind("TVMFFIObjectDecRef", functions_.object_dec_ref);
    bind("TVMFFIEnvSetStream", functions_.env_set_stream);
    if (!why_not_.empty()) {
        return;
    }
    Version version = {};
    functions_.get_version(&version);
    if (version.major != 0 || version.minor < 1) { // the changes of 1.0 are unknown
        why_not_ = "tvm-ffi is " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
                   std::to_string(version.patch) + "; this plugin needs 0.1 or newer, but older than 1.0";
        return;
    }
    load_module_ = global("ffi.ModuleLoadFromFile");
    get_function_ = global("ffi.ModuleGetFunction");
}

Handle Library::global(const char *name) {
    const Bytes bytes = bytes_of(name);
    Handle function = nullptr;
    if (const int status = functions_.function_get_global(&bytes, &function)) {
        why_not_ = std::string("tvm-ffi does not provide ") + name + ": " + take_error(functions_, status).text();
    } else if (function == nullptr && why_not_.empty()) {
        why_not_ = std::string("tvm-ffi has no function ") + name + "; install apache-tvm-ffi 0.1 or newer";
    }
    return function;
}

Library::Module Library::load(const std::string &path) {
    Module module = {};
    if (access(path.c_str(), R_OK) != 0) {
        module.why_not = "module '" + path + "' does not exist, or cannot be read";
        return module;
    }
    const Value argument = raw_text(path);
    if (const int status = functions_.function_call(load_module_, &argument, 1, &module.value)) {
        module.why_not = "module '" + path + "' does not load: " + take_error(functions_, status).text();
    } else if (module.value.type < type_object) {
        module.why_not = "module '" + path + "' does not load: tvm-ffi returns no module for it";
    }
    return module;
}

Function Library::find(const std::string &path, const std::string &name) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = modules_.try_emplace(path);
    Module &module = place->second;
    if (is_new) {
        module = load(path);
    }
    if (!module.why_not.empty()) {
        return {nullptr, module.why_not};
    }
    std::array<Value, 3> arguments = {module.value, raw_text(name), Value{}};
    arguments[2].type = type_bool; // false: do not search imported modules
    Value result = {};
    if (const int status = functions_.function_call(get_function_, arguments.data(), 3, &result)) {
        return {nullptr, "module '" + path + "': " + take_error(functions_, status).text()};
    }
    if (result.type < type_object) {
        return {nullptr,
                "module '" + path + "' has no function '" + name + "'; it would export the symbol __tvm_ffi_" + name};
    }
    return {result.object, ""};
}

} // namespace tvm_ffi
