// Reports of fatal signals: the tensor whose guard was hit, or the address.
#pragma once

namespace opdock::plugin_check {

// From now on SIGSEGV and SIGBUS write {"fault": text} if a tensor is involved, or {"crash": text}, to the worker's
// messages before they end the process.
void watch_faults();

} // namespace opdock::plugin_check
