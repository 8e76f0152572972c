// When a change of a file shows in its times.
#pragma once

#include "files/file_identity.hpp"

namespace opdock::core {

// Times of files are those of the last tick of the kernel's clock, before Linux 6.13 and on some filesystems since: a
// file that is changed twice within one looks the same after both. Waits, for some milliseconds at most, until a
// further change of the file shows; to be called before its content is looked at. Of a server's clock nothing can be
// said.
void wait_until_changes_show(const FileIdentity &identity);

} // namespace opdock::core
