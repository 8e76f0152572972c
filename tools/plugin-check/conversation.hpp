// Requests to a process that runs a plugin's code, and its replies: any reply may come from the plugin itself.
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

// The process has ended and is of no more use.
struct Ended : std::runtime_error {
    Ended(std::string finding, const std::string &message, bool before_calls)
        : std::runtime_error(message), check(std::move(finding)), before_any_call(before_calls) {}

    std::string check; // the finding that this is: "crash", "hang", "out-of-bounds" or "worker"; "" if Waiting ended it
    bool before_any_call;
};

// The process cannot do what it is asked, without which nothing can be tried.
struct NotTried : std::runtime_error {
    NotTried(opdock_status of_host, const std::string &message, std::vector<std::string> lines)
        : std::runtime_error(message), status(of_host), log(std::move(lines)) {}

    opdock_status status;         // OPDOCK_OK if the host has none
    std::vector<std::string> log; // of the host: the lines that need attention
};

struct Reply {           // NOLINT(bugprone-exception-escape): moving JSON throws nothing
    nlohmann::json text; // an object
    size_t bytes = 0;    // of elements, for get()
};

// Throws json's exception unless it is a whole number that is not negative.
uint64_t number_of(const nlohmann::json &json);

// Called about once a second while a reply is awaited, with the time waited so far; false ends the process that owes
// the reply.
using Waiting = std::function<bool(double seconds)>;

class Conversation {
  public:
    // The first request starts the process, as does the first after Ended. `seconds`: the limit for opening its host.
    Conversation(std::string program, const Job &job, double seconds, Waiting waiting = nullptr);

    // Sets the time limit for all replies to requests from now on, together.
    void give(double seconds);

    // Writes data into the exchange, for the worker that gets the next request.
    void put(const void *elements, size_t bytes, size_t offset);

    // Sends {"do", ...}. The reply, with at most `most_bytes` of elements, is for receive(); it is dropped if something
    // else is asked before it is received. Throws Ended and NotTried.
    void send(nlohmann::json request, size_t most_bytes = 0);
    // Throws Ended, NotTried, and opdock::Error if that is the reply.
    Reply receive();
    Reply ask(nlohmann::json request) {
        send(std::move(request));
        return receive();
    }
    // Reads elements of the reply that was received last. Throws Ended.
    void get(void *to, size_t bytes, size_t offset);

    // Rejects an invalid reply. Throws Ended.
    [[noreturn]] void refuse(const std::string &what);

    // Runs `read`, which examines a reply; anything malformed in it is refuse()d.
    template<class Read>
    auto understand(Read read) {
        try {
            return read();
        } catch (const nlohmann::json::exception &) {
            refuse("a member is missing or has the wrong type");
        }
    }

    // True if a process that the plugin forked returned from a call since this was last called.
    bool was_copied() { return std::exchange(was_copied_, false); }

    // Ends the requests and lets the process end. Returns what goes wrong then, or "".
    std::string finish();

  private:
    void start();
    void forget_reply();
    Reply wait(Clock::time_point deadline, double seconds);
    // Returns nothing for messages that the process sends unasked.
    std::optional<Reply> read_packet(const std::string &packet);
    Reply read_reply(const nlohmann::json &packet);
    [[noreturn]] void fail(const std::string &check, const std::string &message);
    [[noreturn]] void fail_ended(Clock::time_point deadline);

    std::string program_;
    std::string job_;
    double seconds_; // for opening the host
    double given_;   // for all requests until give() sets it anew
    Clock::time_point deadline_;
    std::unique_ptr<Process> process_;
    uint64_t number_ = 0;   // of the last request
    size_t most_bytes_ = 0; // the most in its reply
    bool is_asked_ = false; // and its reply was not received
    bool is_open_ = false;
    bool was_copied_ = false;
    std::string fault_; // a signal handler's report on a tensor
    std::string crash_; // and on other memory
    Waiting waiting_;
};

} // namespace opdock::plugin_check
