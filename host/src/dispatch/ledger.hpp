// Results and objects of calls: everything except immutable published values. A forked child starts
// with a new ledger and abandons the old one, whose lock a thread of the parent may have held.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dispatch/chain.hpp"
#include "dispatch/deployment.hpp"
#include "dispatch/memo.hpp"
#include "probe/journal.hpp"

namespace opdock::core {

// Ops by name. Immutable.
using NameTable = std::unordered_map<std::string_view, OpEntry *>;

struct Ledger {
    Ledger(std::string journal_folder, const Log &log) : journal(std::move(journal_folder), &log) {}

    Journal journal;

    std::mutex tuning; // held by the one call that is being tuned

    // Guards everything below. Never held while a plugin's code runs.
    std::mutex mutex;

    std::vector<std::unique_ptr<const Catalog>> catalogs; // the current one last; older ones for current readers
    std::vector<std::unique_ptr<const PolicyStack>> policies;
    std::vector<std::unique_ptr<OpEntry>> ops;
    std::vector<std::unique_ptr<const std::vector<OpEntry *>>> op_lists;
    std::vector<std::unique_ptr<const NameTable>> name_tables;
    std::vector<std::shared_ptr<View>> views; // oldest first
    std::map<std::pair<const Implementation *, std::pair<int32_t, int32_t>>, std::unique_ptr<Deployment>> deployments;
    std::unordered_map<Memo *, std::unique_ptr<Memo>> memos; // of all threads
    // The implementation that last served an op, as logged. Calls in scopes (true) are kept apart from
    // those under the process's policy.
    std::map<std::pair<std::string, bool>, std::string> serving;
    std::set<std::pair<std::string, std::pair<int32_t, int32_t>>> told_cpu_fallbacks; // (op, device) pairs
};

} // namespace opdock::core
