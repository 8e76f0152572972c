#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include <malloc.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "binary.hpp"
#include "catalog.hpp"
#include "cli/exit.hpp"
#include "cli/interrupt.hpp"
#include "cli/open_host.hpp"
#include "cli/page.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/status_line.hpp"
#include "cli/suggest.hpp"
#include "cli/written_file.hpp"
#include "op-call/call_file.hpp"
#include "op-call/failure.hpp"
#include "op-call/shapes_file.hpp"
#include "own_references.hpp"
#include "process.hpp"
#include "replayed.hpp"
#include "report.hpp"
#include "request.hpp"
#include "subjects.hpp"
#include "supervise.hpp"
#include "worker.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// Reports a slow case, once, if there is no status line.
class Slowness {
  public:
    void note(const std::string &where, double seconds, double timeout) {
        constexpr double long_time = 10;
        if (seconds < long_time) {
            is_told_ = false;
        } else if (!is_told_ && isatty(STDERR_FILENO) == 0) {
            is_told_ = true;
            std::cerr << "plugin-check: " << cli::printable(where) << ": this case takes more than "
                      << static_cast<int>(long_time) << " s; it is ended after " << static_cast<int>(timeout)
                      << " s (--timeout)\n";
        }
    }

  private:
    bool is_told_ = false;
};

std::string quoted(const std::string &word) {
    const bool is_plain =
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-+=") ==
        std::string::npos;
    if (is_plain && !word.empty()) {
        return word;
    }
    std::string text = "'";
    for (const char c : word) {
        text += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return text + "'";
}

// The command that reproduces a finding.
std::string command_for(const Request &request, const Subject &subject, const Pins &pins, uint64_t seed,
                        const json &finding) {
    std::string command = "plugin-check";
    for (const std::string &file : request.files) {
        command += " " + quoted(file);
    }
    for (const std::string &module : request.modules) {
        command += " --modules " + quoted(module);
    }
    command += (request.replay.empty() ? " --op " + quoted(subject.op) : " --replay " + quoted(request.replay)) +
               " --impl " + quoted(subject.impl_id);
    if (!request.device.empty()) {
        command += " --device " + quoted(request.device);
    }
    if (!request.replay.empty()) {
        return command;
    }
    for (const op_call::Named &attribute : pins.attributes) {
        command += " --attr " + quoted(attribute.name + "=" + attribute.text);
    }
    for (const op_call::Named &shape : pins.shapes) {
        command += " --shape " + quoted(shape.name + "=" + shape.text);
    }
    command += " --seed " + std::to_string(seed);
    if (finding.at("case").is_number()) {
        command += " --case " + std::to_string(finding.at("case").get<uint64_t>());
    }
    return command;
}

std::vector<std::string> modules_of(const Request &request) {
    std::vector<std::string> modules = request.files;
    modules.insert(modules.end(), request.modules.begin(), request.modules.end());
    return modules;
}

std::string own_program() {
    return std::filesystem::read_symlink("/proc/self/exe").string();
}

Catalog open(const Request &request) {
    for (const std::string &module : request.modules) {
        cli::look_at_module(module);
    }
    constexpr double least_seconds = 300; // plugins that were never tried before are tried first
    return {own_program(), modules_of(request), std::max(request.timeout, least_seconds)};
}

uint64_t seed_of(const Request &request) {
    return request.seed ? *request.seed : std::random_device()() % 1'000'000;
}

// An implementation, and the call to try it with.
struct Round {
    const Subject *subject;
    Pins pins;
    std::string call = {};  // from a file of shapes; "": all that follow from the signature
    std::string place = {}; // position in that file
    bool is_recorded = false;
};

void tell_left_out(const std::string &place, const std::string &reason) {
    std::cerr << "plugin-check: " << cli::printable(place + ": left out: " + reason) << '\n';
}

// For a file of shapes: each call with every implementation of its op, in the order of the file.
std::vector<Round> rounds_of(const Request &request, const std::vector<Subject> &subjects) {
    std::vector<Round> rounds;
    if (request.shapes.empty()) {
        for (const Subject &subject : subjects) {
            rounds.push_back({&subject, request.pins});
        }
        return rounds;
    }
    std::set<std::string> known;
    for (const op_call::Subject &call : op_call::read_shapes(request.shapes)) {
        op_call::Subject bare = call; // plugin-check chooses the layouts itself
        bare.strides.clear();
        const std::string label = op_call::label_of(bare);
        bool is_anybodys = false;
        for (const Subject &subject : subjects) {
            if (subject.op == call.op && (call.impl.empty() || cli::same_name(call.impl, subject.impl_id))) {
                is_anybodys = true;
                if (known.insert(subject.impl_id + " " + label).second) {
                    rounds.push_back({&subject, {call.attributes, call.inputs}, label, call.place, call.is_recorded()});
                }
            }
        }
        if (!is_anybodys) {
            tell_left_out(call.place, "nothing that is checked implements '" + call.op + "'");
        }
    }
    if (rounds.empty()) {
        throw cli::Failure(request.shapes + ": it has no call for the implementations to check");
    }
    return rounds;
}

json check_ops(const Request &request, OwnReferences &own, const std::vector<Subject> &subjects, uint64_t seed,
               const op_call::CallFile *replayed, const cli::Interrupts &interrupts) {
    const std::string program = own_program();
    Limits limits;
    limits.case_seconds = request.timeout;
    json ops = json::array();
    cli::StatusLine status;
    Slowness slowness;
    const std::vector<Round> rounds = rounds_of(request, subjects);
    for (size_t i = 0; i < rounds.size() && interrupts.signal() == 0; ++i) {
        const Round &round = rounds[i];
        const Subject &subject = *round.subject;
        Plan plan;
        plan.subject = subject;
        plan.modules = modules_of(request);
        plan.seed = seed;
        plan.only = request.only_case ? static_cast<int64_t>(*request.only_case) : -1;
        plan.pins = round.pins;
        plan.settings = {request.threads, request.config_seconds, {}, replayed};
        json one;
        try {
            one = check_implementation(program, own, plan, limits, [&](size_t done, size_t total, double seconds) {
                const std::string where = std::to_string(i + 1) + " of " + std::to_string(rounds.size()) + "  " +
                                          subject.op + "  " + subject.impl_id + "  " + std::to_string(done) + "/" +
                                          std::to_string(total);
                status.show(seconds < 2 ? where : where + "  " + std::to_string(static_cast<int>(seconds)) + " s");
                slowness.note(where, seconds, request.timeout);
                return interrupts.signal() == 0;
            });
        } catch (const cli::UsageError &error) { // the call does not fit the implementation
            if (round.place.empty()) {
                throw;
            }
            if (!round.is_recorded) {
                throw cli::Failure(round.place + ": " + error.what());
            }
            tell_left_out(round.place, error.what());
            continue;
        }
        for (json &finding : one.at("findings")) {
            finding["command"] = command_for(request, subject, round.pins, seed, finding);
        }
        if (!round.call.empty()) {
            one["call"] = round.call;
        }
        ops.push_back(std::move(one));
    }
    return ops;
}

// Tensors are allocated and freed by the thousand: without this, fetching their pages from the system again took a
// quarter of the time, in the kernel.
void keep_pages() {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

bool is_sound(const json &file) {
    return file.at("status") == "ok" || file.at("status") == "faulty";
}

bool are_sound(const json &files) {
    return std::all_of(files.begin(), files.end(), is_sound);
}

// Includes files that hosts do not try again.
bool may_be_tried(const json &file) {
    return is_sound(file) || file.at("status") == "quarantined";
}

// Without its device every case would fail, whatever the implementation does.
void check_devices(Catalog &catalog, const std::vector<Subject> &subjects) {
    std::map<std::string, std::string> devices; // with an implementation that runs there
    for (const Subject &subject : subjects) {
        devices.emplace(subject.device, subject.impl_id);
    }
    for (const auto &[device, impl_id] : devices) {
        if (const std::string problem = catalog.missing(device); !problem.empty()) {
            throw cli::Failure("there is no device " + device + ", which '" + impl_id + "' runs on: " + problem);
        }
    }
}

// Adds the host's verdict on a file: it may refuse the file, or leave out an implementation. What is refused or left
// out is not checked, so it must not pass for right.
void add_verdict(json &file, const json &document) {
    const auto path = file.at("path").get<std::string>();
    const auto refuse = [&](const std::string &why) {
        if (is_sound(file)) { // otherwise a finding says so
            file["status"] = "rejected";
            file.at("findings").push_back({{"check", "rejected"}, {"message", why}});
        }
    };
    for (const json &plugin : document.at("plugins")) {
        std::error_code not_there;
        if (!std::filesystem::equivalent(plugin.at("path").get<std::string>(), path, not_there)) {
            continue;
        }
        if (plugin.at("status") != "loaded") {
            refuse(plugin.at("code").get<std::string>() + ": " + plugin.at("reason").get<std::string>());
        }
        for (const json &sentence : plugin.at("left_out")) {
            file.at("findings").push_back({{"check", "left-out"}, {"message", sentence}});
        }
    }
    for (const json &problem : document.at("problems")) {
        const auto message = problem.at("message").get<std::string>();
        if (!problem.at("taken").get<bool>() && message.find(path) != std::string::npos) {
            refuse(message);
        }
    }
}

// True if a finding of the files says the same as a line of the log.
bool is_finding(const std::string &line, const json &files) {
    return std::any_of(files.begin(), files.end(), [&](const json &file) {
        const json &findings = file.at("findings");
        return std::any_of(findings.begin(), findings.end(), [&](const json &finding) {
            const auto message = finding.at("message").get<std::string>();
            const size_t code = finding.at("check") == "rejected" ? message.find(": ") : std::string::npos;
            const size_t behind_code = code == std::string::npos ? 0 : code + 2;
            return line.ends_with(cli::printable(message.substr(behind_code)));
        });
    });
}

// The implementations to check; none if a file is refused, which is a finding then. Reports the other lines of the
// host's log that need attention, each once.
std::vector<Subject> find_subjects(const Request &request, const std::vector<std::string> &told, json &files) {
    Catalog catalog = open(request);
    try {
        for (json &file : files) { // a host has scanned it now, so its tune file can be judged by name
            file = check_binary(file.at("path").get<std::string>(), request.newest_glibc);
            add_verdict(file, catalog.document());
        }
        for (const std::string &line : catalog.log()) {
            if (std::find(told.begin(), told.end(), line) == told.end() && !is_finding(line, files)) {
                cli::write_log_line(cli::printable(line)); // it may come from the plugin
            }
        }
        if (!are_sound(files)) {
            return {};
        }
        if (!catalog.refusal().empty()) { // because of another module
            throw Error(OPDOCK_LOAD_FAILED, catalog.refusal());
        }
        std::vector<Subject> subjects = subjects_of(catalog.document(), request);
        check_devices(catalog, subjects);
        return subjects;
    } catch (const json::exception &) {
        throw cli::Failure("cannot read what the plugins provide: code of one of them changed the answer of the "
                           "process that asked them");
    }
}

// The named files, as they are before a host has tried them.
json named_files(const Request &request) {
    json files = json::array();
    for (const std::string &file : request.files) {
        cli::look_at_module(file, "");
        files.push_back(check_binary(file, request.newest_glibc));
    }
    return files;
}

// Adds the op and the arguments of the call and, if no other implementation is requested, the one that served it.
Request request_of(const op_call::CallFile &call, Request request) {
    request.ops = {call.op};
    request.pins = pins_of(call);
    if (request.files.empty() && request.impls.empty()) {
        request.impls = {call.impl};
    }
    return request;
}

int check(const Request &given) {
    std::optional<op_call::CallFile> replayed;
    if (!given.replay.empty()) {
        replayed = op_call::read_call_file(given.replay);
    }
    const Request request = replayed ? request_of(*replayed, given) : given;
    cli::observe_no_calls();
    cli::check_output(request.junit, request.force);
    cli::check_output(request.html, request.force);
    const auto begin = std::chrono::steady_clock::now();
    json files = named_files(request);
    const uint64_t seed = seed_of(request);
    const cli::Interrupts interrupts;
    json ops = json::array();
    if (std::all_of(files.begin(), files.end(), may_be_tried)) {
        keep_to_itself();
        keep_pages();
        std::vector<std::string> told;
        OwnReferences own([&](const std::string &line) {
            cli::write_log_line(line);
            told.push_back(line);
        });
        const std::vector<Subject> subjects = find_subjects(request, told, files);
        if (subjects.empty() && are_sound(files)) {
            throw cli::Failure("there is nothing to check: no implementation is left" +
                               (request.device.empty() ? std::string() : " on " + request.device));
        }
        ops = check_ops(request, own, subjects, seed, replayed ? &*replayed : nullptr, interrupts);
        const bool has_none = std::all_of(
            ops.begin(), ops.end(), [](const json &one) { return one.at("cases") == 0 && one.at("findings").empty(); });
        if (request.only_case && has_none && are_sound(files) && interrupts.signal() == 0) {
            throw cli::Failure("there is no case " + std::to_string(*request.only_case) + " with seed " +
                               std::to_string(seed));
        }
    }
    const json document = {{"schema", "opdock.plugin-check/1"},
                           {"version", OPDOCK_TOOL_VERSION},
                           {"seed", seed},
                           {"interrupted", interrupts.signal() != 0},
                           {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()},
                           {"files", files},
                           {"ops", ops}};
    if (request.json) {
        cli::print_document(document);
    } else {
        std::cout << render_text(document, cli::page_of_stdout());
    }
    if (!request.junit.empty()) {
        cli::write_output(request.junit, request.force, render_junit(document));
    }
    if (!request.html.empty()) {
        cli::write_output(request.html, request.force, render_html(document));
    }
    if (interrupts.signal() != 0) {
        return 128 + interrupts.signal();
    }
    return count_findings(document) == 0 ? cli::exit_fine : cli::exit_absent;
}

// Prints "rmsnorm_fwd vendor.acme" for each.
int list(const Request &request) {
    keep_to_itself();
    json files = named_files(request);
    const bool are_tried = std::all_of(files.begin(), files.end(), may_be_tried);
    const std::vector<Subject> subjects = are_tried ? find_subjects(request, {}, files) : std::vector<Subject>();
    for (const json &file : files) {
        if (!is_sound(file)) {
            throw cli::Failure(file.at("path").get<std::string>() + ": " +
                               file.at("findings").at(0).at("message").get<std::string>());
        }
    }
    for (const Subject &subject : subjects) {
        std::cout << cli::printable(subject.op + ' ' + subject.impl_id) << '\n';
    }
    return cli::exit_fine;
}

int execute(const std::vector<std::string> &arguments) {
    if (arguments.size() == 2 && arguments.front() == "--worker") { // plugin-check has started itself
        return run_worker(arguments.back());
    }
    return tool.run(arguments, [](const Request &request) { return request.lists ? list(request) : check(request); });
}

} // namespace
} // namespace opdock::plugin_check

int main(int argc, char **argv) {
    return opdock::op_call::run_json_tool("plugin-check", {argv + 1, argv + argc}, opdock::plugin_check::execute);
}
