#include "inspect/library_place.hpp"

#include <cstddef>
#include <new>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <link.h>

namespace opdock::core {

std::filesystem::path library_directory() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(&library_directory), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code failed;
    const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, failed);
    if (failed == std::errc::not_enough_memory) {
        throw std::bad_alloc(); // not "no library": its probe may exist
    }
    return failed ? std::filesystem::path() : library.parent_path();
}

namespace {

std::string read_program_rpath() {
    void *const program = ::dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
    const link_map *map = nullptr;
    const bool is_known =
        program != nullptr && ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void *>(&map)) == 0 && map != nullptr;
    const ElfW(Dyn) *rpath = nullptr, *runpath = nullptr, *strings = nullptr;
    for (const ElfW(Dyn) *entry = is_known ? map->l_ld : nullptr; entry != nullptr && entry->d_tag != DT_NULL;
         ++entry) {
        rpath = entry->d_tag == DT_RPATH ? entry : rpath;
        runpath = entry->d_tag == DT_RUNPATH ? entry : runpath;
        strings = entry->d_tag == DT_STRTAB ? entry : strings;
    }
    std::string text;
    if (rpath != nullptr && runpath == nullptr && strings != nullptr) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader writes addresses there
        text = reinterpret_cast<const char *>(strings->d_un.d_ptr) + rpath->d_un.d_val;
    }
    if (program != nullptr) {
        ::dlclose(program);
    }
    std::error_code unknown;
    const std::string folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path().string();
    for (const std::string_view word : {std::string_view("${ORIGIN}"), std::string_view("$ORIGIN")}) {
        for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += folder.size()) {
            text.replace(at, word.size(), folder);
        }
    }
    return text;
}

} // namespace

const std::string &program_rpath() {
    static const std::string text = read_program_rpath(); // needed for each plugin
    return text;
}

} // namespace opdock::core
