#include "op-call/failure.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "opdock/opdock.hpp"

using namespace opdock::op_call;

TEST_CASE("what went wrong has the host's name for it, or one of the tools'") {
    CHECK(status_of(opdock::Error(OPDOCK_UNKNOWN_OP, "no such op")) == "UNKNOWN_OP");
    CHECK(status_of(opdock::cli::UsageError("wrong")) == "WRONG_USAGE");
    CHECK(status_of(std::runtime_error("else")) == "TOOL_FAILED");
    CHECK(error_document("plugin-run", opdock::cli::Failure("absent")) ==
          nlohmann::json({{"schema", "opdock.plugin-run.error/1"},
                          {"error", {{"status", "TOOL_FAILED"}, {"message", "absent"}}}}));
}
