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
  plugin-bisect --score 'loss ([0-9.]+)' --at-most 2 --repeats 4 \
                -- ./evaluate.sh

Ctrl-C ends the search; with --state, the same command continues it.

Exit codes: 0 each culprit found is one implementation of one op; 1 the search
is not possible; 2 wrong usage; 3 there is no culprit: the command is good as it
is, or is bad with everything replaced, or both do not differ significantly; 4
no single op: several are bad only together; 130 Ctrl-C, 143 SIGTERM.)";

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
    line.text("score", "REGEX", request.score,
              "the command prints a number: the first group of this pattern in the last matching line of stdout, or "
              "else of stderr");
    line.one("at-least", "NUMBER", later, "a lower score is bad");
    line.one("at-most", "NUMBER", later, "a higher score is bad");
    line.number("of", request.of, 1, most_of,
                "the score is the number of right results out of N: a count, a fraction or a percentage");
    line.number("repeats", request.repeats, 1, most_repeats, "number of runs under each policy; 1 by default");
    line.one(
        "alpha", "PROBABILITY", [&request](const std::string &text) { request.alpha = alpha_of(text); },
        "differences whose probability by chance is at least this are not significant; 0.05 by default");
    line.duration("timeout", "TIME", request.timeout, "a run that takes longer is ended and counts as bad");
    line.text("good", "ORDER", request.good,
              "who serves instead of a suspect, as in PLUGIN_PER_OP; reference|default|vendor by default");
    line.texts("op", "OP", request.ops, "suspect only this op; may be repeated");
    line.flag("first", request.first,
              "end as soon as a culprit is named, without testing the culprit alone and all others");
    line.path("state", "FILE", request.state,
              "keep finished runs here, and continue from them; their output is kept in FILE.runs");
    line.modules(request.modules, "a plugin file or directory that the command itself uses");
    line.prefix();
    line.format(request.json, "docs/plugin-bisect-json.md");
    line.ends();
    line.need({"at-least", "at-most", "of"}, {"score"}, " applies to a number; add --score REGEX");
    line.conflict({"at-least"}, {"at-most"});
    line.words("command", request.command);
    return line;
}

void check_request(const cli::CommandLine &line, Request &request) {
    if (!request.command.empty()) {
        throw cli::UsageError("'" + request.command.front() +
                              "': the command goes after '--', as in plugin-bisect -- " + request.command.front());
    }
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    if (request.score.empty()) {
        return;
    }
    (void)score_pattern(request.score);
    request.at_least = threshold_of(line, "at-least", request.of);
    request.at_most = threshold_of(line, "at-most", request.of);
    if (!request.at_least && !request.at_most && request.of == 0 && request.repeats < 2) {
        throw cli::UsageError("--score alone does not say which scores are bad; add --at-least or --at-most, or --of "
                              "or --repeats to compare with the score when everything is replaced");
    }
}

} // namespace

const cli::Tool<Request> tool = {
    {"plugin-bisect", cli::version_with_abi("plugin-bisect"),
     R"(Finds the implementation of an op that makes a command's result wrong. Runs the
command as it is, which must be bad, and with another implementation for each
op that it calls, which must be good; then halves the set of replaced ops. The
policy is set through the environment (PLUGIN_PER_OP), so any program that
embeds opdock works.

A run is bad if its exit code is not 0 or it takes longer than --timeout; with
--score, if the number that it prints is bad. The ops that the command calls
are read from opdock's log on its stderr; if there is no log, each op with two
implementations is suspected.

One culprit among 64 is named in at most 8 runs. Then the culprit is tried
alone, and so are all other suspects, which finds further culprits.)",
     examples},
    describe_options,
    {{{"", "[OPTION]... -- COMMAND [ARGUMENT]...", "", {0, SIZE_MAX}, {}}, nullptr, check_request}}};

std::pair<std::vector<std::string>, std::vector<std::string>> split(const std::vector<std::string> &arguments) {
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    return {{arguments.begin(), end}, {end == arguments.end() ? end : end + 1, arguments.end()}};
}

} // namespace opdock::plugin_bisect
