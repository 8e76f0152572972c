// The part of HIP's runtime that the plugin calls outside of device.cu.
// GPU_EMULATED_WARP is the number of threads in a warp, 32 or 64.
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include <link.h>

#include "block.hpp"

// Dynamic shared memory. Kernels declare it under different names, in two namespaces; all of them are the same bytes. A
// new name in a kernel has to be added here, or the plugin does not link.
namespace {
constexpr std::size_t most_shared = std::size_t(64) << 10, behind = 1024;
}
extern "C" {
alignas(1024) thread_local unsigned char emulated_shared[most_shared + behind];
#define EMULATED_SHARED(number, name)                                                                                  \
    extern thread_local unsigned char emulated_shared_##number[most_shared + behind] __asm__(name)                     \
        __attribute__((alias("emulated_shared"), visibility("hidden")));
EMULATED_SHARED(1, "_ZN3gpu6sharedE")
EMULATED_SHARED(2, "_ZN3gpu12_GLOBAL__N_16sharedE")
EMULATED_SHARED(3, "_ZN3gpu12shared_bytesE")
EMULATED_SHARED(4, "_ZN3gpu12_GLOBAL__N_14keysE")
EMULATED_SHARED(5, "_ZN3gpu6memoryE")
EMULATED_SHARED(6, "_ZN3gpu12coefficientsE")
}

namespace {

constexpr unsigned several = 4;
constexpr unsigned char unwritten = 0xff; // NaN in each format, and -1

std::mutex launching; // guards the following
std::string wrong;    // message of the last failed launch
unsigned launches = 0;

// The thread-local memory of this library: only the shared memory of
// kernels.
struct Own {
    unsigned char *begin = nullptr;
    std::size_t bytes = 0;
};

Own own_memory() {
    Own found;
    dl_iterate_phdr(
        [](dl_phdr_info *library, std::size_t, void *to) {
            const unsigned char *here = emulated_shared;
            const auto *begin = static_cast<unsigned char *>(library->dlpi_tls_data);
            for (int i = 0; i < library->dlpi_phnum && begin != nullptr; ++i) {
                const ElfW(Phdr) &header = library->dlpi_phdr[i];
                if (header.p_type == PT_TLS && here >= begin && here < begin + header.p_memsz) {
                    *static_cast<Own *>(to) = {static_cast<unsigned char *>(library->dlpi_tls_data), header.p_memsz};
                    return 1;
                }
            }
            return 0;
        },
        &found);
    return found;
}

bool is_unwritten_behind(std::size_t bytes) {
    const unsigned char *end = emulated_shared + bytes;
    return *end == unwritten && std::memcmp(end, end + 1, most_shared + behind - bytes - 1) == 0;
}

int warp_size() {
    static const int size = [] {
        const char *chosen = std::getenv("GPU_EMULATED_WARP"); // NOLINT(concurrency-mt-unsafe): nobody changes it
        return chosen != nullptr && std::string(chosen) == "32" ? 32 : 64;
    }();
    return size;
}

hipError_t fail(const std::string &why) {
    wrong = why;
    return hipErrorLaunchFailure;
}

} // namespace

hipError_t hipGetLastError() {
    return hipSuccess;
}

const char *hipGetErrorName(hipError_t error) {
    return error == hipErrorLaunchFailure ? "hipErrorLaunchFailure" : "hipErrorInvalidValue";
}

const char *hipGetErrorString(hipError_t error) {
    return error == hipErrorLaunchFailure ? wrong.c_str() : "invalid argument";
}

hipError_t hipSetDevice(int /*device*/) {
    return hipSuccess;
}

hipError_t hipMemsetAsync(void *memory, int byte, std::size_t bytes, hipStream_t /*stream*/) {
    std::memset(memory, byte, bytes);
    return hipSuccess;
}

hipError_t hipFuncSetAttribute(const void * /*kernel*/, hipFuncAttribute /*attribute*/, int value) {
    return value >= 0 && static_cast<std::size_t>(value) <= most_shared ? hipSuccess : hipErrorInvalidValue;
}

// Blocks run one after another. At the start of a block, shared memory is set to `unwritten`; static memory only for
// the first blocks, since all kernels together have much of it. The bytes behind the requested ones must stay that way.
hipError_t hipLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void ** /*arguments*/,
                           std::size_t shared_bytes, hipStream_t /*stream*/) {
    const std::lock_guard lock(launching);
    if (blocks.x == 0 || threads.x == 0 || threads.x > 1024 || shared_bytes > most_shared) {
        return hipErrorInvalidValue;
    }
    const auto &call = *static_cast<const std::function<void()> *>(kernel);
    const Own own = own_memory();
    const bool descends = ++launches % 2 == 0;
    emulated::grid_size = {blocks.x, 1, 1};
    for (unsigned i = 0; i < blocks.x; ++i) {
        emulated::block_index = {descends ? blocks.x - 1 - i : i, 0, 0};
        if (i < several) {
            std::memset(own.begin, unwritten, own.bytes);
        } else {
            std::memset(emulated_shared, unwritten, shared_bytes);
        }
        const std::string why = emulated::run_threads(static_cast<int>(threads.x), warp_size(), descends, call);
        if (!why.empty()) {
            return fail(why);
        }
        if (!is_unwritten_behind(shared_bytes)) {
            return fail("a block has written behind its " + std::to_string(shared_bytes) + " bytes of shared memory");
        }
    }
    return hipSuccess;
}
