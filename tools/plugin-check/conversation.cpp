#include "conversation.hpp"

#include <algorithm>
#include <cstring>

#include <sys/wait.h>

#include "cli/exit.hpp"
#include "message.hpp"
#include "op-call/tensor.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// Far more than any reply has.
constexpr size_t largest_text = size_t{64} << 20;
constexpr int most_notices = 64; // unasked messages read between two requests

Clock::time_point in(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string indented(const std::string &text) {
    std::string lines;
    for (const char c : text) {
        lines += c;
        if (c == '\n') {
            lines += "  ";
        }
    }
    return lines;
}

// `how`: the report of a signal handler, or "".
std::string ending(int status, const std::string &how, const std::string &said) {
    std::string text = WIFSIGNALED(status) ? "the process ended with " + std::string(strsignal(WTERMSIG(status)))
                                           : "the process ended with exit code " + std::to_string(WEXITSTATUS(status));
    text += how.empty() ? "" : ": " + how;
    return said.empty() ? text : text + "\n  " + indented(said);
}

std::string whole(double seconds) {
    return std::to_string(static_cast<int>(seconds)) + " s";
}

} // namespace

uint64_t number_of(const json &json) {
    return json.get_ref<const json::number_unsigned_t &>();
}

Conversation::Conversation(std::string program, const Job &job, double seconds, Waiting waiting)
    : program_(std::move(program)), job_(as_json(job).dump()), seconds_(seconds), given_(seconds),
      deadline_(in(seconds)), waiting_(std::move(waiting)) {}

void Conversation::give(double seconds) {
    given_ = seconds;
    deadline_ = in(seconds);
}

void Conversation::start() {
    if (process_ != nullptr) {
        return;
    }
    fault_.clear();
    crash_.clear();
    number_ = 0;
    most_bytes_ = 0;
    is_asked_ = false;
    is_open_ = false;
    const Clock::time_point begin = Clock::now();
    process_ = std::make_unique<Process>(program_, job_);
    wait(in(seconds_), seconds_);
    is_open_ = true;
    deadline_ += Clock::now() - begin; // opening is not part of a case
}

void Conversation::put(const void *elements, size_t bytes, size_t offset) {
    start();
    forget_reply(); // its bytes lie there
    if (!write_exchange(process_->exchange(), elements, bytes, offset)) {
        throw op_call::NoMemory("not enough memory for the inputs of a call");
    }
}

void Conversation::forget_reply() {
    try {
        if (is_asked_) {
            receive();
        }
    } catch (const Error &) { // nobody sees the reply
        return;
    }
}

void Conversation::send(json request, size_t most_bytes) {
    start();
    forget_reply();
    std::string packet;
    for (int i = 0; i < most_notices && process_->next(packet, Clock::time_point()) == Process::News::packet; ++i) {
        if (read_packet(packet)) {
            refuse("there was no request");
        }
    }
    request["number"] = ++number_;
    if (!process_->send(request.dump())) {
        fail_ended(deadline_);
    }
    most_bytes_ = most_bytes;
    is_asked_ = true;
}

Reply Conversation::receive() {
    is_asked_ = false;
    return wait(deadline_, given_);
}

void Conversation::get(void *to, size_t bytes, size_t offset) {
    if (!read_exchange(process_->exchange(), to, bytes, offset)) {
        refuse("its length differs from the announced length");
    }
}

Reply Conversation::wait(Clock::time_point deadline, double seconds) {
    std::string packet;
    const Clock::time_point begin = Clock::now();
    for (;;) {
        const Process::News news = process_->next(packet, std::min(deadline, in(1)));
        if (news == Process::News::end) {
            fail_ended(deadline);
        }
        if (Clock::now() >= deadline) {
            process_->end();
            fail("hang", "has not returned after " + whole(seconds) + "; --timeout sets a longer limit");
        }
        if (news == Process::News::silence) {
            if (waiting_ && !waiting_(std::chrono::duration<double>(Clock::now() - begin).count())) {
                process_->end();
                fail("", "it was not waited for");
            }
            continue;
        }
        if (std::optional<Reply> reply = read_packet(packet)) {
            return std::move(*reply);
        }
    }
}

std::optional<Reply> Conversation::read_packet(const std::string &packet) {
    const json message = json::parse(packet, nullptr, false);
    if (!message.is_object()) {
        refuse("it is not a JSON object");
    }
    if (message.contains("copy")) {
        was_copied_ = true;
        return std::nullopt;
    }
    if (message.contains("fault")) {
        fault_ = understand([&] { return message.at("fault").get<std::string>(); });
        return std::nullopt;
    }
    if (message.contains("crash")) {
        crash_ = understand([&] { return message.at("crash").get<std::string>(); });
        return std::nullopt;
    }
    return read_reply(message);
}

Reply Conversation::read_reply(const json &packet) {
    Reply reply;
    std::string text;
    understand([&] {
        if (number_of(packet.at("number")) != number_) {
            refuse("it answers a different request");
        }
        const auto bytes = number_of(packet.at("bytes"));
        const auto length = number_of(packet.at("text"));
        if (bytes > most_bytes_ || length > largest_text) {
            refuse("it is longer than any valid answer");
        }
        reply.bytes = bytes;
        text.resize(length);
    });
    get(text.data(), text.size(), reply.bytes);
    reply.text = json::parse(text, nullptr, false);
    if (!reply.text.is_object()) {
        refuse("it is not a JSON object");
    }
    const bool is_problem = reply.text.contains("problem");
    if (is_problem || reply.text.contains("error")) {
        const auto [status, why] = understand([&] {
            return std::pair(static_cast<opdock_status>(number_of(reply.text.at("status"))),
                             reply.text.at(is_problem ? "problem" : "error").get<std::string>());
        });
        if (!is_problem) {
            throw Error(status, why);
        }
        auto log = understand([&] { return reply.text.at("log").get<std::vector<std::string>>(); });
        process_.reset();
        throw NotTried(status, why, std::move(log));
    }
    return reply;
}

void Conversation::refuse(const std::string &what) {
    process_->end();
    fail("worker", "its process gave an invalid answer (" + what + "): code of the plugin wrote to descriptor " +
                       std::to_string(message_descriptor) + " or " + std::to_string(exchange_descriptor) +
                       ", or changed plugin-check's code in its process");
}

void Conversation::fail(const std::string &check, const std::string &message) {
    process_.reset();
    throw Ended(check, (is_open_ ? "" : "before any call: ") + message, !is_open_);
}

void Conversation::fail_ended(Clock::time_point deadline) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (!process_->ends_within(std::max(left, 1.0))) {
        process_->end();
        fail("worker", "its process closed the descriptor for answers and keeps running");
    }
    const int status = process_->wait();
    const std::string said = process_->said();
    if (is_open_ && !fault_.empty()) {
        fail("out-of-bounds", fault_);
    }
    fail("crash", ending(status, crash_, said));
}

std::string Conversation::finish() {
    if (process_ == nullptr) {
        return "";
    }
    forget_reply();
    const std::unique_ptr<Process> process = std::move(process_);
    process->hang_up();
    if (!process->ends_within(seconds_)) {
        process->end();
        return "after the last call the process did not end within " + whole(seconds_);
    }
    const int status = process->wait();
    return WIFSIGNALED(status)
               ? "after the last call, while the process was ending: " + ending(status, "", process->said())
               : "";
}

} // namespace opdock::plugin_check
