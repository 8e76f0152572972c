#include "catalog.hpp"

#include "cli/exit.hpp"
#include "cli/open_host.hpp"

namespace opdock::plugin_check {

using nlohmann::json;

Catalog::Catalog(const std::string &program, const std::vector<std::string> &modules, double seconds)
    : conversation_(program, Job{modules, {}}, seconds) {
    Reply reply = ask({{"do", "describe"}});
    conversation_.understand([&] {
        document_ = std::move(reply.text.at("host"));
        reply.text.at("refusal").get_to(refusal_);
        reply.text.at("log").get_to(log_);
    });
}

std::string Catalog::missing(const std::string &device) {
    const Reply reply = ask({{"do", "find"}, {"device", device}});
    return conversation_.understand([&] { return reply.text.at("missing").get<std::string>(); });
}

Reply Catalog::ask(json request) {
    try {
        return conversation_.ask(std::move(request));
    } catch (const NotTried &problem) {
        for (const std::string &line : problem.log) {
            cli::write_log_line(cli::printable(line));
        }
        if (problem.status == OPDOCK_OK) {
            throw cli::Failure(problem.what());
        }
        throw Error(problem.status, problem.what());
    } catch (const Ended &ended) {
        throw cli::Failure(std::string("cannot find out what the plugins provide: ") + ended.what());
    }
}

} // namespace opdock::plugin_check
