#include "request.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include "live_process.hpp"

namespace opdock::plugin_ls {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-ls                                    plugins and ops on one screen
  plugin-ls --device cpu --vendor opdock       what opdock has for the CPU
  plugin-ls --why rmsnorm_fwd --dtype bf16     why these, why not the others
  plugin-ls --why gelu --shape input=f32[64,64]  one call, and its configs
  plugin-ls --modules ./libacme.so --rejected  whether it is taken, or why not
  plugin-ls --check ./libacme.so               judge one file without running it
  plugin-ls --devices                          the available devices
  plugin-ls --rescan                           retry what failed before
  plugin-ls --exists vendor.acme && echo yes   for scripts
  plugin-ls --freeze >job.json                 the choices here, to compare
  plugin-ls --frozen job.json                  with the choices elsewhere
  plugin-ls --trace t.json >killed.json        the calls of a killed process
  PLUGIN_PREFER=vendor plugin-ls --policy      settings, where they came from
  plugin-ls --pid $PID                         a process that was started
                                               with PLUGIN_LIVE=1
  plugin-ls --pid $PID --reset-health gelu     retry what failed in it

Exit codes: 0 fine; 1 what was asked for is absent or differs, a named module
was not taken, for any question, or the host did not open; 2 wrong usage.
Colour is used only on terminals, and never if NO_COLOR is set.)";

// TYPE or TYPE:INDEX, for any type.
bool is_device(const std::string &text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string_view index = std::string_view(text).substr(std::min(colon + 1, text.size()));
    return colon != 0 && (colon == text.size() ||
                          (!index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos));
}

// Declares which options are valid for which queries.
void declare_belongings(cli::CommandLine &line) {
    line.need({"dtype"}, {"why"}, " belongs to --why");
    line.conflict(
        {"plugin", "vendor"},
        {"why", "paths", "policy", "devices", "check", "exists", "freeze", "frozen", "trace", "bug-report", "version"},
        "--plugin and --vendor narrow the list of plugins and ops, and --op and --rejected");
    line.conflict(
        {"device"},
        {"paths", "policy", "devices", "check", "exists", "freeze", "frozen", "trace", "bug-report", "version"},
        " belongs to --why, --op, and the list of plugins and ops");
    line.need({"shape", "attr"}, {"why"}, "--shape and --attr belong to --why");
    line.conflict({"dtype"}, {"shape", "attr"}, " has no meaning with --shape, which determines the dtypes");
    line.conflict({"rescan"}, {"check", "trace", "version"},
                  " has no meaning with --check, --trace and --version, which open no host");
    line.need({"reload", "reset-health"}, {"pid"}, " applies to a process; name the process with --pid");
    line.conflict({"pid"}, {"check", "exists", "freeze", "frozen", "trace", "bug-report", "version"},
                  "--pid shows plugins, ops, decisions, policy and devices of a running process");
    line.conflict({"pid"}, {"modules", "rescan", "shape", "attr"},
                  "--pid opens no host, and knows the calls of the process only by their dtypes");
    line.conflict({"json"}, {"exists", "frozen", "trace", "bug-report", "reload", "reset-health", "version"},
                  " has no meaning with --exists, --frozen, --trace, --bug-report, --reload, --reset-health and "
                  "--version");
}

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(56);
    const auto first = std::make_shared<const char *>(nullptr);
    const auto asks = [&line, &request, first](const char *name, const char *value, Show show, const char *help) {
        const auto take = [&request, first, name, show](const std::string &subject) {
            if (*first != nullptr) {
                throw cli::UsageError(std::string("--") + *first + " and --" + name +
                                      " are two questions; ask one at a time");
            }
            *first = name;
            request.show = show;
            request.subject = subject;
        };
        if (value == nullptr) {
            line.flag(
                name, [take] { take(""); }, help);
        } else {
            line.one(name, value, take, help);
        }
    };
    asks("op", "OP", Show::op, "one op: its signature, its implementations, its chains");
    asks("why", "OP", Show::why, "one decision: each implementation, and the rule that kept or dropped it");
    line.text("device", "DEVICE", request.device, is_device, "TYPE or TYPE:INDEX, such as \"cpu\" or \"cuda:1\"",
              "only implementations for this type of device, \"cuda\"; with --why: on this device, \"cuda:1\"");
    line.text("plugin", "ID", request.filter.plugin, "only what this plugin brings");
    line.text("vendor", "NAME", request.filter.vendor, "only what plugins of this vendor bring");
    line.text("dtype", "DTYPE", request.dtype,
              "with --why: \"bf16\" for all dtype variables, or \"bf16,f32\" for each");
    op_call::add_shapes(line, request.shapes, "with --why: of a call with this input; also shows configs");
    op_call::add_attributes(line, request.attributes, "with --shape: with this attribute");
    asks("rejected", nullptr, Show::rejected, "the plugins that were not taken, and why");
    asks("paths", nullptr, Show::paths, "where plugins are searched for, in order, and what named each place");
    asks("policy", nullptr, Show::policy, "each setting in force and where it came from");
    asks("devices", nullptr, Show::devices, "every device; for a type without a device, the reason");
    asks("check", "FILE", Show::check, "judge one plugin file without running its code");
    asks("exists", "IMPL_ID", Show::exists, "print nothing; exit 0 if the implementation exists, else 1");
    asks("freeze", nullptr, Show::freeze, "which implementations serve, and their configs, as a manifest in JSON");
    asks("frozen", "FILE", Show::frozen, "whether the choices here match that manifest, or else what differs");
    asks("trace", "FILE", Show::trace, "the trace that PLUGIN_TRACE=FILE left of a killed process, for Perfetto");
    asks("bug-report", nullptr, Show::bug_report, "everything that is needed by somebody who cannot see this machine");
    line.text("pid", "PID", request.process, is_process_name,
              "a process id such as 1204, or 1204.2 for its second host",
              "ask the host of this running process, which was started with PLUGIN_LIVE=1");
    asks("reload", nullptr, Show::reload, "with --pid: the process reads its policy from variables and files again");
    asks("reset-health", "OP", Show::reset_health,
         "with --pid: implementations of this op that failed are tried again; \"all\": of every op");
    line.modules(request.modules, "search this plugin file or directory first; may be repeated");
    line.prefix();
    line.flag("rescan", request.rescan, "try every plugin again, also those that failed before");
    line.format(request.json, "docs/plugin-ls-json.md");
    line.flag("verbose,v", request.verbose, "with details of every implementation, builds of plugins, and vendors");
    asks("version", nullptr, Show::version, cli::CommandLine::version_help);
    line.help();
    declare_belongings(line);
    return line;
}

void check_request(const cli::CommandLine & /*line*/, Request &request) {
    if (request.show == Show::op || request.show == Show::why ||
        (request.show == Show::reset_health && request.subject != "all")) {
        request.subject = cli::op_called(request.subject);
    }
    if (request.show == Show::check || request.show == Show::frozen || request.show == Show::trace) {
        request.subject = cli::absolute_path(request.subject);
    }
    if (request.show != Show::why) {
        request.filter.device = request.device.substr(0, request.device.find(':'));
    }
}

} // namespace

const cli::Tool<Request> tool = {{"plugin-ls", "",
                                  R"(Shows which plugins opdock finds and, for each op, which implementations would
be tried and in which order.)",
                                  examples},
                                 describe_options,
                                 {{{"", R"([OPTION...])", "", {}, {}}, nullptr, check_request}}};

} // namespace opdock::plugin_ls
