// System calls that fail when a test says so: those on files below one folder, and those of starting and following a
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

// From here on this thread's calls are counted, and the `nth` (from 1) one of this kind, with the `more` after it,
// fails with this errno. nth 0: none.
void fail_call(Call call, std::uint64_t nth, std::uint64_t more, int code, const std::string &below);
// No longer. Returns how many of this kind there were.
std::uint64_t stop_failing_calls();

} // namespace opdock::stress
