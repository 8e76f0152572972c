#include "report.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/fill.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"

namespace opdock::plugin_bisect {

using cli::Tint;
using nlohmann::json;

namespace {

// "45 of 50", "0.912", "exit code 3", "2 of 5 runs failed"
std::string measured_text(const json &trial) {
    const json &runs = trial.at("runs");
    const auto failed = std::count_if(runs.begin(), runs.end(), [](const json &run) {
        return run.at("exit_code") != 0 || run.at("timed_out").get<bool>();
    });
    const bool timed_out =
        std::any_of(runs.begin(), runs.end(), [](const json &run) { return run.at("timed_out").get<bool>(); });
    if (failed > 0 && runs.size() > 1) {
        return std::to_string(failed) + " of " + std::to_string(runs.size()) + " runs failed" +
               (timed_out ? " or took too long" : "");
    }
    if (timed_out) {
        return "took too long";
    }
    if (!trial.at("mean").is_null()) {
        const std::string mean = cli::short_number(trial.at("mean").get<double>());
        return trial.at("of").is_null() ? mean : mean + " of " + trial.at("of").dump();
    }
    if (failed == 0 && trial.at("verdict") == "bad") {
        return "no number was printed";
    }
    return runs.empty()                     ? ""
           : failed == 0 && runs.size() > 1 ? "no run failed"
                                            : "exit code " + runs.at(0).at("exit_code").dump();
}

std::string p_text(const json &trial) {
    if (trial.at("p").is_null()) {
        return "";
    }
    return "p = " + cli::short_number(trial.at("p").get<double>()) +
           (trial.at("significant").get<bool>() ? "" : ", not significant");
}

std::string who(const json &member) {
    return member.at("op").get<std::string>() + "  " + member.at("impl_id").get<std::string>();
}

// A sentence, wrapped to the page.
std::string sentence(const std::string &text, const cli::Page &page, size_t indent = 0) {
    return std::string(indent, ' ') +
           cli::fill(cli::words_of(cli::printable_line(text)), indent, indent, page.width()) + "\n";
}

std::string first_runs(const json &document) {
    std::string text = "The command gives " + measured_text(document.at("as_it_is")) + " as it is";
    if (document.contains("replaced")) {
        const std::string p = p_text(document.at("replaced"));
        text += ", and " + measured_text(document.at("replaced")) + " with all " +
                cli::counted(document.at("suspects").size(), "suspect") + " replaced" +
                (p.empty() ? "" : " (" + p + ", " + document.at("criterion").at("test").get<std::string>() + ")");
    }
    return text + ".";
}

// The reason why the search ended before it began.
std::string no_culprit(const json &document, const cli::Page &page) {
    const auto result = document.at("result").get<std::string>();
    const auto alpha = cli::short_number(document.at("criterion").at("alpha").get<double>());
    const std::string why =
        result == "good-as-it-is" ? "There is nothing to find: the command is good as it is."
        : result == "not-in-ops"
            ? "The fault is not in the ops that can be replaced: with all of them replaced, the command is still bad."
        : result == "no-suspects"
            ? "There is nothing to find: the command calls no op that another implementation can serve."
            : "There is nothing to find: the difference is not significant (p is not below " + alpha +
                  "). More --repeats can show a smaller difference.";
    return page.paint(Tint::doubtful, cli::fill(cli::words_of(why), 0, 0, page.width())) + "\n";
}

std::string culprit_text(const json &culprit, const cli::Page &page) {
    const json &members = culprit.at("members");
    std::string text;
    if (members.size() > 1) {
        text += sentence("No single op: these are bad together, and good when one of them is missing.", page);
    }
    for (const json &member : members) {
        text += "  " + page.paint(Tint::bad, cli::printable_line(who(member))) + "\n";
    }
    return text;
}

// The remedy: a variable to set in a shell.
std::string remedy_text(const json &document, const cli::Page &page) {
    std::string text =
        document.at("remedy_tested").get<bool>()
            ? sentence("The command is good with only this replaced:", page)
            : sentence("This replaces the culprit; whether that is enough was not tested (--first):", page);
    for (const auto &[name, value] : document.at("remedy").items()) {
        text += "  " + cli::printable_line(name + "='" + value.get<std::string>() + "'") + "\n";
    }
    return text;
}

bool is_doubtful(const json &document) {
    const json &trials = document.at("trials");
    return std::any_of(trials.begin(), trials.end(),
                       [](const json &trial) { return trial.at("significant") == false; });
}

std::string runs_text(const json &document) {
    const auto remembered = document.at("remembered").get<uint64_t>();
    return cli::counted(document.at("runs").get<uint64_t>(), "run") + " in " +
           cli::time_text(1e6 * document.at("seconds").get<double>()) +
           (remembered == 0 ? "" : ", " + std::to_string(remembered) + " of them remembered") +
           "; their output is in " + document.at("folder").get<std::string>() + "\n";
}

std::string not_suspected(const json &document, const cli::Page &page) {
    cli::Table table;
    for (const json &one : document.at("not_suspected")) {
        table.row({{one.at("op").get<std::string>()},
                   {one.at("impl_id").get<std::string>()},
                   {one.at("reason").get<std::string>()}});
    }
    return document.at("not_suspected").empty()
               ? ""
               : "\n" + page.paint(Tint::heading, "NOT SUSPECTED") + "\n" + table.text(page);
}

} // namespace

std::string trial_text(const json &trial, size_t suspects) {
    double seconds = 0;
    for (const json &run : trial.at("runs")) {
        seconds += run.at("seconds").get<double>();
    }
    const size_t active = trial.at("active").size();
    const std::string policy =
        active == suspects ? "as it is"
        : active == 0      ? "all replaced"
                      : "all but " + std::to_string(active) + " of " + cli::counted(suspects, "suspect") + " replaced";
    const std::string p = p_text(trial);
    return trial.at("verdict").get<std::string>() + "  " + measured_text(trial) + "  " + policy +
           (p.empty() ? "" : "  " + p) + "  " + cli::time_text(1e6 * seconds);
}

std::string render_report(const json &document, const cli::Page &page) {
    const auto result = document.at("result").get<std::string>();
    std::string text;
    if (document.at("ops_from") == "plugins" && document.contains("as_it_is")) {
        text += sentence(
            "The command printed no log of opdock: each op that has two implementations here is suspected.", page);
    }
    text += document.contains("as_it_is") ? sentence(first_runs(document), page) : "";
    const bool is_named = !document.at("culprits").empty();
    if (is_named) {
        text += "\n" + page.paint(Tint::heading, "BAD") + "\n";
        for (const json &culprit : document.at("culprits")) {
            text += culprit_text(culprit, page);
        }
        text += "\n";
    }
    if (document.contains("remedy")) {
        text += remedy_text(document, page);
    } else if (result != "interrupted") {
        text += no_culprit(document, page);
    }
    if (is_doubtful(document)) {
        text += "\n" +
                sentence(
                    "Some verdicts of the search are not significant, so this result may be wrong: use more --repeats.",
                    page);
    }
    text += not_suspected(document, page) + "\n" + cli::printable(runs_text(document));
    return text + (result == "interrupted"
                       ? "Interrupted: --state " + cli::printable_line(document.at("state").get<std::string>()) +
                             " continues from here.\n"
                       : "");
}

} // namespace opdock::plugin_bisect
