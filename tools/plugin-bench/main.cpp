#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "cli/exit.hpp"
#include "cli/gnuplot.hpp"
#include "cli/interrupt.hpp"
#include "cli/open_host.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/written_file.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "device_facts.hpp"
#include "op-call/failure.hpp"
#include "op-call/requested.hpp"
#include "op-call/shapes_file.hpp"
#include "plan.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "request.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

int show_expected(const Request &request) {
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    const op_call::Signature signature = op_call::signature_of(host.op(request.ops.front()));
    std::cout << op_call::expected_text(signature, op_call::shapes_or_sources_spelling);
    return cli::exit_fine;
}

void draw(const Request &request, const json &document) {
    const std::string script = plot_script(document);
    if (script.empty()) {
        throw cli::Failure("nothing was timed, so there is nothing to draw");
    }
    cli::write_output(request.plot, request.force, cli::run_gnuplot(script));
    std::cerr << "plugin-bench: the plot is in " << cli::printable(request.plot) << '\n';
}

// The results have been printed already, so errors here are only reported on stderr.
bool writes_files(const Request &request, const json &document) {
    bool all = true;
    const auto try_to = [&](const std::string &path, const auto &write) {
        try {
            if (!path.empty()) {
                write();
            }
        } catch (const std::exception &error) {
            std::cerr << "plugin-bench: " << cli::printable(error.what()) << '\n';
            all = false;
        }
    };
    try_to(request.csv, [&] { cli::write_output(request.csv, request.force, render_csv(document)); });
    try_to(request.plot, [&] { draw(request, document); });
    return all;
}

bool has_failed(const json &document) {
    const json &shapes = document.at("shapes");
    return std::any_of(shapes.begin(), shapes.end(), [](const json &shape) {
        const json &all = shape.at("implementations");
        return shape.at("outcome") == "failed" || shape.at("outcome") == "declined" ||
               std::any_of(all.begin(), all.end(), [](const json &one) { return one.at("outcome") == "failed"; });
    });
}

Plan checked_plan(const Host &host, const Request &request) {
    Plan planned = plan(host, request);
    if (planned.entries.empty()) {
        std::string reasons;
        for (const LeftOut &one : planned.left_out) {
            reasons += "\n  " + one.op + ": " + one.reason;
        }
        throw cli::Failure("there is nothing to time on " + request.device + reasons);
    }
    return planned;
}

int measure(const Request &given) {
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
    cli::check_output(request.csv, request.force);
    cli::check_output(request.plot, request.force);
    const json before = request.compare.empty() ? json() : read_document(request.compare);
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    const DeviceFacts facts = facts_of(host, request.device);
    const Plan planned = checked_plan(host, request);
    const cli::Interrupts interrupts;
    cli::Progress progress = cli::progress_on_stderr(planned.entries.size());
    json document = bench(host, request, facts, planned, interrupts, progress);
    if (!before.is_null()) {
        document["comparison"] = compare(before, document);
    }
    if (request.json) {
        cli::print_document(document);
    } else if (request.prints_csv) {
        std::cout << render_csv(document);
    } else {
        const cli::Page page = cli::page_of_stdout();
        std::cout << render_report(document, page);
        if (!before.is_null()) {
            std::cout << render_comparison(document.at("comparison"), document, request.compare, page);
        }
    }
    const bool all_written = writes_files(request, document);
    if (interrupts.signal() != 0) {
        return 128 + interrupts.signal();
    }
    if (!before.is_null() && request.fail_above > 0 && !compares_anything(document.at("comparison"))) {
        std::cerr << "plugin-bench: --fail-above: none of the calls and implementations in "
                  << cli::printable(request.compare) << " was timed now\n";
        return cli::exit_absent;
    }
    const bool is_slower = !before.is_null() && is_too_slow(document.at("comparison"), request.fail_above);
    return all_written && !has_failed(document) && !is_slower ? cli::exit_fine : cli::exit_absent;
}

} // namespace
} // namespace opdock::plugin_bench

int main(int argc, char **argv) {
    return opdock::op_call::run_json_tool("plugin-bench", {argv + 1, argv + argc}, [](const auto &arguments) {
        return opdock::plugin_bench::tool.run(arguments, opdock::plugin_bench::measure);
    });
}
