// Functions whose types the SDK cannot turn into C functions.
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

OPDOCK_NOTE("faulty", "1.0", "faulty", "cpu", "")

namespace {

#ifdef WRONG_KERNEL
void relu(const opdock::Call & /*call*/) {}
#else
opdock::Status relu(const opdock::Call & /*call*/) {
    return {};
}
#endif
#ifdef WRONG_SUPPORTS
bool takes(const opdock::Problem & /*problem*/) {
    return true;
}
#else
opdock::Status takes(const opdock::Problem & /*problem*/) {
    return {};
}
#endif
#ifdef WRONG_HEURISTIC
opdock::Status pick(const opdock::Problem & /*problem*/) {
    return {};
}
#else
opdock::Status pick(const opdock::Problem & /*problem*/, std::int64_t * /*knobs*/) {
    return {};
}
#endif

void register_all(opdock::Registry &registry) {
    registry.implement(opdock::ops::relu, opdock::Impl("vendor.faulty")
                                              .kind(OPDOCK_KIND_VENDOR)
                                              .supports(opdock::supports<&takes>)
                                              .heuristic(opdock::heuristic<&pick>)
                                              .kernel(opdock::kernel<&relu>));
}

} // namespace

#ifdef WRONG_ENTRY
OPDOCK_ENTRY int opdock_register(void) {
    return opdock::register_plugin(nullptr, register_all);
}
#else
OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
#endif
