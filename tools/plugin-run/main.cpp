#include <iostream>

#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "report.hpp"
#include "request.hpp"
#include "run.hpp"
#include "signature.hpp"

namespace opdock::plugin_run {
namespace {

using nlohmann::json;

int execute(const Request &request) {
    if (request.help) {
        std::cout << help_text();
        return cli::exit_fine;
    }
    if (request.version) {
        std::cout << "plugin-run (opdock) " OPDOCK_TOOL_VERSION ", ABI " << OPDOCK_ABI_MAJOR << '.' << OPDOCK_ABI_MINOR
                  << '\n';
        return cli::exit_fine;
    }
    check_device(request.device);
    // Its own log is what a program that embeds the host would see: which implementation serves, and each fallback.
    const Host host = cli::open_host(request.modules, true);
    const Op op = host.op(request.op);
    const Signature signature = read_signature(json::parse(op.signature_json()));
    const Arguments arguments = match(request, signature);
    CallTensors tensors = make_tensors(op, request, signature, arguments);
    const std::vector<Result> results = results_of(signature, arguments, tensors);
    const Outcome outcome = call(host, request, signature, arguments, tensors);
    write_files(results);
    if (request.json) {
        std::cout << render_json(request, signature, arguments, tensors, outcome, results)
                         .dump(2, ' ', false, json::error_handler_t::replace)
                  << '\n';
    } else {
        std::cout << render_text(request, signature, arguments, tensors, outcome, results);
    }
    return cli::exit_fine;
}

} // namespace
} // namespace opdock::plugin_run

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-run", [&] {
        return opdock::plugin_run::execute(opdock::plugin_run::parse_request({argv + 1, argv + argc}));
    });
}
