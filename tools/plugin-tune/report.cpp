#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/fill.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_tune {
namespace {

using cli::Table;
using cli::Tint;
using nlohmann::json;

std::string text_of(const json &object, const char *member) {
    const auto found = object.find(member);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string time_of(const json &run) {
    if (!run.contains("microseconds")) {
        return "";
    }
    return cli::time_text(run.at("microseconds").get<double>()) + ", " +
           (run.value("samples", 0) == 1 ? "once" : "spread " + cli::percent_text(run.value("spread", 0.0)));
}

std::string counted(size_t count, const std::string &what) {
    return std::to_string(count) + " " + what;
}

// Summary of all tried configs, with those that are wrong or were refused, grouped by reason.
void add_tried(Table &table, const json &shape) {
    size_t wrong = 0;
    size_t untimed = 0;
    std::map<std::string, std::string> reasons; // their configs
    std::map<std::string, size_t> counts;
    constexpr size_t most = 3; // configs listed per reason
    for (const json &run : shape.at("tried")) {
        const auto outcome = run.at("outcome").get<std::string>();
        untimed += outcome == "left out" ? 1 : 0;
        if (outcome == "timed" || outcome == "left out") {
            continue;
        }
        wrong += outcome == "wrong" ? 1 : 0;
        const std::string reason = outcome == "wrong" ? "wrong: " + text_of(run, "reason") : text_of(run, "reason");
        if (++counts[reason] <= most) {
            reasons[reason] += (reasons[reason].empty() ? "" : ", ") + config_text(run.at("config"));
        }
    }
    size_t refused = 0;
    for (const auto &[reason, count] : counts) {
        refused += count;
    }
    table.note(cli::counted(shape.at("tried").size(), "config") + " in " +
               cli::time_text(1e6 * shape.at("seconds").get<double>()) +
               (wrong == 0 ? "" : ", " + counted(wrong, "wrong")) +
               (refused == wrong ? "" : ", " + counted(refused - wrong, "refused")) +
               (untimed == 0 ? "" : ", " + counted(untimed, "not timed")) +
               (shape.at("complete").get<bool>() || untimed != 0 ? "" : "; not all were timed as often as planned"));
    for (const auto &[reason, configs] : reasons) {
        const size_t more = counts[reason] > most ? counts[reason] - most : 0;
        table.note(configs + (more == 0 ? "" : " and " + std::to_string(more) + " more") + ": " + reason);
    }
    if (wrong != 0) {
        table.note("Fix the kernel, or exclude wrong configs by `where` in the tune file.");
    }
}

// The reason why the config in force stays.
std::string verdict_of_none(const json &shape) {
    const json &tried = shape.at("tried");
    const auto timed =
        std::count_if(tried.begin(), tried.end(), [](const json &run) { return text_of(run, "outcome") == "timed"; });
    return timed > 1 ? "nothing is clearly faster" : "nothing else was timed";
}

void add_tuned(Table &table, const json &shape) {
    const json &before = shape.at("before");
    const json &best = shape.at("best");
    const bool stays = best.at("config") == before.at("config");
    table.row({{""}, {"config", Tint::quiet}, {"time", Tint::quiet}, {"source or gain", Tint::quiet}});
    table.row(
        {{"before"}, {config_text(before.at("config"))}, {time_of(before)}, {text_of(before, "source"), Tint::quiet}});
    table.row({{"best"},
               {stays ? "the same" : config_text(best.at("config")), stays ? Tint::plain : Tint::good},
               {stays ? "" : time_of(best)},
               {stays ? verdict_of_none(shape) : cli::speed_text(shape.at("gain").get<double>())}});
    add_tried(table, shape);
    if (const std::string problem = text_of(shape, "problem"); !problem.empty()) {
        table.note("not kept: " + problem);
    }
}

// Implementations, the fastest first.
void add_compared(Table &table, const json &shape) {
    json all = shape.at("implementations");
    const auto place = [](const json &one) { return one.value("rank", size_t{0}) - 1; }; // unranked ones come last
    std::stable_sort(all.begin(), all.end(),
                     [&](const json &one, const json &other) { return place(one) < place(other); });
    table.row({{"rank", Tint::quiet}, {"implementation", Tint::quiet}, {"time", Tint::quiet}, {"config", Tint::quiet}});
    for (const json &one : all) {
        if (text_of(one, "outcome") != "timed") {
            table.row({{""}, {text_of(one, "impl_id"), Tint::bad}, {"not timed"}});
            table.note(text_of(one, "reason"));
            continue;
        }
        const auto rank = one.at("rank").get<size_t>();
        table.row({{std::to_string(rank)},
                   {text_of(one, "impl_id"), rank == 1 ? Tint::good : Tint::plain},
                   {time_of(one)},
                   {text_of(one, "config"), Tint::quiet}});
    }
    if (const std::string problem = text_of(shape, "problem"); !problem.empty()) {
        table.note("not kept: " + problem);
    }
}

void add_shape(Table &table, const json &shape) {
    const std::string outcome = text_of(shape, "outcome");
    if (outcome == "compared") {
        add_compared(table, shape);
    } else if (outcome == "tuned") {
        add_tuned(table, shape);
    } else if (outcome == "known" || outcome == "pinned") {
        table.row({{"best"},
                   {config_text(shape.at("best").at("config")), Tint::good},
                   {outcome == "known" ? "already known; --again tunes again"
                                       : "pinned by the tune file, which overrides the database"}});
        table.note(text_of(shape, "origin"));
    } else if (outcome == "failed") {
        table.row({{"failed", Tint::bad}});
        table.note(text_of(shape.at("error"), "message"));
    } else {
        table.row({{"skipped", Tint::doubtful}, {text_of(shape, "reason")}});
    }
}

// "default.cpu on Some processor, n=4096 (n: log2)"
std::string facts_of(const json &shape) {
    const std::string model = text_of(shape, "model");
    const std::string key = text_of(shape, "key");
    const std::string bucketed = text_of(shape, "bucketed");
    const std::string who =
        text_of(shape, "outcome") == "compared" ? "all that may serve it" : text_of(shape, "impl_id");
    return who + (model.empty() ? "" : " on " + model) + (key.empty() ? "" : ", " + key) +
           (bucketed.empty() ? "" : " (" + bucketed + ")");
}

std::string where_kept(const json &document) {
    if (document.at("dry_run").get<bool>()) {
        return "Nothing was kept (--dry-run).\n";
    }
    std::string known;
    for (const json &shape : document.at("shapes")) {
        if (shape.value("kept", false)) {
            return "Kept in " + text_of(shape, "database") + "\n";
        }
        known = text_of(shape, "outcome") == "known" ? text_of(shape, "database") : known;
    }
    return known.empty() ? "" : "Known from " + known + "\n";
}

} // namespace

std::string config_text(const json &config) {
    std::string text;
    for (const auto &[knob, value] : config.items()) {
        text += (text.empty() ? "" : " ") + knob + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    return text;
}

std::string outcome_text(const json &shape) {
    std::string outcome = text_of(shape, "outcome");
    if (outcome == "failed") {
        return "failed: " + text_of(shape.at("error"), "message");
    }
    if (outcome == "compared") {
        std::string first;
        for (const json &one : shape.at("implementations")) {
            if (one.value("rank", 0) == 1) {
                first += (first.empty() ? "" : ", ") + text_of(one, "impl_id");
            }
        }
        return "fastest: " + first;
    }
    if (outcome != "tuned") {
        return outcome;
    }
    return (shape.at("best").at("config") == shape.at("before").at("config")
                ? verdict_of_none(shape)
                : cli::speed_text(shape.at("gain").get<double>()) + " with " +
                      config_text(shape.at("best").at("config"))) +
           ", in " + cli::time_text(1e6 * shape.at("seconds").get<double>());
}

std::string render_report(const json &document, const cli::Page &page) {
    std::string text;
    for (const json &shape : document.at("shapes")) {
        text += (text.empty() ? "" : "\n") +
                page.paint(Tint::heading, cli::fill(cli::words_of(cli::printable_line(op_call::label_of(shape))), 0, 4,
                                                    page.width())) +
                "\n";
        const std::string facts = facts_of(shape);
        text +=
            facts.empty() ? "" : "  " + cli::fill(cli::words_of(cli::printable_line(facts)), 2, 4, page.width()) + "\n";
        Table table;
        add_shape(table, shape);
        text += table.text(page);
    }
    if (!document.at("left_out").empty()) {
        text += "\n" + page.paint(Tint::heading, "LEFT OUT") + "\n";
        Table table;
        for (const json &one : document.at("left_out")) {
            table.row({{text_of(one, "op")}, {text_of(one, "impl_id")}});
            table.note(text_of(one, "reason"));
        }
        text += table.text(page);
    }
    const json &shapes = document.at("shapes");
    const auto skipped = std::count_if(shapes.begin(), shapes.end(),
                                       [](const json &shape) { return text_of(shape, "outcome") == "skipped"; });
    text += skipped == 0 ? ""
                         : "\n" + counted(static_cast<size_t>(skipped), "of ") + cli::counted(shapes.size(), "shape") +
                               (skipped == 1 ? " was" : " were") + " skipped.\n";
    const std::string kept = where_kept(document);
    text += kept.empty() ? "" : "\n" + cli::printable(kept);
    return text + (document.at("interrupted").get<bool>() ? "Interrupted: the results so far are above.\n" : "");
}

} // namespace opdock::plugin_tune
