// Runs a test once for each instruction set that this machine has and the tests were compiled for.
#pragma once

#include <cstdint>

#include <doctest/doctest.h>

#include "hwy/targets.h"

namespace cpu {

template<class Body>
void for_each_target(Body body) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        CAPTURE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

} // namespace cpu
