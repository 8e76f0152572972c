#include "request.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/variables.hpp"

namespace opdock::plugin_ls {
namespace {

namespace po = boost::program_options;

constexpr const char *introduction =
    R"(Usage: plugin-ls [OPTION...]

Shows which plugins opdock finds and, for each op, which implementations would
be tried and in which order.
)";

constexpr const char *examples = R"(
Examples:
  plugin-ls                                    plugins and ops on one screen
  plugin-ls --device cpu --vendor opdock       what opdock has for the CPU
  plugin-ls --why rmsnorm_fwd --dtype bf16     why these, why not the others
  plugin-ls --why gelu --shape input=f32[64,64]  one call, and its configs
  plugin-ls --modules ./libacme.so --rejected  whether it is taken, why not
  plugin-ls --check ./libacme.so               judge one file, run none of it
  plugin-ls --devices                          what there is to run on
  plugin-ls --rescan                           try again what failed before
  plugin-ls --exists vendor.acme && echo yes   for scripts
  plugin-ls --freeze >job.json                 what serves here, to compare
  plugin-ls --frozen job.json                  with what serves elsewhere
  PLUGIN_PREFER=vendor plugin-ls --policy      settings, where they came from

Exit codes: 0 fine; 1 what was asked for is absent or differs, a module that
was named was not taken, whatever the question, or the host did not open; 2
wrong usage.
Colour is used on terminals only, and never when NO_COLOR is set.
)";

const std::vector<std::pair<const char *, Show>> actions = {
    {"op", Show::op},           {"why", Show::why},         {"rejected", Show::rejected},
    {"paths", Show::paths},     {"policy", Show::policy},   {"check", Show::check},
    {"exists", Show::exists},   {"version", Show::version}, {"bug-report", Show::bug_report},
    {"devices", Show::devices}, {"freeze", Show::freeze},   {"frozen", Show::frozen},
};

po::options_description describe_options() {
    po::options_description options("Options", 80, 56);
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    options.add_options()                                                                              //
        ("op", text("OP"), "one op: its signature, its implementations, its chains")                   //
        ("why", text("OP"), "one decision: each implementation, and the rule that kept or dropped it") //
        ("device", text("DEVICE"),
         "only what is for this type of device, \"cuda\"; with --why: on this device, \"cuda:1\"")         //
        ("plugin", text("ID"), "only what this plugin brings")                                             //
        ("vendor", text("NAME"), "only what plugins of this vendor bring")                                 //
        ("dtype", text("DTYPE"), "with --why: \"bf16\" for all dtype variables, or \"bf16,f32\" for each") //
        ("shape", texts("NAME=DTYPE[DIMS]"),
         "with --why: of a call with this input; also shows configs")                               //
        ("attr", texts("NAME=VALUE"), "with --shape: with this attribute")                          //
        ("rejected", "the plugins that were not taken, and why")                                    //
        ("paths", "where plugins are searched, in order, and what named each place")                //
        ("policy", "each setting in force and where it came from")                                  //
        ("devices", "every device there is; of a type without one, why")                            //
        ("check", text("FILE"), "judge one plugin file without running its code")                   //
        ("exists", text("IMPL_ID"), "print nothing; exit 0 if there is one, else 1")                //
        ("freeze", "who serves what and how it is configured, as the JSON of a manifest")           //
        ("frozen", text("FILE"), "whether that is here as this manifest has it, else what differs") //
        ("bug-report", "everything somebody needs who cannot see this machine")                     //
        ("modules", texts("PATH"),
         "search this plugin file or directory first; may be repeated") //
        ("prefix", text("PREFIX"), cli::prefix_help)                    //
        ("rescan", "try every plugin again, also those that failed before");
    cli::add_format(options, "docs/plugin-ls-json.md");
    options.add_options()                                                                     //
        ("verbose,v", "with details of every implementation, builds of plugins, and vendors") //
        ("version", "the version of this tool and its ABI")                                   //
        ("help,h", "this text");
    return options;
}

Show chosen_action(const po::variables_map &values) {
    if (values.count("help") != 0) {
        return Show::help;
    }
    const char *first = nullptr;
    Show show = Show::everything;
    for (const auto &[name, action] : actions) {
        if (values.count(name) == 0) {
            continue;
        }
        if (first != nullptr) {
            throw cli::UsageError(std::string("--") + first + " and --" + name +
                                  " are two questions; ask one at a time");
        }
        first = name;
        show = action;
    }
    return show;
}

// TYPE or TYPE:INDEX, whatever types there are.
bool is_device(const std::string &text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string_view index = std::string_view(text).substr(std::min(colon + 1, text.size()));
    return colon != 0 && (colon == text.size() ||
                          (!index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos));
}

std::string text_of(const po::variables_map &values, const char *name) {
    if (values.count(name) == 0) {
        return "";
    }
    const auto &text = values[name].as<std::string>();
    if (text.empty()) {
        throw cli::UsageError(std::string("the value of --") + name + " is empty");
    }
    return text;
}

std::vector<std::string> texts_of(const po::variables_map &values, const char *name) {
    return values.count(name) == 0 ? std::vector<std::string>() : values[name].as<std::vector<std::string>>();
}

// What describes one call.
void read_call(const po::variables_map &values, Request &request) {
    request.shapes =
        op_call::parse_named(texts_of(values, "shape"), "--shape", "NAME=DTYPE[DIMS], such as input=f32[64,1024]");
    request.attributes = op_call::parse_named(texts_of(values, "attr"), "--attr", "NAME=VALUE");
    if (request.show == Show::help || (request.shapes.empty() && request.attributes.empty())) {
        return;
    }
    if (request.show != Show::why) {
        throw cli::UsageError("--shape and --attr belong to --why");
    }
    if (!request.dtype.empty()) {
        throw cli::UsageError("--dtype has no meaning with --shape, which says the dtypes");
    }
}

// What the list of plugins and ops is narrowed to.
void read_filter(const po::variables_map &values, Request &request) {
    if (request.show != Show::why && request.show != Show::help && !request.dtype.empty()) {
        throw cli::UsageError("--dtype belongs to --why");
    }
    request.filter.plugin = text_of(values, "plugin");
    request.filter.vendor = text_of(values, "vendor");
    const bool lists = request.show == Show::everything || request.show == Show::op || request.show == Show::rejected ||
                       request.show == Show::help;
    if (!lists && (!request.filter.plugin.empty() || !request.filter.vendor.empty())) {
        throw cli::UsageError("--plugin and --vendor narrow the list of plugins and ops, and --op and --rejected");
    }
    if (!lists && request.show != Show::why && !request.device.empty()) {
        throw cli::UsageError("--device belongs to --why, --op, and the list of plugins and ops");
    }
    if (request.show != Show::why) {
        request.filter.device = request.device.substr(0, request.device.find(':'));
    }
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    const po::variables_map values = cli::parse_arguments(arguments, describe_options());
    Request request;
    request.show = chosen_action(values);
    request.json = values.count("json") != 0;
    request.verbose = values.count("verbose") != 0;
    request.rescan = values.count("rescan") != 0;
    request.device = text_of(values, "device");
    request.dtype = text_of(values, "dtype");
    for (const char *name : {"op", "why", "check", "exists", "frozen"}) {
        request.subject += text_of(values, name); // one of them at most
    }
    if (!request.device.empty() && !is_device(request.device)) {
        throw cli::UsageError("--device '" + request.device +
                              "': expected TYPE or TYPE:INDEX, such as \"cpu\" or \"cuda:1\"");
    }
    if (request.show == Show::op || request.show == Show::why) {
        request.subject = cli::op_called(request.subject);
    }
    if (request.show == Show::check || request.show == Show::frozen) {
        request.subject = cli::absolute_path(request.subject);
    }
    for (const std::string &path : texts_of(values, "modules")) {
        request.modules.push_back(cli::absolute_path(path));
    }
    read_filter(values, request);
    read_call(values, request);
    if (request.rescan && (request.show == Show::check || request.show == Show::version)) {
        throw cli::UsageError("--rescan has no meaning with --check and --version, which open no host");
    }
    if (request.json && (request.show == Show::exists || request.show == Show::frozen ||
                         request.show == Show::bug_report || request.show == Show::version)) {
        throw cli::UsageError(cli::as_given(values, "json") +
                              " has no meaning with --exists, --frozen, --bug-report and --version");
    }
    return request;
}

std::string help_text() {
    return cli::help_of(introduction, describe_options(), examples);
}

} // namespace opdock::plugin_ls
