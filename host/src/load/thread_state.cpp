#include "load/thread_state.hpp"

#include <spdlog/fmt/fmt.h>

#include "text/error.hpp"

namespace opdock::core {

void refuse_while_registering(const char *what) {
    if ((thread_state().flags & ThreadState::registering) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("a plugin's entry must not {}: it only registers what the plugin provides", what));
    }
}

void refuse_op_calls() {
    refuse_while_registering("call ops");
    if ((thread_state().flags & ThreadState::closing) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "a plugin must not call ops while its host is being closed");
    }
}

} // namespace opdock::core
