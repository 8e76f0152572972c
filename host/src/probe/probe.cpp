#include "probe/probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "load/load.hpp"
#include "probe/transcript_format.h"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using Clock = ChildProcess::Clock;

// Reads all available data. False at the end. Throws ChannelFailure.
bool drain(int channel, std::vector<std::byte> &into) {
    std::byte piece[16384];
    for (;;) {
        const ssize_t got = read(channel, piece, sizeof piece);
        if (got > 0) {
            into.insert(into.end(), piece, piece + got);
            if (into.size() > most_transcript_bytes) {
                return false;
            }
        } else if (got == 0 || errno == EAGAIN) {
            return got < 0;
        } else if (errno != EINTR) {
            throw ChannelFailure("read", errno);
        }
    }
}

constexpr std::size_t piece_bytes = 4096;

// Reads some of the available data. False at the end, and if nothing is available.
bool drain_printed(int printed, ProbeResult &result) {
    constexpr std::size_t most_last = 1024;
    char piece[piece_bytes];
    const ssize_t got = TEMP_FAILURE_RETRY(read(printed, piece, sizeof piece));
    if (got > 0) {
        const std::string_view text(piece, static_cast<std::size_t>(got));
        result.printed += text.substr(0, most_printed_bytes - result.printed.size());
        result.printed_last += text;
        result.printed_last.erase(0, result.printed_last.size() - std::min(result.printed_last.size(), most_last));
    }
    return got > 0;
}

// " It printed: ONE; TWO", the last lines; "" if there are none.
std::string printed_text(std::string_view printed) {
    constexpr std::size_t most_lines = 4;
    constexpr std::size_t longest = 300; // bytes of a line
    std::string text;
    for (std::size_t lines = 0; lines < most_lines && !printed.empty();) {
        const std::size_t end = printed.find_last_of("\r\n");
        const std::string_view line = trimmed(printed.substr(end == std::string_view::npos ? 0 : end + 1));
        printed = printed.substr(0, end == std::string_view::npos ? 0 : end);
        if (!line.empty()) {
            text = fmt::format("{}{}{}{}", visible_line(line.substr(0, longest)), line.size() > longest ? "..." : "",
                               text.empty() ? "" : "; ", text);
            ++lines;
        }
    }
    return text.empty() ? "" : " It printed: " + text;
}

// Reads until the process ends or the time is up; true if it ended. Throws ChannelFailure.
bool follow(const ChildProcess &child, int channel, int printed, Clock::time_point deadline, ProbeResult &result) {
    std::vector<std::byte> &sent = result.sent;
    bool talking = true;
    for (;;) {
        const int left = milliseconds_until(deadline);
        if (left == 0 || sent.size() > most_transcript_bytes) {
            return false;
        }
        pollfd ends[] = {{talking ? channel : -1, POLLIN, 0}, {child.handle(), POLLIN, 0}, {printed, POLLIN, 0}};
        if (poll(ends, std::size(ends), child.longest_wait(left)) < 0 && errno != EINTR) {
            throw ChannelFailure("poll", errno);
        }
        if (child.ended()) {
            drain(channel, sent);
            return true;
        }
        talking = talking && drain(channel, sent);
        if (ends[2].revents != 0 && !drain_printed(printed, result)) {
            printed = -1; // every process that could print has ended or closed it
        }
    }
}

// True if the process ended by a signal that people and schedulers send, often to all processes of a job; faulty code
// ends by other signals. Not SIGKILL: a process that takes all memory ends by that one.
bool was_told_to_stop(const ProcessEnd &end) {
    constexpr std::array signals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    return end.known && WIFSIGNALED(end.status) &&
           std::find(signals.begin(), signals.end(), WTERMSIG(end.status)) != signals.end();
}

std::string_view doing(Transcript::Stage stage) {
    switch (stage) {
    case Transcript::Stage::begun:
    case Transcript::Stage::open_failed:
        return "while it was opened, before its entry was called";
    case Transcript::Stage::opened:
    case Transcript::Stage::no_entry:
        return "while it was registering";
    default:
        return "after it had registered";
    }
}

} // namespace

ProbeLimits limits_for(const std::vector<std::string> &devices) {
    const bool for_cpu = std::all_of(devices.begin(), devices.end(), [](const auto &kind) { return kind == "cpu"; });
    // Libraries with their own threads start one per CPU, each with a stack and an arena.
    const std::uint64_t cpus = std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t memory = (std::uint64_t{1} << 30) + cpus * (std::uint64_t{32} << 20);
    if (for_cpu) {
        return {std::chrono::seconds(5), memory, memory};
    }
    // A runtime uses about 100 MiB for each device of a machine.
    constexpr std::uint64_t most_held = std::uint64_t{16} << 30;
    const auto there = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                       static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
    return {std::chrono::seconds(30), 0, std::max(memory, std::min(most_held, there / 2))};
}

std::optional<ProbeResult> run_probe(const std::string &executable, const HeldDirectory &directory,
                                     const std::string &name, const ProbeLimits &limits, bool secure,
                                     std::string *why) {
    const auto could_not = [&](const char *what, int code) {
        *why = fmt::format("{}: {}", what, std::generic_category().message(code));
        return std::nullopt;
    };
    // Above the numbers that the child assigns, and those of standard streams that are closed.
    Pipe channel;
    Pipe printed;
    Pipe status;
    for (Pipe *pipe : {&channel, &printed, &status}) {
        if (const char *failed = pipe->open()) {
            return could_not(failed, errno);
        }
    }
    const Descriptor their_directory(moved_up(directory.descriptor()));
    if (their_directory.get() < 0) {
        return could_not("dup", errno);
    }

    std::string memory = std::to_string(limits.memory);
    std::string held = std::to_string(limits.held != 0 ? limits.held : limits.memory);
    std::string program = executable;
    std::string file = name;
    char *const arguments[] = {program.data(), file.data(), memory.data(), held.data(), nullptr};
    char *const no_environment[] = {nullptr};
    pid_t process = -1;
    {
        ChildStart start;
        // Output goes to the host: the host's own standard streams may be files, which the plugin could truncate, or a
        // terminal, which it could control.
        start.give(printed.theirs.get(), STDOUT_FILENO);
        start.give(printed.theirs.get(), STDERR_FILENO);
        start.give(channel.theirs.get(), OPDOCK_PROBE_CHANNEL);
        start.give(their_directory.get(), OPDOCK_PROBE_DIRECTORY);
        start.give(status.theirs.get(), OPDOCK_PROBE_STATUS);
        start.close_from(OPDOCK_PROBE_STATUS + 1);
        if (const int failed = start.run(arguments, secure ? no_environment : environ, &process); failed != 0) {
            return could_not(program.c_str(), failed);
        }
    }
    channel.theirs.close(); // so that the pipes close when the probe ends
    printed.theirs.close();
    ProbeResult result;
    ChildProcess child(process, std::move(status.ours));
    try {
        const bool ended = follow(child, channel.ours.get(), printed.ours.get(), Clock::now() + limits.time, result);
        result.end = child.reap();
        constexpr std::size_t pipe_bytes = 65536; // one pipe's content, not what others keep printing
        for (std::size_t i = 0; i < pipe_bytes / piece_bytes && drain_printed(printed.ours.get(), result); ++i) {
        }
        result.end.in_time = ended;
        if (!result.end.confined) {
            *why = not_confined;
            return std::nullopt;
        }
        return result;
    } catch (const ChannelFailure &failure) { // says nothing about the plugin
        return could_not(failure.call, failure.code);
    }
}

std::variant<Transcript, Rejection> judge_probe(const HeldDirectory &directory, const std::string &name,
                                                const ProbeLimits &limits, ProbeResult result) {
    using Stage = Transcript::Stage;
    const std::filesystem::path path = std::filesystem::path(directory.path()) / name;
    const auto rejection = [&](RejectCode code, const std::string &message) { return Rejection{code, path, message}; };
    if (result.sent.size() > most_transcript_bytes) {
        return rejection(
            RejectCode::too_many_registrations,
            fmt::format("'{}' registers more than {} MiB of text.\nSplit the plugin, or check what its entry repeats.",
                        name, most_transcript_bytes >> 20));
    }
    const std::string printed = printed_text(result.printed_last);
    // Takes precedence over what was sent by then: a plugin can write to the probe's end of the pipe.
    const auto of_bad_end = [&](std::string_view when) {
        if (!result.end.in_time) {
            return rejection(RejectCode::probe_timed_out,
                             fmt::format("'{}' was stopped {} s after it was started in a process of its own, {}.{}",
                                         name, std::chrono::duration<double>(limits.time).count(), when,
                                         quarantine_text));
        }
        if (was_told_to_stop(result.end)) {
            return rejection(
                RejectCode::probe_stopped,
                fmt::format("the process that tried '{}' ended{}, {}.{}\nUsers and schedulers end jobs with this "
                            "signal, so it says nothing about the plugin; the next host tries the plugin again.",
                            name, how_it_ended(result.end), when, printed));
        }
        return rejection(RejectCode::probe_died, fmt::format("'{}' ended the process that tried it{}, {}.{}{}", name,
                                                             how_it_ended(result.end), when, printed, quarantine_text));
    };
    const bool ended_well = result.end.in_time && result.end.known && result.end.status == 0;
    try {
        Transcript transcript = Transcript::parse(std::move(result.sent));
        switch (ended_well ? transcript.stage() : Stage::begun) {
        case Stage::open_failed:
            return explain_refusal(path, transcript.loader_text());
        case Stage::no_entry:
            return no_entry(path);
        case Stage::complete:
            return transcript;
        default:
            return of_bad_end(doing(transcript.stage()));
        }
    } catch (const Rejected &rejected) {
        return ended_well ? rejection(rejected.code(), fmt::format("'{}': {}", name, rejected.what()))
                          : of_bad_end("and its output cannot be read");
    }
}

bool is_inside_probe() {
    return dlsym(RTLD_DEFAULT, "opdock_inside_probe") != nullptr;
}

} // namespace opdock::core
