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

    std::string check; // the finding that this is: "crash", "hang", "out-of-bounds" or "worker"; "" when it was Waiting
    bool before_any_call;
};

// The process says that it cannot do what it is asked for, without which nothing can be tried.
struct NotTried : std::runtime_error {
    NotTried(opdock_status of_host, const std::string &message, std::vector<std::string> lines)
        : std::runtime_error(message), status(of_host), log(std::move(lines)) {}

    opdock_status status;         // OPDOCK_OK when the host has none
    std::vector<std::string> log; // of the host: what needs attention
};

struct Reply {           // NOLINT(bugprone-exception-escape): moving JSON throws nothing
    nlohmann::json text; // an object
    size_t bytes = 0;    // of elements, to be get()
};

// Throws json's exception for anything but a whole number that is not negative.
uint64_t number_of(const nlohmann::json &json);

// Called about once a second while an answer is awaited, with for how long; false ends the process that does not give
// it.
using Waiting = std::function<bool(double seconds)>;

class Conversation {
  public:
    // The process is started by the first request, and by the first after Ended. `seconds`: for opening its host.
    Conversation(std::string program, const Job &job, double seconds, Waiting waiting = nullptr);

    // The replies to what is asked from now on have to be there in so many seconds, together.
    void give(double seconds);

    // Writes to what the next request's worker reads from the exchange.
    void put(const void *elements, size_t bytes, size_t offset);

    // Sends {"do", ...}. The reply, which has at most so many bytes of elements, is for receive(); nobody sees one that
    // is not received before something else is asked. Throws Ended and NotTried.
    void send(nlohmann::json request, size_t most_bytes = 0);
    // Throws Ended, NotTried, and opdock::Error when that is the reply.
    Reply receive();
    Reply ask(nlohmann::json request) {
        send(std::move(request));
        return receive();
    }
    // Of the reply that was received last. Throws Ended.
    void get(void *to, size_t bytes, size_t offset);

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
    void forget_reply();
    Reply wait(Clock::time_point deadline, double seconds);
    // Nothing for what the process says without being asked.
    std::optional<Reply> read_packet(const std::string &packet);
    Reply read_reply(const nlohmann::json &packet);
    [[noreturn]] void fail(const std::string &check, const std::string &message);
    [[noreturn]] void fail_ended(Clock::time_point deadline);

    std::string program_;
    std::string job_;
    double seconds_; // for opening
    double given_;   // for all that is asked until it is given more
    Clock::time_point deadline_;
    std::unique_ptr<Process> process_;
    uint64_t number_ = 0;   // of the last request
    size_t most_bytes_ = 0; // in its reply
    bool is_asked_ = false; // and the reply was not received
    bool is_open_ = false;
    bool was_copied_ = false;
    std::string fault_; // what a signal handler said of a tensor
    std::string crash_; // and of other memory
    Waiting waiting_;
};

} // namespace opdock::plugin_check
