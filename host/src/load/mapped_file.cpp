#include "load/mapped_file.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include "files/reject.hpp"
#include "inspect/elf_notes.hpp"

namespace opdock::core {
namespace {

// A file as identified in /proc/self/maps: "fe:01 1835".
struct KernelsName {
    std::array<char, 32> device{};
    std::array<char, 32> inode{};

    bool is_known() const { return inode.front() != '\0'; }
    bool operator==(const KernelsName &) const = default;
};

// Finds the files mapped at two addresses. Stops after the second: recent mappings usually come first.
void find_names(std::uintptr_t one, KernelsName &name_of_one, std::uintptr_t other, KernelsName &name_of_other) {
    struct Close {
        void operator()(std::FILE *file) const { (void)std::fclose(file); }
    };
    std::array<char, 4096> buffer{}; // libc's own buffer would need memory, and its failure would look like the end
    const std::unique_ptr<std::FILE, Close> maps(std::fopen("/proc/self/maps", "re"));
    if (maps == nullptr && errno == ENOMEM) {
        throw std::bad_alloc();
    }
    if (maps != nullptr) {
        (void)std::setvbuf(maps.get(), buffer.data(), _IOFBF, buffer.size());
    }
    std::array<char, 512> text{};
    bool is_begin = true; // of a line, which may exceed the buffer
    while (maps != nullptr && !(name_of_one.is_known() && name_of_other.is_known()) &&
           std::fgets(text.data(), text.size(), maps.get()) != nullptr) {
        unsigned long begin = 0, end = 0;
        KernelsName name;
        // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel wrote it
        if (is_begin && std::sscanf(text.data(), "%lx-%lx %*s %*s %31s %31s", &begin, &end, name.device.data(),
                                    name.inode.data()) == 4) {
            if (begin <= one && one < end) {
                name_of_one = name;
            }
            if (begin <= other && other < end) {
                name_of_other = name;
            }
        }
        is_begin = std::strchr(text.data(), '\n') != nullptr;
    }
}

// Null if the loader gives no information.
const link_map *map_of(void *handle) {
    const link_map *map = nullptr;
    return ::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void *>(&map)) == 0 ? map : nullptr;
}

struct BuildIdSearch {
    ElfW(Addr) address; // load address of the object
    std::string found;
};

int find_build_id_of_object(dl_phdr_info *object, std::size_t /*size*/, void *data) {
    auto &search = *static_cast<BuildIdSearch *>(data);
    if (object->dlpi_addr != search.address) {
        return 0;
    }
    for (const ElfW(Phdr) & segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
        if (segment.p_type == PT_NOTE && search.found.empty()) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells addresses as numbers
            const auto *notes = reinterpret_cast<const char *>(object->dlpi_addr + segment.p_vaddr);
            search.found = find_build_id({notes, segment.p_memsz}, segment.p_align);
        }
    }
    return 1;
}

} // namespace

MappedFile::MappedFile(const PluginFile &file)
    : page_(::mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, file.descriptor(), 0)) {
    if (page_ == MAP_FAILED) {
        if (errno == ENOMEM) {
            throw std::bad_alloc();
        }
        throw Rejected(RejectCode::unreadable,
                       fmt::format("'{}' cannot be mapped into memory: {}.\nInstall it on a filesystem that can.",
                                   file.name(), std::generic_category().message(errno)));
    }
}

MappedFile::~MappedFile() {
    ::munmap(page_, 1);
}

bool MappedFile::is_what_was_loaded(void *handle) const {
    const link_map *loaded = map_of(handle);
    if (loaded == nullptr) {
        return false;
    }
    KernelsName judged, mapped;
    find_names(reinterpret_cast<std::uintptr_t>(page_), judged, reinterpret_cast<std::uintptr_t>(loaded->l_ld), mapped);
    return judged.is_known() && judged == mapped;
}

std::string name_of_loaded(void *handle) {
    const link_map *loaded = map_of(handle);
    return loaded != nullptr ? loaded->l_name : std::string();
}

std::string build_id_of_loaded(void *handle) {
    const link_map *loaded = map_of(handle);
    BuildIdSearch search{loaded != nullptr ? loaded->l_addr : 0, {}};
    if (loaded != nullptr) {
        (void)::dl_iterate_phdr(find_build_id_of_object, &search);
    }
    return search.found;
}

} // namespace opdock::core
