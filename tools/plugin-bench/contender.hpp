// One implementation, prepared for one call.
#pragma once

#include <optional>
#include <string>

#include "op-call/placed_call.hpp"
#include "rotation.hpp"

namespace opdock::plugin_bench {

class Contender {
  public:
    // Only this implementation may serve. Throws opdock::Error if it does not take the call.
    Contender(const Host &host, const std::string &op, const std::string &impl_id, const op_call::PlacedCall &call,
              DLDevice device);

    // Microseconds per run, averaged over `runs`, by the device's timing events. Throws opdock::Error if a run fails.
    double sample(Rotation &rotation, size_t runs) const;

  private:
    const Host &host_;
    const DLDevice device_;
    const Prepared prepared_;
    std::optional<op_call::DeviceBuffer> workspace_;
};

} // namespace opdock::plugin_bench
