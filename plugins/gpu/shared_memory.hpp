// Kernels whose blocks need more shared memory than the default limit.
#pragma once

#include "runtime.hpp"

namespace gpu {

// Bytes of shared memory that a block may have on the call's device.
inline int64_t shared_memory(const opdock::Problem &problem) {
    const opdock_device_properties *properties = problem.device_properties();
    return properties != nullptr && properties->shared_memory != 0 ? static_cast<int64_t>(properties->shared_memory)
                                                                   : int64_t(48) << 10;
}

// Lets a kernel with `own` bytes of static shared memory use all of the device's; the default
// limit is 48 KB. The value is the same for every call, since a thread's setting also affects
// the launches of others. Setting it is cheaper than remembering where it was set.
template<class... Parameters>
opdock::Status allow_all_shared_memory(const opdock::Problem &problem, void (*kernel)(Parameters...), int64_t own) {
    return checked("requesting shared memory", GPU(FuncSetAttribute)(reinterpret_cast<const void *>(kernel),
                                                                     GPU(FuncAttributeMaxDynamicSharedMemorySize),
                                                                     static_cast<int>(shared_memory(problem) - own)));
}

} // namespace gpu
