// The open hosts of this process, the indices of their ops' handles and the numbers of threads, when the process forks
// and when threads end.
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
// From here on, hosts that are open when the process exits do their work_at_exit.
void work_at_exit_of_open_hosts();

// Of an op's handle: no other open host's has it.
uint32_t take_index();
void give_back_indices(std::span<OpEntry *const> ops);

// Small numbers for threads that have a state: one is given again when its thread has ended.
uint32_t take_thread_number();
void give_back_thread_number(uint32_t number);

// Gives back what a thread that ends holds of hosts that are still open.
void release_memos_of(CallThread &thread);

} // namespace opdock::core
