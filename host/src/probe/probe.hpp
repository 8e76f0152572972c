// Tries a plugin in a process of its own: what it registers comes back as data, and what it breaks is that process.
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
    std::uint64_t memory = 0; // bytes of memory that each process maps to write to, and of each file; 0: no limit
    std::uint64_t held = 0;   // bytes that all its processes together hold, of which there are few; 0: as `memory`
};

// Plugins for the CPU alone have little to do when they are opened. The runtimes of other devices may search for them,
// and reserve much memory, of which they hold little.
ProbeLimits limits_for(const std::vector<std::string> &devices);

// How much of what a plugin prints while it is tried is kept; the rest is read and dropped.
inline constexpr std::size_t most_printed_bytes = 16384;

struct ProbeResult {
    std::vector<std::byte> sent;
    std::string printed;      // to its standard output and standard error, as it came
    std::string printed_last; // the end of all that it printed, however much
    ProcessEnd end;
};

// Runs `executable` on the file. Nothing when no process can be started, with *why. `secure`: without the environment,
// which cannot be trusted.
std::optional<ProbeResult> run_probe(const std::string &executable, const HeldDirectory &directory,
                                     const std::string &name, const ProbeLimits &limits, bool secure, std::string *why);

// The transcript of a registration that ran to its end, or why the plugin is not taken.
std::variant<Transcript, Rejection> judge_probe(const HeldDirectory &directory, const std::string &name,
                                                const ProbeLimits &limits, ProbeResult result);

// Whether this process is a probe: no host may be opened in it, which would probe without end.
bool is_inside_probe();

} // namespace opdock::core
