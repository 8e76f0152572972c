#include "ops.hpp"

#include "../driver.hpp"

namespace npu {

// The host has made the device current and checked the call; stream() is the stream on which the caller queues work.
opdock::Status relu(const opdock::Call &call) {
    const auto input = call.input<const float>(0);
    const auto output = call.output<float>(0);
    auto *stream = static_cast<nova::Stream *>(call.stream());
    const std::int64_t n = input.size(-1);
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        const auto from = input.row(r);
        const auto to = output.row(r);
        nova::launch(n, stream, [=](std::int64_t i) { to[i] = from[i] < 0 ? 0 : from[i]; });
    }
    return {};
}

} // namespace npu
