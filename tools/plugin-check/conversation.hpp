// Requests to a process in which a plugin's code runs, and what it answers: any answer may be the plugin's own.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "worker.hpp"

namespace opdock::plugin_check {

// The process is of no more use; it is gone.
struct Ended : std::runtime_error {
    Ended(std::string finding, const std::string &message, bool before_calls)
        : std::runtime_error(message), check(std::move(finding)), before_any_call(before_calls) {}

    std::string check; // the finding that this is: "crash", "hang", "out-of-bounds" or "worker"
    bool before_any_call;
};

// The process says that it cannot do what it is asked for, without which nothing can be tried.
struct NotTried : std::runtime_error {
    NotTried(opdock_status of_host, const std::string &message, std::vector<std::string> lines)
        : std::runtime_error(message), status(of_host), log(std::move(lines)) {}

    opdock_status status;         // OPDOCK_OK when the host has none
    std::vector<std::string> log; // of the host: what needs attention
};

struct Reply {
    nlohmann::json text; // an object
    std::vector<std::byte> bytes;
};

// Throws json's exception for anything but a whole number that is not negative.
uint64_t number_of(const nlohmann::json &json);

class Conversation {
  public:
    // The process is started by the first request, and by the first after Ended. `seconds`: for opening its host.
    Conversation(std::string program, const Job &job, double seconds);

    // The replies to what is asked from now on have to be there in so many seconds, together.
    void give(double seconds);

    // Writes to what the next request's worker reads from the exchange.
    void put(const void *elements, size_t bytes, size_t offset);

    // The reply to {"do", ...}, with at most so many bytes of elements. Throws Ended, NotTried, and opdock::Error when
    // that is the answer.
    Reply ask(nlohmann::json request, size_t most_bytes = 0);

    // For a reply that is none. Throws Ended.
    [[noreturn]] void refuse(const std::string &what);

    // Runs `read`, which looks at a reply; what is not as it has to be there is refuse()d.
    template<class Read>
    auto understand(Read read) {
        try {
            return read();
        } catch (const nlohmann::json::exception &) {
            refuse("a member is missing, or is of another type");
        }
    }

    // Whether a process that the plugin forked returned from a call since this was asked last.
    bool was_copied() { return std::exchange(was_copied_, false); }

    // There are no more requests: lets the process end. What goes wrong then, or "".
    std::string finish();

  private:
    void start();
    Reply wait(Clock::time_point deadline, double seconds, size_t most_bytes);
    // Nothing for what the process says without being asked.
    std::optional<Reply> read_packet(const std::string &packet, size_t most_bytes);
    Reply read_reply(const nlohmann::json &packet, size_t most_bytes);
    [[noreturn]] void fail(const std::string &check, const std::string &message);
    [[noreturn]] void fail_ended(Clock::time_point deadline);

    std::string program_;
    std::string job_;
    double seconds_; // for opening
    double given_;   // for all that is asked until it is given more
    Clock::time_point deadline_;
    std::unique_ptr<Process> process_;
    uint64_t number_ = 0; // of the last request
    bool is_open_ = false;
    bool was_copied_ = false;
    std::string fault_; // what a signal handler said
};

} // namespace opdock::plugin_check
