// Answers of a running host to other processes of the same user, for `plugin-ls --pid` (host/live_socket.hpp).
// A question is a JSON object on one line, an answer a JSON document:
//
//     {"ask": "describe"}                                        opdock_describe, "process", and "counters"
//     {"ask": "devices"}                                         opdock_devices
//     {"ask": "explain", "op": "gelu", "device": "cpu", "dtypes": "f32"}   opdock_explain; device and dtypes may be
//     null
//     {"ask": "reload_policy"}                                   opdock_policy_reload; the answer is {}
//     {"ask": "reset_health", "op": "gelu", "impl_id": null}     opdock_reset_health; null is all
//
// A failure is answered by {"error": "the message"}.
#include <filesystem>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "host/host.hpp"
#include "opdock_version.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

// A member that may be null or missing.
std::optional<std::string> text_in(const json &question, const char *member) {
    const auto found = question.find(member);
    return found == question.end() || found->is_null() ? std::nullopt : std::optional(found->get<std::string>());
}

const char *pointer_to(const std::optional<std::string> &text) {
    return text ? text->c_str() : nullptr;
}

json this_process() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    return {{"pid", ::getpid()}, {"program", program.string()}};
}

} // namespace

json Host::answer(const json &question) {
    const auto ask = question.at("ask").get<std::string>();
    const auto op = text_in(question, "op");
    if (ask == "describe") {
        json document = describe();
        document["process"] = this_process();
        document["counters"] = describe_counters();
        return document;
    }
    if (ask == "devices") {
        return describe_devices();
    }
    if (ask == "explain") {
        return explain(op.value_or(""), pointer_to(text_in(question, "device")),
                       pointer_to(text_in(question, "dtypes")), nullptr);
    }
    if (ask == "reload_policy") {
        reload_policy();
    } else if (ask == "reset_health") {
        reset_health(pointer_to(op), pointer_to(text_in(question, "impl_id")));
    } else {
        throw Error(OPDOCK_INVALID_ARGUMENT, "this host, of version " + std::string(version) + ", cannot answer " +
                                                 quote(ask) + "; use the plugin-ls of the same version");
    }
    return json::object();
}

void Host::open_live_socket() {
    if (!environment_.is_on(Variable::live)) {
        return;
    }
    const auto answered = [this](const std::string &question) {
        json document;
        try {
            document = answer(json::parse(question));
        } catch (const std::exception &error) {
            document = {{"error", error.what()}};
        }
        return document.dump(-1, ' ', false, json::error_handler_t::replace);
    };
    try {
        live_socket_ = std::make_shared<LiveSocket>(environment_.user_runtime_dir, answered);
        log_.info(fmt::format("'plugin-ls --pid {}' can query this process through the socket '{}'", ::getpid(),
                              live_socket_->path()));
    } catch (const Error &error) {
        log_.warning(fmt::format("{}=1 is ignored, and 'plugin-ls --pid' cannot query this process: {}",
                                 environment_.name(Variable::live), error.what()));
    }
}

} // namespace opdock::core
