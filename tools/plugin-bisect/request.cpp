#include "request.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "score.hpp"

namespace opdock::plugin_bisect {
namespace {

constexpr uint64_t most_repeats = 1000;

constexpr const char *examples = R"(Examples:
  plugin-bisect -- ./test.sh
  plugin-bisect --timeout 2m --state run.state -- ./test.sh
  plugin-bisect --score 'accuracy: ([0-9.]+)' --at-least 0.9 -- ./evaluate.sh
  plugin-bisect --score 'right: ([0-9]+)' --of 50 --json -- ./evaluate.sh
  plugin-bisect --score 'loss ([0-9.]+)' --at-most 2 --repeats 4 -- ./evaluate.sh

Ctrl-C ends the search; with --state it goes on where it was when the same
command is given again.

Exit codes: 0 each culprit found is one implementation of one op; 1 the search
could not be made; 2 wrong usage; 3 there is no culprit: the command is good as
it is, or is bad with everything replaced, or both do not differ significantly;
4 no single op: several are bad only together; 130 Ctrl-C, 143 SIGTERM.)";

double alpha_of(const std::string &text) {
    double alpha = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
    if (error != std::errc() || end != text.data() + text.size() || !(alpha > 0) || alpha > 0.5) {
        throw cli::UsageError("--alpha '" + text + "': expected a probability up to 0.5, such as 0.05");
    }
    return alpha;
}

// Parsed as scores are: 0.9 of 50 is 45.
std::optional<double> threshold_of(const cli::CommandLine &line, const std::string &option, uint64_t of) {
    if (!line.given(option)) {
        return {};
    }
    const std::string text = line.texts_of(option).front();
    static const std::regex number("[^% ]+");
    const std::optional<double> value = find_score(text, number, of);
    if (!value) {
        throw cli::UsageError(
            "--" + option + " '" + text + "': expected a number" +
            (of == 0 ? std::string() : " from 0 to " + std::to_string(of) + ", or a fraction such as 0.9"));
    }
    return value;
}

cli::CommandLine describe_options(Request &request) {
    constexpr uint64_t most_of = 1'000'000; // leaves --repeats runs of each of the two samples within 32 bits
    const auto later = [](const std::string & /*text*/) {}; // check_request() reads it once --of is known
    cli::CommandLine line(54);
    line.text(
        "score", "REGEX", request.score,
        "the command prints a number: the first group in the last line that this finds, on stdout or else stderr");
    line.one("at-least", "NUMBER", later, "a lower score is bad");
    line.one("at-most", "NUMBER", later, "a higher score is bad");
    line.number("of", request.of, 1, most_of, "the score is how many of N were right: a count, a fraction or per cent");
    line.number("repeats", request.repeats, 1, most_repeats,
                "run the command so often under each policy; 1 by default");
    line.one(
        "alpha", "PROBABILITY", [&request](const std::string &text) { request.alpha = alpha_of(text); },
        "differences of at least this probability by chance alone are not significant; 0.05 by default");
    line.duration("timeout", "TIME", request.timeout, "a run that takes longer is ended, and is bad");
    line.text("good", "ORDER", request.good,
              "who serves in place of a suspect, as PLUGIN_PER_OP has it; reference|default|vendor by default");
    line.texts("op", "OP", request.ops, "only this op is suspected; may be repeated");
    line.flag("first", request.first, "end as soon as a culprit is named, without testing it alone and all others");
    line.path("state", "FILE", request.state,
              "remember finished runs here, and go on from them; their output is kept in FILE.runs");
    line.modules(request.modules, "a plugin file or directory that the command itself asks for");
    line.prefix();
    line.format(request.json, "docs/plugin-bisect-json.md");
    line.ends();
    line.need({"at-least", "at-most", "of"}, {"score"}, " is about a number; give --score REGEX beside it");
    line.conflict({"at-least"}, {"at-most"});
    line.words("command", request.command);
    return line;
}

void check_request(const cli::CommandLine &line, Request &request) {
    if (!request.command.empty()) {
        throw cli::UsageError("'" + request.command.front() +
                              "': the command stands behind '--', as in plugin-bisect -- " + request.command.front());
    }
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    if (request.score.empty()) {
        return;
    }
    (void)score_pattern(request.score);
    request.at_least = threshold_of(line, "at-least", request.of);
    request.at_most = threshold_of(line, "at-most", request.of);
    if (!request.at_least && !request.at_most && request.of == 0 && request.repeats < 2) {
        throw cli::UsageError(
            "--score alone does not say which scores are bad; give --at-least or --at-most, or --of or "
            "--repeats to tell a score with everything replaced from the one as it is");
    }
}

} // namespace

const cli::Tool<Request> tool = {
    {"plugin-bisect", cli::version_with_abi("plugin-bisect"),
     R"(Finds which implementation of which op makes a command's result wrong. Runs the
command as it is, which must be bad, and with each op it calls served by
another implementation, which must be good; then halves the ops that are
replaced. The policy is set by the environment (PLUGIN_PER_OP), so that any
program that embeds opdock will do.

A run is bad when it exits with another code than 0 or takes longer than
--timeout; with --score, when the number it prints is. Which ops the command
calls is read from opdock's log on its stderr; of a command that shows none of
it, each op with two implementations is suspected.

One culprit of 64 is named in at most 8 runs. Then it is tried alone, and all
but it, which finds further ones.)",
     examples},
    describe_options,
    {{{"", "[OPTION]... -- COMMAND [ARGUMENT]...", "", {0, SIZE_MAX}, {}}, nullptr, check_request}}};

std::pair<std::vector<std::string>, std::vector<std::string>> split(const std::vector<std::string> &arguments) {
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    return {{arguments.begin(), end}, {end == arguments.end() ? end : end + 1, arguments.end()}};
}

} // namespace opdock::plugin_bisect
