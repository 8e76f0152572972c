#include "request.hpp"

#include <algorithm>
#include <limits>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/variables.hpp"

namespace opdock::plugin_check {
namespace {

namespace po = boost::program_options;

constexpr const char *introduction =
    R"(Usage: plugin-check FILE.so... [--op OP]... [OPTION...]
       plugin-check --impl IMPL_ID [--op OP]... [OPTION...]

Tries implementations from outside, as plugins bring them or as they are
installed: each op in a process of its own, with inputs made up from its
signature, against the op's reference implementation.

It finds results that are wrong, not written or not repeatable; reads and writes
beside tensors; inputs that change; calls that crash, hang, fail, or disturb
each other on several threads; configs of the tune file that compute something
else; dtypes that are listed and always declined; and of the file, symbols that
meet those of others, search paths, and code that is written to.

Inputs are different each time; the seed that is printed repeats them.
)";

constexpr const char *examples = R"(
Examples:
  plugin-check libacme.so
  plugin-check libacme.so --junit report.xml --html report.html
  plugin-check --impl default.cpu --op rmsnorm_fwd --seed 7
  plugin-check --impl default.cpu --op gelu --seed 7 --case 31
  plugin-check --impl default.cpu --op gelu --shape 'input=f32[8,4096]'
  plugin-check libacme.so --glibc 2.40 --json

Exit codes: 0 nothing was found; 1 something was, or there is nothing to check;
2 wrong usage; 130 Ctrl-C, 143 SIGTERM.
)";

po::options_description describe_options() {
    po::options_description options("Options", 80, 54);
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    options.add_options()                                                                                       //
        ("op", texts("OP"), "this op; all without it")                                                          //
        ("impl", texts("IMPL_ID"), "this implementation; all of the files without it")                          //
        ("device", text("DEVICE"), "where to run: \"cpu\" or \"cuda:1\"; the first one of its type without it") //
        ("shape", texts("NAME=DTYPE[DIMS]"),
         "these shapes alone, with one --op: of an input, or of each tensor of a list")                    //
        ("attr", texts("NAME=VALUE"), "with one --op: this attribute has this value in all cases")         //
        ("seed", text("N"), "of the inputs; another one each time without it")                             //
        ("case", text("N"), "this case alone; with --seed, --op and --impl, as a finding shows them")      //
        ("threads", text("N"), "how many call at once where several do; 4 by default")                     //
        ("timeout", text("TIME"), "a case, with its repetitions, that takes longer hangs; 60s by default") //
        ("config-time", text("TIME"), "for the configs of one shape; 5s by default")                       //
        ("glibc", text("VERSION"), "the file must not need a newer one than this")                         //
        ("list", "name the ops and implementations that would be checked");
    cli::add_format(options, "docs/plugin-check-json.md");
    options.add_options()                                                                                //
        ("junit", text("FILE"), "write a report that build servers read")                                //
        ("html", text("FILE"), "write a report for people: one file that needs no network")              //
        ("force", "overwrite these files")                                                               //
        ("modules", texts("PATH"), "search this first: for a device, or the reference of a vendor's op") //
        ("prefix", text("PREFIX"), cli::prefix_help)                                                     //
        ("version", "the version of this tool and its ABI")                                              //
        ("help,h", "this text");
    return options;
}

std::vector<std::string> absolute(const std::vector<std::string> &paths) {
    std::vector<std::string> result;
    result.reserve(paths.size());
    for (const std::string &path : paths) {
        result.push_back(cli::absolute_path(path));
    }
    return result;
}

bool is_version(const std::string &text) {
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos && text.front() != '.' &&
           text.back() != '.';
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    Request request;
    if (arguments.size() == 2 && arguments.front() == "--worker") { // plugin-check starts itself
        request.action = Request::Action::worker;
        request.job = arguments.back();
        return request;
    }
    po::options_description all = describe_options();
    all.add_options()("files", po::value<std::vector<std::string>>()); // the positional ones
    po::positional_options_description positional;
    positional.add("files", -1);
    const po::variables_map values = cli::parse_arguments(arguments, all, positional);
    if (values.count("help") != 0) {
        return request;
    }
    if (values.count("version") != 0) {
        request.action = Request::Action::version;
        return request;
    }
    request.action = values.count("list") != 0 ? Request::Action::list : Request::Action::check;
    request.files = absolute(cli::texts_of(values, "files"));
    request.modules = absolute(cli::texts_of(values, "modules"));
    request.ops = cli::texts_of(values, "op");
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    request.impls = cli::texts_of(values, "impl");
    request.device = cli::text_of(values, "device");
    request.newest_glibc = cli::text_of(values, "glibc");
    request.junit = cli::text_of(values, "junit");
    request.html = cli::text_of(values, "html");
    request.json = values.count("json") != 0;
    request.force = values.count("force") != 0;
    constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
    if (values.count("seed") != 0) {
        request.seed = cli::number_of(values, "seed", 0, most);
    }
    if (values.count("case") != 0) {
        request.only_case = cli::number_of(values, "case", 0, std::numeric_limits<int64_t>::max());
    }
    if (values.count("threads") != 0) {
        request.threads = static_cast<unsigned>(cli::number_of(values, "threads", 2, 256));
    }
    if (values.count("timeout") != 0) {
        request.timeout = cli::parse_duration(cli::text_of(values, "timeout"), "--timeout");
    }
    if (values.count("config-time") != 0) {
        request.config_seconds = cli::parse_duration(cli::text_of(values, "config-time"), "--config-time");
    }
    if (request.files.empty() && request.impls.empty()) {
        throw cli::UsageError("what is to be checked? Give a plugin's file, or an implementation with --impl; "
                              "'plugin-ls' lists them");
    }
    request.pins.shapes =
        op_call::parse_named(cli::texts_of(values, "shape"), "--shape", "NAME=DTYPE[DIMS], such as input=f32[64,1024]");
    request.pins.attributes = op_call::parse_named(cli::texts_of(values, "attr"), "--attr", "NAME=VALUE");
    if (request.ops.size() != 1 && !(request.pins.shapes.empty() && request.pins.attributes.empty())) {
        throw cli::UsageError("--attr and --shape need one --op: they are arguments of its calls");
    }
    if (request.only_case && (!request.seed || request.ops.size() != 1)) {
        throw cli::UsageError("--case needs --seed and one --op: it is the case of these");
    }
    if (values.count("glibc") != 0 && !is_version(request.newest_glibc)) {
        throw cli::UsageError("--glibc '" + request.newest_glibc + "': expected a version such as 2.28");
    }
    return request;
}

std::string help_text() {
    return cli::help_of(introduction, describe_options(), examples);
}

} // namespace opdock::plugin_check
