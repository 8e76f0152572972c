// A library of NVIDIA's that is opened when it is first asked for: the plugin loads without it.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace gpu {

// Stays open, as plugins do.
class OpenedLibrary {
  public:
    // `name` is for messages. Of `files` one that the program has loaded; else the first that the loader finds.
    OpenedLibrary(const char *name, std::initializer_list<const char *> files) : name_(name) {
        // RTLD_LOCAL: its names are nobody else's business.
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

    // Leaves `function` null, and says so, when the library is not there or lacks it.
    template<class Function>
    void find(const char *name, Function &function) {
        function = library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
        if (function == nullptr) {
            refuse("has no function " + std::string(name));
        }
    }

    // The first reason counts: "cuDNN " + `why`.
    void refuse(const std::string &why) {
        if (why_not_.empty()) {
            why_not_ = name_ + " " + why;
        }
    }

    // Empty when the library and all functions that were asked for are there.
    const std::string &why_not() const { return why_not_; }

  private:
    std::string name_, why_not_;
    void *library_ = nullptr;
};

} // namespace gpu
