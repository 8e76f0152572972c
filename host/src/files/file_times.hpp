// Visibility of file changes in file times.
#pragma once

#include "files/file_identity.hpp"

namespace opdock::core {

// File times have the resolution of the kernel's clock tick (before Linux 6.13, and later on some filesystems): two
// changes within one tick cannot be told apart. Waits, a few milliseconds at most, until a further change of the
// file would be visible. Call it before reading the content. Network filesystems give no guarantee about
// timestamps.
void wait_until_changes_show(const FileIdentity &identity);

} // namespace opdock::core
