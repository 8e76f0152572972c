// Records the work of processes in case it ends them: entries are made while a plugin is opened or
// first called, and the next host counts those left by processes that died.
#include <algorithm>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "files/own_folder.hpp"
#include "host/host.hpp"
#include "load/cancellation.hpp"
#include "load/deferred_plugin.hpp"
#include "probe/scan.hpp"
#include "probe/scan_cache.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// The scan to cache after a process ended while it opened or tried the plugin. Nothing if there is
// nothing new.
std::optional<Scan> scan_after(const ScanCache &cache, const JournalEntry &entry) {
    std::optional<Scan> scan = cache.find(entry.path, entry.file);
    if (!scan) { // the file was never scanned
        scan.emplace().identity = entry.file;
    }
    if (scan->rejection) {
        return {};
    }
    const bool was_tried = entry.doing == JournalEntry::Doing::opening;
    const std::uint32_t count = ++(was_tried ? scan->deaths : scan->interruptions);
    if (count >= most_chances) {
        scan->transcript = nullptr;
        scan->rejection = Rejection{
            RejectCode::host_died, entry.path,
            fmt::format("{} times in a row processes ended while they {}.{}", count,
                        was_tried ? fmt::format("opened '{}'", visible_line(entry.path))
                                  : fmt::format("tried '{}' in a process of its own", visible_line(entry.path)),
                        quarantine_text)};
    }
    return scan;
}

// Adds the death to what the cache knows of the plugin; does nothing for an unknown plugin.
void remember_call_death(ScanCache &cache, const JournalEntry &entry) {
    std::optional<Scan> scan = cache.find_any(entry.path);
    if (!scan || scan->rejection) {
        return;
    }
    std::vector<CallDeath> &deaths = scan->call_deaths;
    const auto known = std::find_if(deaths.begin(), deaths.end(), [&](const CallDeath &death) {
        return death.op == entry.op && death.impl_id == entry.impl_id;
    });
    if (known != deaths.end()) {
        std::rotate(known, known + 1, deaths.end());
    } else {
        if (deaths.size() == most_call_deaths) {
            deaths.erase(deaths.begin());
        }
        deaths.push_back({entry.op, entry.impl_id, 0});
    }
    ++deaths.back().count;
    cache.keep(entry.path, *scan);
}

// Returns true if there were any. Null stands for every op or every implementation.
bool forget_call_deaths_in(Scan &scan, const char *op, const char *impl_id) {
    return std::erase_if(scan.call_deaths, [&](const CallDeath &death) {
               return (op == nullptr || death.op == op) && (impl_id == nullptr || same_name(death.impl_id, impl_id));
           }) != 0;
}

// The cache itself reports a fault of its folder.
void warn_of_journal(const Log &log, const std::string &cache_folder, const std::string &folder) {
    const std::string fault = fault_of_own_folder(folder);
    if (!fault.empty() && fault_of_own_folder(cache_folder).empty()) {
        log.warning(fmt::format("The journal of opened plugins is not kept: {}. A plugin that ends its process is "
                                "opened again by the next process. Remove '{}'; hosts then create the folder again.",
                                fault, folder));
    }
}

} // namespace

void Host::forget_call_deaths(const char *op, const char *impl_id) const {
    std::optional<ScanCache> cache; // read when there is something to forget
    for (const PluginRecord &plugin : catalog().plugins) {
        if (plugin.deferred == nullptr || !plugin.deferred->place().has_call_deaths) {
            continue;
        }
        if (!cache) {
            cache.emplace(cache_folder_, log_);
        }
        std::optional<Scan> scan = cache->find(plugin.deferred->place().remembered, plugin.deferred->place().identity);
        if (scan && forget_call_deaths_in(*scan, op, impl_id)) {
            cache->keep(plugin.deferred->place().remembered, *scan);
        }
    }
    if (cache) {
        cache->save();
    }
}

void Host::read_journals(ScanCache &cache) const {
    warn_of_journal(log_, cache_folder_, journal_folder());
    count_deaths(Journal::collect(journal_folder()), cache);
}

std::uint32_t Host::deaths_of(const DeferredPlugin &plugin) const {
    const std::string &path = plugin.place().remembered;
    // Faults of the cache were reported when the host was opened.
    const Log silent([](void *, int32_t, const char *) {}, nullptr);
    std::optional<ScanCache> cache;
    if (const std::vector<Death> deaths = Journal::collect(journal_folder()); !deaths.empty()) {
        cache.emplace(cache_folder_, silent);
        count_deaths(deaths, *cache);
    } else {
        cache.emplace(cache_folder_, silent, path);
    }
    const std::optional<Scan> scan = cache->find(path, plugin.place().identity);
    if (scan && scan->rejection && scan->rejection->code == RejectCode::host_died) {
        throw Rejected(scan->rejection->code, scan->rejection->message);
    }
    return scan ? scan->deaths : 0;
}

void Host::count_deaths(const std::vector<Death> &deaths, ScanCache &cache) const {
    std::set<std::string, std::less<>> counted; // processes of one job end for the same reason
    const auto is_new = [&](const JournalEntry &entry) {
        return counted
            .insert(fmt::format("{}\n{}\n{}\n{}", static_cast<int>(entry.doing), entry.path, entry.op, entry.impl_id))
            .second;
    };
    for (const Death &death : deaths) {
        const JournalEntry &entry = death.entry;
        if (entry.doing == JournalEntry::Doing::calling) {
            log_.warning(fmt::format("Process {} ended in its first call of '{}' for op '{}' (plugin '{}'). "
                                     "PLUGIN_PER_OP or PLUGIN_DENY_VENDORS can keep it from being chosen.",
                                     death.process, visible_line(entry.impl_id), visible_line(entry.op),
                                     visible_line(entry.path)));
            if (is_new(entry)) {
                remember_call_death(cache, entry);
            }
            continue;
        }
        log_.warning(fmt::format("Process {} ended while it {} plugin '{}'", death.process,
                                 entry.doing == JournalEntry::Doing::opening ? "opened" : "tried",
                                 visible_line(entry.path)));
        if (!is_new(entry)) {
            continue;
        }
        if (const std::optional<Scan> scan = scan_after(cache, entry)) {
            cache.keep(entry.path, *scan);
        }
    }
    cache.save(); // now: this process may end in the same way, and the journals are gone
}

void Host::forget_deaths(const DeferredPlugin &plugin) const noexcept try {
    ScanCache cache(cache_folder_, log_);
    std::optional<Scan> scan = cache.find(plugin.place().remembered, plugin.place().identity);
    if (scan && !scan->rejection) {
        scan->deaths = 0;
        cache.keep(plugin.place().remembered, *scan);
        cache.save();
    }
} catch (const std::bad_alloc &) {
    return; // left to the next host
}

} // namespace opdock::core
