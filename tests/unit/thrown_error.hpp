// Helpers for tests of errors.
#pragma once

#include <stdexcept>

#include "text/error.hpp"

namespace opdock::test {

// The Error that `action` throws. The test fails if the action does not throw.
template<class Action>
core::Error thrown_by(Action action) {
    try {
        action();
    } catch (const core::Error &error) {
        return error;
    }
    throw std::logic_error("expected an opdock::core::Error, but nothing was thrown");
}

template<class Action>
std::string message_of(Action action) {
    return thrown_by(action).what();
}

} // namespace opdock::test
