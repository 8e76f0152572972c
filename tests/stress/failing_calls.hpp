// System calls that fail when a test requests it: those on files below one folder, and those that start and follow a
// probe. Linking this puts wrappers in front of the C library's functions, for the host and every library it uses.
#pragma once

#include <cstdint>
#include <string>

namespace opdock::stress {

enum class Call {
    open,
    read,
    write,
    sync,
    truncate,
    allocate, // posix_fallocate
    lock,     // fcntl
    map,
    make_temporary, // mkostemps
    rename,
    remove,
    make_folder,
    stat,
    change_mode,
    pipe,
    spawn,
    poll,
    wait, // waitid, waitpid
    count
};

const char *name_of(Call call);

// From now on counts this thread's calls of this kind. The `nth` (from 1) and the `more` calls after it fail with this
// errno. nth 0: none.
void fail_call(Call call, std::uint64_t nth, std::uint64_t more, int code, const std::string &below);
// Ends this. Returns the number of calls of this kind.
std::uint64_t stop_failing_calls();

} // namespace opdock::stress
