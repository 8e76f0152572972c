#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/gnuplot.hpp"
#include "cli/interrupt.hpp"
#include "cli/open_host.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/written_file.hpp"
#include "jobs.hpp"
#include "op-call/device.hpp"
#include "op-call/failure.hpp"
#include "op-call/requested.hpp"
#include "op-call/shapes_file.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "request.hpp"
#include "tune.hpp"

namespace opdock::plugin_tune {
namespace {

using nlohmann::json;

int show_expected(const Request &request) {
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    const op_call::Signature signature = op_call::signature_of(host.op(request.subject.op));
    std::cout << op_call::expected_text(signature, op_call::shapes_or_sources_spelling);
    return cli::exit_fine;
}

void plot(const Request &request, const json &document) {
    const std::string script = plot_script(document);
    if (script.empty()) {
        std::cerr
            << "plugin-tune: nothing was measured, so there is nothing to draw; --again tunes known shapes again\n";
        return;
    }
    cli::write_output(request.plot, request.force, cli::run_gnuplot(script));
    std::cerr << "plugin-tune: the plot is in " << cli::printable(request.plot) << '\n';
}

// True if anything besides the config in force was timed: then there was a result to keep.
bool has_rivals(const json &shape) {
    const json &tried = shape.at("tried");
    return std::count_if(tried.begin(), tried.end(), [](const json &run) { return run.at("outcome") == "timed"; }) > 1;
}

// The measurements are printed already, so the error goes only to stderr.
bool draws(const Request &request, const json &document) {
    try {
        plot(request, document);
        return true;
    } catch (const std::exception &error) {
        std::cerr << "plugin-tune: " << cli::printable(error.what()) << '\n';
        return false;
    }
}

int exit_code_of(const json &document, int signal) {
    if (signal != 0) {
        return 128 + signal;
    }
    const json &shapes = document.at("shapes");
    const auto has_failed = [&](const json &shape) {
        const bool is_lost = !document.at("dry_run").get<bool>() && !shape.value("kept", true) &&
                             (shape.at("outcome") == "compared" || has_rivals(shape));
        return shape.at("outcome") == "failed" || is_lost;
    };
    return std::any_of(shapes.begin(), shapes.end(), has_failed) ? cli::exit_absent : cli::exit_fine;
}

// Checks once for all shapes: each shape would fail on its own, after its inputs were made.
void check_database(const Host &host, const Request &request) {
    if ((request.flags & OPDOCK_TUNE_DRY_RUN) != 0) {
        return;
    }
    try {
        host.check_tune_database();
    } catch (const Error &error) {
        throw Error(error.status(), std::string(error.what()) + "\n--dry-run tunes without keeping results.");
    }
}

int tune(const Request &given) {
    if (given.shows_expected) {
        return show_expected(given);
    }
    cli::observe_no_calls();
    Request request = given;
    request.runs_elsewhere = !given.device.empty();
    request.device = op_call::device_for(given.device, given.shapes);
    if (!request.plot.empty()) {
        cli::require_gnuplot();
    }
    cli::check_output(request.plot, request.force);
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    op_call::device_record(host, request.device); // throws before inputs are made for a device that does not exist
    const Plan planned = plan(host, request);
    if (planned.jobs.empty()) {
        std::string reasons;
        for (const LeftOut &one : planned.left_out) {
            reasons += "\n  " + one.op + " of " + one.impl + ": " + one.reason;
        }
        const std::string who = request.subject.impl.empty()
                                    ? "no implementation on " + request.device + " has"
                                    : "'" + request.subject.impl + "' has no op on " + request.device + " with";
        throw cli::Failure("there is nothing to tune: " + who + " knobs and a tune file with configs for them" +
                           reasons);
    }
    check_database(host, request);
    const cli::Interrupts interrupts;
    cli::Progress progress = cli::progress_on_stderr(planned.jobs.size());
    const json document = tune_all(host, request, planned, interrupts, progress);
    if (request.json) {
        cli::print_document(document);
    } else {
        std::cout << render_report(document, cli::page_of_stdout());
    }
    if (!request.plot.empty() && !draws(request, document)) {
        return interrupts.signal() != 0 ? 128 + interrupts.signal() : cli::exit_absent;
    }
    return exit_code_of(document, interrupts.signal());
}

} // namespace
} // namespace opdock::plugin_tune

int main(int argc, char **argv) {
    return opdock::op_call::run_json_tool("plugin-tune", {argv + 1, argv + argc}, [](const auto &arguments) {
        return opdock::plugin_tune::tool.run(arguments, opdock::plugin_tune::tune);
    });
}
