// libtvm_ffi.so and the modules, opened on first use: a plugin loads without them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tvm_ffi_api.hpp"

namespace tvm_ffi {

// A function of a module, or the reason why it is missing.
struct Function {
    Handle handle = nullptr;
    std::string why_not;
};

// Stays open, as plugins do, together with all that it loads.
class Library {
  public:
    // Uses the library that the process has loaded, else `file`; "" lets the dynamic loader find libtvm_ffi.so.
    explicit Library(const std::string &file);

    // Empty if the library was found, is new enough, and has all functions.
    const std::string &why_not() const { return why_not_; }
    const Functions &functions() const { return functions_; }

    // [any thread] Loads the module when its first function is requested.
    Function find(const std::string &module, const std::string &name);

  private:
    struct Module {
        Value value;
        std::string why_not;
    };

    void open(const std::string &file);
    void bind();
    template<class Pointer>
    void bind(const char *name, Pointer &pointer);
    Handle global(const char *name);
    Module load(const std::string &path);

    void *library_ = nullptr;
    std::string why_not_;
    Functions functions_ = {};
    Handle load_module_ = nullptr, get_function_ = nullptr; // tvm-ffi's own, found by name
    std::mutex mutex_;
    std::map<std::string, Module> modules_; // by path
};

// The error of a function that returned a nonzero status: its message, "ValueError: n is odd", and its kind.
struct Raised {
    std::string kind, message, backtrace;

    std::string text() const { return kind + ": " + message; }
};

// Moves the error out of this thread.
Raised take_error(const Functions &functions, int status);

} // namespace tvm_ffi
