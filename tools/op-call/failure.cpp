#include "op-call/failure.hpp"

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/print_document.hpp"
#include "opdock/opdock.hpp"

namespace opdock::op_call {

using nlohmann::json;

std::string status_of(const std::exception &error) {
    if (const auto *of_host = dynamic_cast<const Error *>(&error)) {
        return opdock_status_name(of_host->status());
    }
    return dynamic_cast<const cli::UsageError *>(&error) != nullptr ? "WRONG_USAGE" : "TOOL_FAILED";
}

json failure_json(const std::exception &error) {
    return {{"status", status_of(error)}, {"message", error.what()}};
}

json error_document(const std::string &tool, const std::exception &error) {
    return {{"schema", "opdock." + tool + ".error/1"}, {"error", failure_json(error)}};
}

int run_json_tool(const std::string &tool, const std::vector<std::string> &arguments,
                  const std::function<int(const std::vector<std::string> &arguments)> &execute) {
    return cli::run_tool(tool, [&] {
        try {
            return execute(arguments);
        } catch (const std::exception &error) {
            if (cli::asks_for_json(arguments)) {
                cli::print_document(error_document(tool, error));
            }
            throw;
        }
    });
}

} // namespace opdock::op_call
