// The driver that loads and launches code, libcuda.so.1 or libamdhip64, opened when a device is first queried. Its few
// functions are declared here, so that building and opening the plugin needs neither CUDA nor HIP.
#pragma once

#include <cstdint>
#include <string>

#include "opdock/plugin.hpp"

namespace opdock::triton {

class Driver {
  public:
    // The driver for devices of type `type`. Stays open.
    static const Driver &of(DLDeviceType type);

    // Empty if the driver is present and works.
    const std::string &why_not() const { return why_not_; }
    // The driver's CUDA version, such as 13; 0 for HIP.
    int cuda_major() const { return version_ / 1000; }

    // Loads code on device `device` and finds a function in it. `shared_bytes` is the shared memory of its launches.
    // May be called while a stream is being captured.
    Status load(int device, const std::string &code, const std::string &function, std::uint64_t shared_bytes,
                void **loaded) const;

    struct Grid {
        unsigned x, y, z;
    };
    // `arguments` has the layout of the function's parameters. If the status is not OK, nothing was queued.
    Status launch(int device, void *function, const Grid &grid, unsigned threads, unsigned shared_bytes, void *stream,
                  void *arguments, std::size_t size) const;

  private:
    explicit Driver(bool is_cuda);

    Status checked(const char *what, int error) const;
    Status make_context_current(int device) const;

    template<class Function>
    void find(void *library, const char *cuda, const char *hip, Function &function);

    const bool is_cuda_;
    std::string why_not_;
    int version_ = 0;

    // Functions of both libraries: handles are pointers and errors are numbers.
    int (*init_)(unsigned flags) = nullptr;
    int (*driver_version_)(int *version) = nullptr;
    int (*module_load_)(void **module, const void *code) = nullptr;
    int (*module_function_)(void **function, void *module, const char *name) = nullptr;
    int (*launch_)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
                   void **extra) = nullptr;
    int (*exchange_capture_mode_)(int *mode) = nullptr;
    // CUDA only.
    int (*error_name_)(int error, const char **name) = nullptr;
    int (*set_function_attribute_)(void *function, int attribute, int value) = nullptr;
    int (*current_context_)(void **context) = nullptr;
    int (*get_device_)(int *device, int ordinal) = nullptr;
    int (*retain_primary_context_)(void **context, int device) = nullptr;
    int (*set_current_context_)(void *context) = nullptr;
    // HIP only.
    const char *(*hip_error_name_)(int error) = nullptr;
};

} // namespace opdock::triton
