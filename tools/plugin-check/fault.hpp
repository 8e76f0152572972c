// What a signal that ends the process says of the tensor whose guard was hit, or of the address.
#pragma once

namespace opdock::plugin_check {

// From now on SIGSEGV and SIGBUS write {"fault": text}, where it is about a tensor, or {"crash": text} to the
// worker's messages before they end the process.
void watch_faults();

} // namespace opdock::plugin_check
