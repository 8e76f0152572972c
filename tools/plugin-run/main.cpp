#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "cli/page.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "op-call/device.hpp"
#include "op-call/failure.hpp"
#include "op-call/requested.hpp"
#include "report.hpp"
#include "request.hpp"
#include "run.hpp"

namespace opdock::plugin_run {
namespace {

using nlohmann::json;

void show_expected(const Request &request, const Signature &signature, const Op &op) {
    if (request.json) {
        json document = json::parse(op.signature_json());
        document["schema"] = "opdock.plugin-run.signature/1";
        cli::print_document(document);
        return;
    }
    std::cout << op_call::expected_text(signature, op_call::sources_spelling);
}

int execute(const Request &given) {
    std::optional<CallFile> replayed;
    if (!given.file.empty()) {
        replayed = op_call::read_call_file(given.file);
    }
    Request request = replayed ? request_of(*replayed, given) : given;
    request.device = request.device.empty() ? "cpu" : request.device;
    // Shows the log as a program that embeds the host would see it: the chosen implementation, and each fallback.
    const Host host = cli::open_host(request.modules, true);
    op_call::check_modules(host, request.modules);
    const Op op = host.op(request.op);
    const Signature signature = op_call::signature_of(op);
    if (asks_what_is_expected(request)) {
        show_expected(request, signature, op);
        return cli::exit_fine;
    }
    const DLDevice device = host.device(request.device);
    if (device.device_type != kDLCPU) {
        (void)op_call::device_record(host, request.device); // throws if there is no such device
    }
    const Arguments arguments = match(request, signature);
    CallTensors tensors = make_tensors(op, request, signature, arguments, replayed);
    std::vector<Result> results = results_of(signature, arguments, tensors);
    check_files(results, request.force);
    Outcome outcome = call(host, request, device, signature, arguments, tensors);
    if (replayed) {
        outcome.replayed = &*replayed;
        gather(tensors);
        compare(*replayed, results);
    }
    write_files(results, request.force);
    if (request.json) {
        cli::print_document(render_json(request, signature, arguments, tensors, outcome, results));
    } else {
        std::cout << render_text(request, signature, arguments, tensors, outcome, results, cli::page_of_stdout());
    }
    return cli::exit_fine;
}

} // namespace
} // namespace opdock::plugin_run

int main(int argc, char **argv) {
    return opdock::op_call::run_json_tool("plugin-run", {argv + 1, argv + argc}, [](const auto &arguments) {
        return opdock::plugin_run::tool.run(arguments, opdock::plugin_run::execute);
    });
}
