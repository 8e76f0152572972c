#include <algorithm>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "bug_report.hpp"
#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "cli/suggest.hpp"
#include "document.hpp"
#include "machine.hpp"
#include "render.hpp"
#include "request.hpp"

namespace opdock::plugin_ls {
namespace {

using nlohmann::json;

Host open_host(const Request &request) {
    return cli::open_host(request.modules, request.verbose);
}

void print(const json &document) {
    std::cout << document.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

// Whether a plugin file named by --modules was not taken.
bool module_rejected(const Request &request, const json &document) {
    for (const json &plugin : rejected_plugins(document)) {
        for (const std::string &module : request.modules) {
            std::error_code ignored;
            if (plugin.at("status") == "rejected" &&
                std::filesystem::equivalent(module, plugin.at("path").get<std::string>(), ignored)) {
                return true;
            }
        }
    }
    return false;
}

int show_why(const Host &host, const Request &request, const Paint &paint) {
    const std::string device = request.device.empty() ? "cpu" : request.device;
    const json decision = json::parse(host.explain(request.subject, device, request.dtype));
    if (request.json) {
        print(decision);
    } else {
        std::cout << render_why(decision, paint);
    }
    return decision.at("chain").empty() ? cli::exit_absent : cli::exit_fine;
}

int show_exists(const Request &request, const json &document) {
    const std::vector<std::string> ids = impl_ids(document);
    if (std::find(ids.begin(), ids.end(), request.subject) == ids.end()) {
        throw cli::Failure("no plugin brings an implementation '" + request.subject + "'" +
                           cli::did_you_mean(request.subject, ids));
    }
    return cli::exit_fine;
}

int show_check(const Request &request, const Paint &paint) {
    char *text = nullptr;
    detail::check(opdock_check_file(request.subject.c_str(), &text));
    const json verdict = json::parse(detail::take(text));
    if (request.json) {
        print(verdict);
    } else {
        std::cout << render_check(verdict, paint);
    }
    return verdict.at("status") == "ok" ? cli::exit_fine : cli::exit_absent;
}

int show_bug_report(const Request &request) {
    const Machine machine = look_at_machine(reinterpret_cast<const void *>(&opdock_open));
    try {
        Host host = open_host(request);
        std::cout << render_bug_report(machine, json::parse(host.describe()), "");
        return cli::exit_fine;
    } catch (const Error &error) {
        std::cout << render_bug_report(machine, nullptr, error.what());
        return cli::exit_absent;
    }
}

// Leaves of the document's ops and plugins those that were asked for.
json narrowed(const Request &request, json document) {
    if (request.show == Show::op) {
        document["ops"] = json::array({find_op(document, request.subject)});
    } else if (request.show == Show::rejected) {
        document["plugins"] = rejected_plugins(document);
    }
    return document;
}

std::string as_text(const Request &request, const json &document, const Paint &paint) {
    switch (request.show) {
    case Show::op:
        return render_op(document.at("ops").front(), paint);
    case Show::rejected:
        return document.at("plugins").empty() ? "no plugin was rejected or skipped\n"
                                              : render_plugins(document.at("plugins"), paint);
    case Show::paths:
        return render_paths(document.at("paths"), paint);
    case Show::policy:
        return render_policy(document.at("policy"), paint);
    default:
        return render_screen(document, request.verbose, paint);
    }
}

int show(const Request &request) {
    const Paint paint(cli::colour_is_welcome());
    switch (request.show) {
    case Show::help:
        std::cout << help_text();
        return cli::exit_fine;
    case Show::version:
        std::cout << version_text() << '\n';
        return cli::exit_fine;
    case Show::check:
        return show_check(request, paint);
    case Show::bug_report:
        return show_bug_report(request);
    default:
        break;
    }
    Host host = open_host(request);
    const json document = json::parse(host.describe());
    if (request.show == Show::exists) {
        return show_exists(request, document);
    }
    if (request.show == Show::why) {
        find_op(document, request.subject);
        return show_why(host, request, paint);
    }
    const json shown = narrowed(request, document);
    if (request.json) {
        print(shown);
    } else {
        std::cout << as_text(request, shown, paint);
    }
    return module_rejected(request, document) ? cli::exit_absent : cli::exit_fine;
}

} // namespace
} // namespace opdock::plugin_ls

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-ls", [&] {
        return opdock::plugin_ls::show(opdock::plugin_ls::parse_request({argv + 1, argv + argc}));
    });
}
