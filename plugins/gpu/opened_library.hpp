// An NVIDIA library that is opened at its first use: the plugin loads without it.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace gpu {

// Stays open, as plugins do.
class OpenedLibrary {
  public:
    // Opens the first of `files` that the program has already loaded, else the first that loads. `name`: for messages.
    OpenedLibrary(const char *name, std::initializer_list<const char *> files) : name_(name) {
        // RTLD_LOCAL: its symbols must not be visible to others.
        for (const char *file : files) {
            library_ = library_ != nullptr ? library_ : dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        }
        std::string errors;
        for (const char *file : files) {
            if (library_ == nullptr && (library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL)) == nullptr) {
                const char *error = dlerror(); // NOLINT(concurrency-mt-unsafe): of this thread
                errors += (errors.empty() ? "" : "; ") + std::string(error != nullptr ? error : file);
            }
        }
        if (library_ == nullptr) {
            why_not_ = name_ + " cannot be opened: " + errors;
        }
    }

    // Leaves `function` null, and sets the reason, if the library or the function is missing.
    template<class Function>
    void find(const char *name, Function &function) {
        function = library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
        if (function == nullptr) {
            refuse("has no function " + std::string(name));
        }
    }

    // Records "cuDNN " + `why` as the reason, unless there is one already.
    void refuse(const std::string &why) {
        if (why_not_.empty()) {
            why_not_ = name_ + " " + why;
        }
    }

    // Empty if the library and all requested functions were found.
    const std::string &why_not() const { return why_not_; }

  private:
    std::string name_, why_not_;
    void *library_ = nullptr;
};

} // namespace gpu
