// The open hosts of this process, the indices of op handles and the numbers of threads, with their
// handling of forks and of threads that end.
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
// From here on, hosts that are open when the process exits run their work_at_exit.
void work_at_exit_of_open_hosts();

// The index of an op's handle, unique among open hosts.
uint32_t take_index();
void give_back_indices(std::span<OpEntry *const> ops);

// Small numbers for threads that have a state; reused after a thread has ended.
uint32_t take_thread_number();
void give_back_thread_number(uint32_t number);

// Releases what an ending thread holds in hosts that are still open.
void release_memos_of(CallThread &thread);

} // namespace opdock::core
