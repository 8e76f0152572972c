#include "driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace opdock::triton {
namespace {

// After these errors nothing runs on the device any more. ECC, illegal address, launch timeout, hardware stack, illegal
// instruction, misaligned address, invalid address space, invalid PC, launch failure, contained, tensor memory leak:
// CUDA's numbers. HIP has 700, 710 and 719 of them.
constexpr std::array<int, 12> fatal = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 722};
constexpr int out_of_memory_error = 2;
constexpr int invalid_context = 201;
constexpr int relaxed_capture = 2;

// CU_LAUNCH_PARAM_ and HIP_LAUNCH_PARAM_ markers in a list of extra arguments.
void *const buffer_pointer = reinterpret_cast<void *>(1);
void *const buffer_size = reinterpret_cast<void *>(2);
void *const end_of_cuda = nullptr;
void *const end_of_hip = reinterpret_cast<void *>(3);

constexpr int max_dynamic_shared_size = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr std::uint64_t shared_without_asking = 48 * 1024;

void *open_first(std::initializer_list<const char *> files, std::string &errors) {
    for (const char *file : files) {
        if (void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL); library != nullptr) {
            return library;
        }
        const char *error = dlerror(); // NOLINT(concurrency-mt-unsafe): of this thread
        errors += (errors.empty() ? "" : "; ") + std::string(error != nullptr ? error : file);
    }
    return nullptr;
}

} // namespace

template<class Function>
void Driver::find(void *library, const char *cuda, const char *hip, Function &function) {
    const char *name = is_cuda_ ? cuda : hip;
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && why_not_.empty()) {
        why_not_ = std::string("the driver has no function ") + name + "; a newer one is needed";
    }
}

Driver::Driver(bool is_cuda) : is_cuda_(is_cuda) {
    std::string errors;
    void *library =
        is_cuda ? open_first({"libcuda.so.1"}, errors)
                : open_first({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}, errors);
    if (library == nullptr) {
        why_not_ = std::string(is_cuda ? "CUDA's driver" : "the HIP runtime") + " cannot be opened: " + errors;
        return;
    }
    find(library, "cuInit", "hipInit", init_);
    find(library, "cuDriverGetVersion", "hipDriverGetVersion", driver_version_);
    find(library, "cuModuleLoadData", "hipModuleLoadData", module_load_);
    find(library, "cuModuleGetFunction", "hipModuleGetFunction", module_function_);
    find(library, "cuLaunchKernel", "hipModuleLaunchKernel", launch_);
    find(library, "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", exchange_capture_mode_);
    if (is_cuda) {
        find(library, "cuGetErrorName", "", error_name_);
        find(library, "cuFuncSetAttribute", "", set_function_attribute_);
        find(library, "cuCtxGetCurrent", "", current_context_);
        find(library, "cuCtxSetCurrent", "", set_current_context_);
        find(library, "cuDeviceGet", "", get_device_);
        find(library, "cuDevicePrimaryCtxRetain", "", retain_primary_context_);
    } else {
        find(library, "", "hipGetErrorName", hip_error_name_);
    }
    if (!why_not_.empty()) {
        return;
    }
    Status status = checked(is_cuda ? "cuInit" : "hipInit", init_(0));
    if (status.ok() && is_cuda) {
        status = checked("cuDriverGetVersion", driver_version_(&version_));
    }
    if (!status.ok()) {
        why_not_ = status.message();
    }
}

const Driver &Driver::of(DLDeviceType type) {
    // Never destroyed: kernels of another host may run until the process ends.
    static const Driver &cuda = *new Driver(true);
    if (type == kDLCUDA) {
        return cuda;
    }
    static const Driver &hip = *new Driver(false);
    return hip;
}

Status Driver::checked(const char *what, int error) const {
    if (error == 0) {
        return {};
    }
    const char *name = nullptr;
    if (is_cuda_) {
        error_name_(error, &name);
    } else {
        name = hip_error_name_(error);
    }
    const opdock_status code = error == out_of_memory_error                                  ? OPDOCK_OUT_OF_MEMORY
                               : std::find(fatal.begin(), fatal.end(), error) != fatal.end() ? OPDOCK_DEVICE_LOST
                                                                                             : OPDOCK_FAILED_CLEAN;
    return {code, std::string(what) + ": " + (name != nullptr ? name : "error") + " (" + std::to_string(error) + ")"};
}

// CUDA's runtime makes a device's context current when a thread first needs it, possibly after the host chose the
// device. Makes the device's primary context current, and leaves it so.
Status Driver::make_context_current(int device) const {
    void *context = nullptr;
    Status status = checked("cuCtxGetCurrent", current_context_(&context));
    if (!status.ok() || context != nullptr) {
        return status;
    }
    int handle = 0;
    status = checked("cuDeviceGet", get_device_(&handle, device));
    if (status.ok()) {
        status = checked("cuDevicePrimaryCtxRetain", retain_primary_context_(&context, handle));
    }
    return status.ok() ? checked("cuCtxSetCurrent", set_current_context_(context)) : std::move(status);
}

Status Driver::load(int device, const std::string &code, const std::string &function, std::uint64_t shared_bytes,
                    void **loaded) const {
    if (is_cuda_) {
        if (Status status = make_context_current(device); !status.ok()) {
            return status;
        }
    }
    int mode = relaxed_capture;
    exchange_capture_mode_(&mode); // loading is neither captured nor disturbs a capture
    void *module = nullptr;
    Status status = checked(is_cuda_ ? "cuModuleLoadData" : "hipModuleLoadData", module_load_(&module, code.c_str()));
    if (status.ok()) {
        status = checked(is_cuda_ ? "cuModuleGetFunction" : "hipModuleGetFunction",
                         module_function_(loaded, module, function.c_str()));
    }
    if (status.ok() && is_cuda_ && shared_bytes > shared_without_asking) {
        status = checked("cuFuncSetAttribute",
                         set_function_attribute_(*loaded, max_dynamic_shared_size, static_cast<int>(shared_bytes)));
    }
    exchange_capture_mode_(&mode);
    return status;
}

Status Driver::launch(int device, void *function, const Grid &grid, unsigned threads, unsigned shared_bytes,
                      void *stream, void *arguments, std::size_t size) const {
    void *extra[] = {buffer_pointer, arguments, buffer_size, &size, is_cuda_ ? end_of_cuda : end_of_hip};
    const auto start = [&] {
        return launch_(function, grid.x, grid.y, grid.z, threads, 1, 1, shared_bytes, stream, nullptr, extra);
    };
    int error = start();
    if (error == invalid_context && is_cuda_ && make_context_current(device).ok()) {
        error = start(); // this thread has not used the device before
    }
    return error == 0 ? Status() : checked(is_cuda_ ? "cuLaunchKernel" : "hipModuleLaunchKernel", error);
}

} // namespace opdock::triton
