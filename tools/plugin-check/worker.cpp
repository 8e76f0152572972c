#include "worker.hpp"

#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "fault.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

pid_t worker_process = 0;

// Whole lines: the reader must not wait for the rest of one.
void tell(const json &message) {
    const bool is_copy = getpid() != worker_process; // which must not go on beside its original
    const json said = is_copy ? json{{"copy", "a process that it forked returned from the call as well"}} : message;
    const std::string line = said.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    size_t written = 0;
    while (written < line.size()) {
        const ssize_t count = write(message_descriptor, line.data() + written, line.size() - written);
        if (count <= 0) {
            _exit(cli::exit_absent); // nobody listens
        }
        written += static_cast<size_t>(count);
    }
    if (is_copy) {
        _exit(cli::exit_absent);
    }
}

const char *text_of(Outcome::Kind kind) {
    switch (kind) {
    case Outcome::Kind::declined:
        return "declined";
    case Outcome::Kind::skipped:
        return "skipped";
    case Outcome::Kind::ran:
        break;
    }
    return "ran";
}

json as_json(size_t index, const Outcome &outcome) {
    json findings = json::array();
    for (const Finding &finding : outcome.findings) {
        findings.push_back({{"check", finding.check}, {"message", finding.message}});
    }
    return {{"end", index},
            {"kind", text_of(outcome.kind)},
            {"reason", outcome.reason},
            {"compared", outcome.compared},
            {"findings", findings},
            {"errors", outcome.errors},
            {"configs", outcome.configs},
            {"left_out", outcome.configs_left_out}};
}

void work(const Job &job) {
    // What ends this process is a finding; other programs' next start is not to hear of it as a death in a first call.
    setenv("PLUGIN_SCAN_CACHE", "off", 1);
    const Host host = cli::open_host(job.modules, false, [](const std::string & /*line*/) {}); // told already
    const op_call::Signature signature = op_call::read_signature(json::parse(host.op(job.subject.op).signature_json()));
    const Trial trial(host, job.subject, signature, job.settings);
    const std::vector<Case> cases = trial.cases(job.seed);
    tell({{"cases", cases.size()}, {"has_reference", trial.has_reference()}});
    for (const Case &one : cases) {
        const bool is_wanted = job.only < 0 ? one.index >= job.first : one.index == static_cast<size_t>(job.only);
        if (is_wanted) {
            tell({{"begin", one.index},
                  {"label", label_of(one, signature)},
                  {"dtypes", one.tuple},
                  {"empty", is_empty(one.shapes)}});
            tell(as_json(one.index, trial.run(one)));
        }
    }
    tell({{"done", true}});
}

} // namespace

json as_json(const Job &job) {
    return {{"op", job.subject.op},
            {"impl_id", job.subject.impl_id},
            {"device", job.subject.device},
            {"tuples", job.subject.tuples},
            {"deterministic", job.subject.deterministic},
            {"needs_contiguous", job.subject.needs_contiguous},
            {"alignment", job.subject.alignment},
            {"has_knobs", job.subject.has_knobs},
            {"modules", job.modules},
            {"seed", job.seed},
            {"first", job.first},
            {"only", job.only},
            {"threads", job.settings.threads},
            {"config_seconds", job.settings.config_seconds}};
}

Job job_of(const json &json) {
    Job job;
    json.at("op").get_to(job.subject.op);
    json.at("impl_id").get_to(job.subject.impl_id);
    json.at("device").get_to(job.subject.device);
    json.at("tuples").get_to(job.subject.tuples);
    json.at("deterministic").get_to(job.subject.deterministic);
    json.at("needs_contiguous").get_to(job.subject.needs_contiguous);
    json.at("alignment").get_to(job.subject.alignment);
    json.at("has_knobs").get_to(job.subject.has_knobs);
    json.at("modules").get_to(job.modules);
    json.at("seed").get_to(job.seed);
    json.at("first").get_to(job.first);
    json.at("only").get_to(job.only);
    json.at("threads").get_to(job.settings.threads);
    json.at("config_seconds").get_to(job.settings.config_seconds);
    return job;
}

int run_worker(const std::string &job) {
    worker_process = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // it is in a process group of its own, where no Ctrl-C comes
    fcntl(message_descriptor, F_SETFD, FD_CLOEXEC);
    watch_faults();
    try {
        work(job_of(json::parse(job)));
    } catch (const std::exception &error) {
        tell({{"problem", error.what()}});
        return cli::exit_absent;
    }
    return cli::exit_fine; // and through what the plugin wants done at exit
}

} // namespace opdock::plugin_check
