#include "worker.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "declared_op.hpp"
#include "fault.hpp"
#include "message.hpp"
#include "op-call/device.hpp"
#include "process.hpp"
#include "worker_calls.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

pid_t worker_process = 0;
std::vector<std::string> host_log; // what needs attention, in a worker without an op; with one it has been told already

void send_packet(const json &packet) {
    const std::string text = packet.dump();
    if (send(message_descriptor, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
        _exit(cli::exit_absent); // nobody listens any more
    }
}

// A copy of this process, forked by the plugin, must not continue beside the original or touch what they share.
void end_copy() {
    if (getpid() != worker_process) {
        send_packet({{"copy", true}});
        _exit(cli::exit_absent);
    }
}

// The text follows the bytes, which are in the exchange already.
void answer(uint64_t number, const json &text, size_t bytes) {
    end_copy();
    const std::string written = text.dump(-1, ' ', false, json::error_handler_t::replace);
    if (!write_exchange(exchange_descriptor, written.data(), written.size(), bytes)) {
        _exit(cli::exit_absent);
    }
    send_packet({{"number", number}, {"bytes", bytes}, {"text", written.size()}});
}

// The contents of plugins, for a tool that does not open them itself.
class Opened {
  public:
    explicit Opened(const Job &job) : host_(open(job, refusal_)) {}

    json handle(const json &request) const {
        if (request.at("do") == "describe") {
            return {{"host", json::parse(host_.describe())}, {"refusal", refusal_}, {"log", host_log}};
        }
        return {{"missing", op_call::find_device(host_, request.at("device").get<std::string>()).problem}};
    }

  private:
    // In strict mode a host that refuses a module does not open; one that is not strict describes it.
    static Host open(const Job &job, std::string &refusal) {
        const auto keep = [](const std::string &line) { host_log.push_back(line); };
        try {
            return cli::open_host(job.modules, false, keep, cli::Again::modules);
        } catch (const Error &error) {
            if (error.status() != OPDOCK_LOAD_FAILED) {
                throw;
            }
            refusal = error.what();
        }
        host_log.clear();
        setenv(cli::variable_name("STRICT").c_str(), "0", 1);
        return cli::open_host(job.modules, false, keep);
    }

    std::string refusal_; // of a strict host, or ""
    Host host_;
};

std::optional<json> next_request() {
    std::string packet(largest_packet, '\0');
    ssize_t count = 0;
    do {
        count = recv(message_descriptor, packet.data(), packet.size(), 0);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
        return std::nullopt;
    }
    packet.resize(static_cast<size_t>(count));
    return std::optional<json>(std::in_place, json::parse(packet));
}

// `handle` returns the answer's text and sets the number of bytes of the exchange that belong to it.
template<class Handle>
void serve(uint64_t &number, Handle handle) {
    answer(number, json::object(), 0);
    while (const std::optional<json> request = next_request()) {
        request->at("number").get_to(number);
        size_t bytes = 0;
        json text;
        try {
            text = handle(*request, bytes);
        } catch (const Error &error) {
            text = {{"error", error.what()}, {"status", error.status()}};
            bytes = 0;
        }
        answer(number, text, bytes);
    }
}

void work(const Job &job, uint64_t &number) {
    if (job.subject.op.empty()) {
        Opened opened(job);
        serve(number, [&](const json &request, size_t & /*bytes*/) { return opened.handle(request); });
        return;
    }
    // A death of this process is a finding; later starts of other programs must not take it for one in a first call.
    setenv(cli::variable_name("SCAN_CACHE").c_str(), "off", 1);
    Host host = cli::open_host(job.modules, false, [](const std::string & /*line*/) {}); // reported already
    declare_op(host, job.subject.signature);
    WorkerCalls calls(host, job.subject, end_copy);
    serve(number, [&](const json &request, size_t &bytes) { return calls.handle(request, bytes); });
}

} // namespace

json as_json(const Job &job) {
    return {{"prefix", cli::variable_prefix()},  {"modules", job.modules},       {"op", job.subject.op},
            {"impl_id", job.subject.impl_id},    {"device", job.subject.device}, {"alignment", job.subject.alignment},
            {"signature", job.subject.signature}};
}

Job job_of(const json &json) {
    Job job;
    cli::use_variable_prefix(json.at("prefix"));
    json.at("modules").get_to(job.modules);
    json.at("op").get_to(job.subject.op);
    json.at("impl_id").get_to(job.subject.impl_id);
    json.at("device").get_to(job.subject.device);
    json.at("alignment").get_to(job.subject.alignment);
    json.at("signature").get_to(job.subject.signature);
    return job;
}

int run_worker(const std::string &job) {
    worker_process = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // its process group is its own and gets no Ctrl-C
    fcntl(message_descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(exchange_descriptor, F_SETFD, FD_CLOEXEC);
    give_up_reach();
    watch_faults();
    uint64_t number = 0; // of the current request
    try {
        work(job_of(json::parse(job)), number);
    } catch (const Error &error) {
        answer(number, {{"problem", error.what()}, {"status", error.status()}, {"log", host_log}}, 0);
        return cli::exit_absent;
    } catch (const std::exception &error) {
        answer(number, {{"problem", error.what()}, {"status", OPDOCK_OK}, {"log", host_log}}, 0);
        return cli::exit_absent;
    }
    return cli::exit_fine; // runs the plugin's exit handlers too
}

} // namespace opdock::plugin_check
