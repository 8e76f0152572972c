// libtvm_ffi.so and the modules, opened when something of them is first needed: a plugin loads without them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tvm_ffi_api.hpp"

namespace tvm_ffi {

// A function of a module, or why there is none.
struct Function {
    Handle handle = nullptr;
    std::string why_not;
};

// Stays open, as plugins do, and so does what it loads.
class Library {
  public:
    // The one that the process has loaded, else `file`; "" is libtvm_ffi.so where the dynamic loader finds it.
    explicit Library(const std::string &file);

    // Empty when the library is there, new enough, and has all functions.
    const std::string &why_not() const { return why_not_; }
    const Functions &functions() const { return functions_; }

    // [any thread] Loads the module at its first function.
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
    Handle load_module_ = nullptr, get_function_ = nullptr; // of tvm-ffi's own, by name
    std::mutex mutex_;
    std::map<std::string, Module> modules_; // by path
};

// What a function that returned a status other than 0 said: "ValueError: n is odd", and what it is.
struct Raised {
    std::string kind, message, backtrace;

    std::string text() const { return kind + ": " + message; }
};

// Takes the error from this thread.
Raised take_error(const Functions &functions, int status);

} // namespace tvm_ffi
