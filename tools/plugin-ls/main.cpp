#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include <nlohmann/json.hpp>

#include "bug_report.hpp"
#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "cli/print_document.hpp"
#include "cli/quantities.hpp"
#include "cli/suggest.hpp"
#include "cli/text_file.hpp"
#include "document.hpp"
#include "live_process.hpp"
#include "machine.hpp"
#include "observe/trace_file.hpp"
#include "op-call/call.hpp"
#include "op-call/device.hpp"
#include "render.hpp"
#include "request.hpp"

namespace opdock::plugin_ls {
namespace {

using nlohmann::json;

// Log messages of a host that opens. An answer that lists the rejected plugins should not repeat them, so the log is
// held back until the answer is printed or has failed.
class OpeningLog {
  public:
    explicit OpeningLog(bool waits) : waits_(waits) {}
    ~OpeningLog() { write(); }
    OpeningLog(const OpeningLog &) = delete;
    OpeningLog &operator=(const OpeningLog &) = delete;

    Host open_host(const Request &request) {
        const auto keep = [this](const std::string &line) {
            if (waits_) {
                lines_.push_back(line);
            } else {
                cli::write_log_line(line);
            }
        };
        return cli::open_host(request.modules, request.verbose, keep,
                              request.rescan ? cli::Again::all : cli::Again::none);
    }

    void leave_out_what(const json &document) {
        std::erase_if(lines_, [&](const std::string &line) { return repeats(line, document); });
        write();
    }

  private:
    void write() {
        for (const std::string &line : lines_) {
            cli::write_log_line(line);
        }
        lines_.clear();
        waits_ = false;
    }

    bool waits_;
    std::vector<std::string> lines_;
};

// Explains one call, with the given shapes and attributes.
json explain_call(const Host &host, const Request &request, const std::string &device_text) {
    const Op op = host.op(request.subject);
    const op_call::Signature signature = op_call::read_signature(json::parse(op.signature_json()));
    const op_call::Arguments arguments =
        op_call::match(request.shapes, request.attributes, signature, op_call::shapes_spelling);
    const DLDevice device = host.device(device_text);
    op_call::Operands inputs = op_call::shapes_of(arguments);
    op_call::put_on(inputs, signature.inputs, device);
    op_call::Operands outputs = op_call::infer_outputs(op, signature, inputs, arguments.attributes);
    op_call::put_on(outputs, signature.outputs, device);
    const op_call::Call call(signature, inputs, outputs, arguments.attributes, device);
    return json::parse(op.explain(call.args()));
}

// "" if the device is present.
std::string problem_of_device(const Host &host, const std::string &device) {
    try {
        return op_call::find_device(host, device).problem;
    } catch (const Error &error) { // explain() accepted the name: plugins name the type, but no provider offers it
        return error.what();
    }
}

json decision_of_host(const Host &host, const Request &request) {
    const std::string device = request.device.empty() ? "cpu" : request.device;
    json decision = json::parse(host.explain(request.subject, device)); // a failure here is not due to --dtype
    if (!request.dtype.empty()) {
        try {
            decision = json::parse(host.explain(request.subject, device, request.dtype));
        } catch (const Error &error) {
            if (error.status() == OPDOCK_INVALID_ARGUMENT) {
                throw cli::UsageError(std::string("--dtype: ") + error.what());
            }
            throw;
        }
    }
    if (!request.shapes.empty() || !request.attributes.empty()) {
        decision = explain_call(host, request, device);
    }
    if (const std::string problem = problem_of_device(host, device); !problem.empty()) {
        decision["device_problem"] = problem; // the reason why no implementation can serve on the device
    }
    return decision;
}

int show_why(json decision, const Request &request, const Page &page) {
    decision["schema"] = "opdock.plugin-ls.why/1";
    if (request.json) {
        cli::print_document(decision);
    } else {
        std::cout << render_why(decision, page);
    }
    const bool on_cpu = decision.contains("on_cpu") && decision.at("on_cpu").at("follows").get<bool>();
    return decision.at("chain").empty() && !on_cpu ? cli::exit_absent : cli::exit_fine;
}

void show_devices(const json &devices, const Request &request, const Page &page) {
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-ls.devices/1"}, {"devices", devices}});
    } else {
        std::cout << render_devices(devices, page);
    }
}

void show_frozen(const Host &host, const std::string &file) {
    const json manifest = json::parse(host.freeze(cli::read_text(file).c_str()));
    std::set<std::string> ops;
    size_t choices = 0;
    for (const json &one : manifest.at("choices")) {
        ops.insert(one.at("op").get<std::string>());
        choices += one.at("dtypes").size();
    }
    std::cout << "the same: " << cli::counted(choices, "choice") << " of " << cli::counted(ops.size(), "op") << ", "
              << manifest.at("digest").get<std::string>() << '\n';
}

int show_exists(const Request &request, const json &document) {
    const std::vector<std::string> ids = impl_ids(document);
    if (std::none_of(ids.begin(), ids.end(),
                     [&](const std::string &id) { return cli::same_name(id, request.subject); })) {
        throw cli::Failure("no plugin brings an implementation '" + request.subject + "'" +
                           cli::did_you_mean(request.subject, ids));
    }
    return cli::exit_fine;
}

int show_check(const Request &request, const Page &page) {
    char *text = nullptr;
    detail::check(opdock_check_file(request.subject.c_str(), cli::variable_prefix().c_str(), &text));
    json verdict = json::parse(detail::take(text));
    verdict["schema"] = "opdock.plugin-ls.check/1";
    if (request.json) {
        cli::print_document(verdict);
    } else {
        std::cout << render_check(verdict, page);
    }
    return verdict.at("status") == "ok" ? cli::exit_fine : cli::exit_absent;
}

// A running process writes to a file beside the one that PLUGIN_TRACE names.
void show_trace(const std::string &file) {
    constexpr size_t most = size_t{1} << 30U;
    const std::string ring = file + ".ring";
    std::error_code unreachable;
    const bool has_ring = std::filesystem::exists(ring, unreachable);
    const std::string &path = has_ring ? ring : file;
    const std::string bytes = cli::read_text(path, most);
    if (!has_ring && bytes.starts_with('{')) {
        throw cli::Failure(path +
                           ": the process ended normally, and this file is already its trace: open it in Perfetto");
    }
    std::cout << core::chrome_json(core::read_trace(bytes, path));
}

int show_bug_report(const Request &request) {
    const Machine machine = look_at_machine(reinterpret_cast<const void *>(&opdock_open));
    try {
        OpeningLog log(!request.verbose && !cli::log_is_wanted());
        const Host host = log.open_host(request);
        const json document = json::parse(host.describe());
        std::cout << render_bug_report(machine, document, "") << std::flush;
        // Last, since this runs code of device providers and of their drivers.
        std::cout << "\nDEVICES\n" << render_devices(json::parse(host.devices()), Page(false));
        log.leave_out_what(document);
        return lacks_requested(document) ? cli::exit_absent : cli::exit_fine;
    } catch (const Error &error) {
        std::cout << render_bug_report(machine, nullptr, error.what());
        return cli::exit_absent;
    }
}

// The requested part of the document.
json narrowed(const Request &request, json document) {
    if (request.show == Show::op) {
        document["ops"] = json::array({find_op(document, request.subject)});
    }
    document = filtered(std::move(document), request.filter);
    if (request.show == Show::op && document.at("ops").empty()) {
        throw cli::Failure("nothing that matches implements the op '" + request.subject + "'");
    }
    if (request.show == Show::rejected) {
        document["plugins"] = rejected_plugins(document);
        document["ops"] = document["vendors"] = json::array();
    }
    return document;
}

std::string as_text(const Request &request, const json &document, const Page &page) {
    switch (request.show) {
    case Show::op:
        return render_op(document.at("ops").front(), request.verbose, page);
    case Show::rejected:
        return document.at("plugins").empty() && document.at("problems").empty()
                   ? "no plugin was rejected or skipped\n"
                   : render_plugins(document.at("plugins"), request.verbose, page) +
                         render_problems(document.at("problems"));
    case Show::paths:
        return render_paths(document.at("paths"), page);
    case Show::policy:
        return render_policy(document.at("policy"), page) + "\n" + page.paint(cli::Tint::heading, "VARIABLES") + "\n" +
               render_variables(document.at("variables"), page);
    default:
        return render_screen(document, request.verbose, page,
                             !request.filter.plugin.empty() || !request.filter.vendor.empty() ||
                                 !request.filter.device.empty());
    }
}

void show_document(const Request &request, const json &document, const Page &page) {
    if (const json shown = narrowed(request, document); request.json) {
        cli::print_document(shown);
    } else {
        std::cout << as_text(request, shown, page);
    }
}

// True for text output that lists the plugins; for any other, the log reports the rejected ones.
bool lists_plugins(const Request &request) {
    return !request.json && (request.show == Show::everything || request.show == Show::rejected);
}

int show_of_host(const Request &request, const Page &page) {
    OpeningLog log(lists_plugins(request) && !request.verbose && !cli::log_is_wanted());
    const Host host = log.open_host(request);
    const json document = json::parse(host.describe());
    int code = cli::exit_fine;
    if (request.show == Show::exists) {
        code = show_exists(request, document);
    } else if (request.show == Show::devices) {
        show_devices(json::parse(host.devices()), request, page);
    } else if (request.show == Show::freeze) {
        cli::print_document(json::parse(host.freeze()));
    } else if (request.show == Show::frozen) {
        show_frozen(host, request.subject);
    } else if (request.show == Show::why) {
        find_op(document, request.subject);
        code = show_why(decision_of_host(host, request), request, page);
    } else {
        show_document(request, document, page);
    }
    // The log reports plugins that are not shown.
    log.leave_out_what(request.show == Show::rejected ? narrowed(request, document) : document);
    return lacks_requested(document) ? cli::exit_absent : code;
}

json or_null(const std::string &text) {
    return text.empty() ? json() : json(text);
}

int show_of_process(const Request &request, const Page &page) {
    const auto ask = [&](const json &question) { return ask_process(request.process, question); };
    switch (request.show) {
    case Show::reload:
        ask({{"ask", "reload_policy"}});
        std::cout << "process " << request.process << " has read its policy again\n";
        return cli::exit_fine;
    case Show::reset_health:
        ask({{"ask", "reset_health"}, {"op", request.subject == "all" ? json() : json(request.subject)}});
        std::cout << "process " << request.process << " tries failed implementations again, for "
                  << (request.subject == "all" ? "every op" : "op " + request.subject) << '\n';
        return cli::exit_fine;
    case Show::devices:
        show_devices(ask({{"ask", "devices"}}), request, page);
        return cli::exit_fine;
    default:
        break;
    }
    const json document = ask({{"ask", "describe"}});
    if (request.show == Show::why) {
        find_op(document, request.subject);
        return show_why(ask({{"ask", "explain"},
                             {"op", request.subject},
                             {"device", or_null(request.device)},
                             {"dtypes", or_null(request.dtype)}}),
                        request, page);
    }
    show_document(request, document, page);
    if (request.show == Show::everything && !request.json) {
        std::cout << "\n"
                  << page.paint(cli::Tint::heading, "CALLS") << " so far\n"
                  << render_counters(document.at("counters"), page);
    }
    return cli::exit_fine;
}

int show(const Request &request) {
    const Page page = cli::page_of_stdout();
    switch (request.show) {
    case Show::version:
        std::cout << cli::version_with_abi("plugin-ls") << '\n';
        return cli::exit_fine;
    case Show::check:
        return show_check(request, page);
    case Show::trace:
        show_trace(request.subject);
        return cli::exit_fine;
    case Show::bug_report:
        return show_bug_report(request);
    default:
        return request.process.empty() ? show_of_host(request, page) : show_of_process(request, page);
    }
}

} // namespace
} // namespace opdock::plugin_ls

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-ls", [&] {
        return opdock::plugin_ls::tool.run({argv + 1, argv + argc}, opdock::plugin_ls::show);
    });
}
