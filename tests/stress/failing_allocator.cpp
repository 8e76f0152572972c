#include "failing_allocator.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sqlite3.h>
#endif

namespace opdock::stress {
namespace {

// Plain values: nothing used here may allocate.
thread_local bool armed = false;
thread_local std::uint64_t seen = 0;
thread_local std::uint64_t failing = 0;
thread_local bool all_after = false;
std::atomic<std::int64_t> live{0};

bool is_to_fail() {
    if (!armed) {
        return false;
    }
    ++seen;
    return failing != 0 && (seen == failing || (all_after && seen > failing));
}

} // namespace

void fail_allocation(std::uint64_t nth, Failing how) {
    seen = 0;
    failing = nth;
    all_after = how == Failing::from_then_on;
    armed = true;
}

std::uint64_t stop_failing_allocations() {
    armed = false;
    return seen;
}

std::int64_t live_blocks() {
    return live.load(std::memory_order_relaxed);
}

namespace {

#ifndef __SANITIZE_ADDRESS__

void *counted(void *block) {
    if (block != nullptr) {
        live.fetch_add(1, std::memory_order_relaxed);
    }
    return block;
}

void *no_memory() {
    errno = ENOMEM;
    return nullptr;
}

#else

void *fallible(void *block) {
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    return block;
}

void *allocate(std::size_t size) {
    return is_to_fail() ? nullptr : std::malloc(size);
}

void *allocate(std::size_t size, std::align_val_t alignment) {
    const auto unit = static_cast<std::size_t>(alignment);
    return is_to_fail() ? nullptr : std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
}

// Must run before SQLite is first used.
[[maybe_unused]] const int sqlite_configured = [] {
    static sqlite3_mem_methods own;
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &own);
    static const sqlite3_mem_methods real = own;
    own.xMalloc = [](int size) -> void * { return is_to_fail() ? nullptr : real.xMalloc(size); };
    own.xRealloc = [](void *block, int size) -> void * { return is_to_fail() ? nullptr : real.xRealloc(block, size); };
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &own);
}();

#endif

} // namespace
} // namespace opdock::stress

#define EXPORTED __attribute__((visibility("default")))

#ifndef __SANITIZE_ADDRESS__

using namespace opdock::stress;

extern "C" {

// glibc's own functions, under the names that it reserves for replacements of malloc.
void *__libc_malloc(std::size_t size);
void *__libc_calloc(std::size_t count, std::size_t size);
void *__libc_realloc(void *block, std::size_t size);
void *__libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void *block);

EXPORTED void *malloc(std::size_t size) {
    return is_to_fail() ? no_memory() : counted(__libc_malloc(size));
}

EXPORTED void *calloc(std::size_t count, std::size_t size) {
    return is_to_fail() ? no_memory() : counted(__libc_calloc(count, size));
}

EXPORTED void *realloc(void *block, std::size_t size) {
    if (size == 0 && block != nullptr) {
        free(block);
        return nullptr;
    }
    if (is_to_fail()) {
        return no_memory();
    }
    void *const moved = __libc_realloc(block, size);
    return block == nullptr ? counted(moved) : moved;
}

EXPORTED void *memalign(std::size_t alignment, std::size_t size) {
    return is_to_fail() ? no_memory() : counted(__libc_memalign(alignment, size));
}

EXPORTED void *aligned_alloc(std::size_t alignment, std::size_t size) {
    return is_to_fail() ? no_memory() : counted(__libc_memalign(alignment, size));
}

EXPORTED int posix_memalign(void **block, std::size_t alignment, std::size_t size) {
    void *const made = is_to_fail() ? nullptr : counted(__libc_memalign(alignment, size));
    if (made == nullptr) {
        return ENOMEM;
    }
    *block = made;
    return 0;
}

EXPORTED void free(void *block) {
    if (block != nullptr) {
        live.fetch_sub(1, std::memory_order_relaxed);
        __libc_free(block);
    }
}

} // extern "C"

#else

using opdock::stress::allocate;
using opdock::stress::fallible;

// All forms are replaced: memory from one of them must not be freed by another one of AddressSanitizer's.
EXPORTED void *operator new(std::size_t size) {
    return fallible(allocate(size));
}
EXPORTED void *operator new[](std::size_t size) {
    return fallible(allocate(size));
}
EXPORTED void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return allocate(size);
}
EXPORTED void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return allocate(size);
}
EXPORTED void *operator new(std::size_t size, std::align_val_t alignment) {
    return fallible(allocate(size, alignment));
}
EXPORTED void *operator new[](std::size_t size, std::align_val_t alignment) {
    return fallible(allocate(size, alignment));
}
EXPORTED void operator delete(void *block) noexcept {
    std::free(block);
}
EXPORTED void operator delete[](void *block) noexcept {
    std::free(block);
}
EXPORTED void operator delete(void *block, std::size_t) noexcept {
    std::free(block);
}
EXPORTED void operator delete[](void *block, std::size_t) noexcept {
    std::free(block);
}
EXPORTED void operator delete(void *block, const std::nothrow_t &) noexcept {
    std::free(block);
}
EXPORTED void operator delete[](void *block, const std::nothrow_t &) noexcept {
    std::free(block);
}
EXPORTED void operator delete(void *block, std::align_val_t) noexcept {
    std::free(block);
}
EXPORTED void operator delete[](void *block, std::align_val_t) noexcept {
    std::free(block);
}
EXPORTED void operator delete(void *block, std::size_t, std::align_val_t) noexcept {
    std::free(block);
}
EXPORTED void operator delete[](void *block, std::size_t, std::align_val_t) noexcept {
    std::free(block);
}

#endif
