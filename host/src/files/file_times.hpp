// When a change of a file shows in its times.
#pragma once

#include "files/file_identity.hpp"

namespace opdock::core {

// A file's times are those of the kernel clock's last tick (before Linux 6.13, and on some filesystems since): a file
// that is changed twice within a tick looks the same after both. Waits, some milliseconds at most, until a further
// change of the file would show. Call it before looking at the content. Network filesystems give no guarantee about
// timestamps.
void wait_until_changes_show(const FileIdentity &identity);

} // namespace opdock::core
