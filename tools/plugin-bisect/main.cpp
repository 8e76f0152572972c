#include <iostream>

#include <nlohmann/json.hpp>

#include "bisect.hpp"
#include "cli/exit.hpp"
#include "cli/page.hpp"
#include "cli/print_document.hpp"
#include "op-call/failure.hpp"
#include "report.hpp"
#include "request.hpp"

namespace opdock::plugin_bisect {
namespace {

constexpr int exit_no_culprit = 3;
constexpr int exit_no_single_op = 4;

int exit_code_of(const nlohmann::json &document) {
    const auto result = document.at("result").get<std::string>();
    return result == "interrupted"    ? 128 + document.at("signal").get<int>()
           : result == "found"        ? cli::exit_fine
           : result == "no-single-op" ? exit_no_single_op
                                      : exit_no_culprit;
}

int execute(const std::vector<std::string> &options, const std::vector<std::string> &command) {
    const auto parsed = tool.read(options);
    if (parsed.command == nullptr) {
        std::cout << parsed.text;
        return cli::exit_fine;
    }
    if (command.empty()) {
        throw cli::UsageError("expected the command after '--', as in plugin-bisect -- ./test.sh");
    }
    Request request = parsed.request;
    request.command = command;
    const nlohmann::json document = bisect(request);
    if (request.json) {
        cli::print_document(document);
    } else {
        std::cout << render_report(document, cli::page_of_stdout());
    }
    return exit_code_of(document);
}

} // namespace
} // namespace opdock::plugin_bisect

int main(int argc, char **argv) {
    // The command may have options with the same names.
    const auto [options, command] = opdock::plugin_bisect::split({argv + 1, argv + argc});
    return opdock::op_call::run_json_tool("plugin-bisect", options, [&words = command](const auto &own) {
        return opdock::plugin_bisect::execute(own, words);
    });
}
