// The open hosts of this process and the indices of their ops' handles, when the process forks and when threads end.
#pragma once

#include <cstdint>
#include <span>

#include "dispatch/chain.hpp"

namespace opdock::core {

class CallHost;
struct CallThread;

uint64_t next_host_id();

// From here on the host starts over in every forked child.
void join_open_hosts(CallHost &host);
void leave_open_hosts(const CallHost &host);

// Of an op's handle: no other open host's has it.
uint32_t take_index();
void give_back_indices(std::span<OpEntry *const> ops);

// Gives back what a thread that ends holds of hosts that are still open.
void release_memos_of(CallThread &thread);

} // namespace opdock::core
