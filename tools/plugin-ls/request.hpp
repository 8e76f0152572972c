// The command line of plugin-ls.
#pragma once

#include <string>
#include <vector>

#include "cli/tool.hpp"
#include "document.hpp"
#include "op-call/named.hpp"

namespace opdock::plugin_ls {

enum class Show {
    everything,
    op,
    why,
    rejected,
    paths,
    policy,
    devices,
    check,
    exists,
    freeze,
    frozen,
    trace,
    bug_report,
    reload,
    reset_health,
    version
};

struct Request {
    Show show = Show::everything;
    std::string subject; // value of --op, --why, --check, --exists, --frozen, --trace or --reset-health
    std::string process; // --pid; "" opens a host
    std::string device;  // --why; "" is cpu
    Filter filter;       // for the list of plugins and ops, --op and --rejected
    std::string dtype;   // --why; "" is any
    // For --why of one call; both are empty if no call is described.
    std::vector<op_call::Named> shapes;
    std::vector<op_call::Named> attributes;
    bool json = false;
    bool verbose = false;
    bool rescan = false;
    std::vector<std::string> modules; // absolute
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_ls
