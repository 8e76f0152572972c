// A stand-in for libtvm_ffi.so with the functions that the plugin and kernels.c use. FAKE_MINOR is its version;
// WITHOUT_STREAMS omits the function that sets streams.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <dlfcn.h>

#include "tvm_ffi_api.hpp"

#ifndef FAKE_MINOR
#define FAKE_MINOR 1
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using tvm_ffi::Bytes;
using tvm_ffi::Handle;
using tvm_ffi::Value;
using SafeCall = int (*)(void *self, const Value *arguments, std::int32_t count, Value *result);

// An object of the stand-in: a module has `library`, a function has the other fields.
struct Thing {
    tvm_ffi::Object header;
    SafeCall call;
    void *library;
};

struct Error : tvm_ffi::ErrorObject {
    std::string kind_text, message_text, backtrace_text;
};

thread_local std::unique_ptr<Error> raised;
thread_local std::map<std::pair<std::int32_t, std::int32_t>, void *> streams;

int raise(const std::string &kind, const std::string &message) {
    raised = std::make_unique<Error>();
    raised->header.type = 67;
    raised->kind_text = kind;
    raised->message_text = message;
    raised->backtrace_text = "kernels.c, the stand-in";
    raised->kind = {raised->kind_text.data(), raised->kind_text.size()};
    raised->message = {raised->message_text.data(), raised->message_text.size()};
    raised->backtrace = {raised->backtrace_text.data(), raised->backtrace_text.size()};
    return -1;
}

Value object_of(std::int32_t type, SafeCall call, void *library) {
    Value value = {};
    value.type = type;
    value.object = new Thing{{1, type, 0, nullptr}, call, library}; // never freed
    return value;
}

int load_module(void * /*self*/, const Value *arguments, std::int32_t /*count*/, Value *result) {
    void *const library = dlopen(arguments[0].text, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        return raise("RuntimeError", dlerror());
    }
    *result = object_of(73, nullptr, library);
    return 0;
}

int get_function(void * /*self*/, const Value *arguments, std::int32_t /*count*/, Value *result) {
    const std::string symbol = "__tvm_ffi_" + std::string(arguments[1].text);
    void *const found = dlsym(static_cast<Thing *>(arguments[0].object)->library, symbol.c_str());
    *result = found == nullptr ? Value{} : object_of(68, reinterpret_cast<SafeCall>(found), nullptr);
    return 0;
}

} // namespace

EXPORTED void TVMFFIGetVersion(tvm_ffi::Version *version) {
    *version = {0, FAKE_MINOR, 0};
}

EXPORTED int TVMFFIFunctionGetGlobal(const Bytes *name, Handle *function) {
    const std::string asked(name->data, name->size);
    const SafeCall call = asked == "ffi.ModuleLoadFromFile"  ? load_module
                          : asked == "ffi.ModuleGetFunction" ? get_function
                                                             : nullptr;
    *function = call == nullptr ? nullptr : object_of(68, call, nullptr).object;
    return 0;
}

EXPORTED int TVMFFIFunctionCall(Handle function, const Value *arguments, std::int32_t count, Value *result) {
    return static_cast<Thing *>(function)->call(function, arguments, count, result);
}

EXPORTED void TVMFFIErrorMoveFromRaised(Handle *error) {
    *error = raised.release();
}

EXPORTED void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
    (void)raise(kind, message);
}

EXPORTED int TVMFFIObjectDecRef(Handle object) {
    if (static_cast<tvm_ffi::Object *>(object)->type == 67) {
        delete static_cast<Error *>(object);
    }
    return 0;
}

#ifndef WITHOUT_STREAMS
EXPORTED int TVMFFIEnvSetStream(std::int32_t type, std::int32_t index, void *stream, void **original) {
    void *&current = streams[{type, index}];
    if (original != nullptr) {
        *original = current;
    }
    current = stream;
    return 0;
}
#endif

EXPORTED void *TVMFFIEnvGetStream(std::int32_t type, std::int32_t index) {
    return streams[{type, index}];
}
