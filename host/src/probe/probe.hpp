// Tries a plugin in a separate process: its registration comes back as data, and damage is limited to that process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "files/held_directory.hpp"
#include "files/reject.hpp"
#include "probe/child_process.hpp"
#include "probe/transcript.hpp"

namespace opdock::core {

struct ProbeLimits {
    std::chrono::milliseconds time;
    std::uint64_t memory = 0; // limit on writable memory of each process, and on each file, in bytes; 0: none
    std::uint64_t held = 0;   // limit on memory of all its processes, which are few, in bytes; 0: as `memory`
};

// CPU plugins have little to do when they are opened. Runtimes of other devices may search for their devices, and
// reserve much memory, of which they use little.
ProbeLimits limits_for(const std::vector<std::string> &devices);

// Maximum size of a plugin's output that is kept from its trial; the rest is read and discarded.
inline constexpr std::size_t most_printed_bytes = 16384;

struct ProbeResult {
    std::vector<std::byte> sent;
    std::string printed;      // its standard output and standard error, interleaved
    std::string printed_last; // the end of its whole output, however long
    ProcessEnd end;
};

// Runs `executable` on the file. If no process can be started, returns nullopt and sets *why. `secure`: without the
// environment, which cannot be trusted.
std::optional<ProbeResult> run_probe(const std::string &executable, const HeldDirectory &directory,
                                     const std::string &name, const ProbeLimits &limits, bool secure, std::string *why);

// The transcript of a registration that completed, or the reason for rejecting the plugin.
std::variant<Transcript, Rejection> judge_probe(const HeldDirectory &directory, const std::string &name,
                                                const ProbeLimits &limits, ProbeResult result);

// True if this process is a probe: opening a host in it would probe recursively.
bool is_inside_probe();

} // namespace opdock::core
