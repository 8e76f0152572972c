#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/fill.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "op-call/subject.hpp"
#include "rates.hpp"

namespace opdock::plugin_bench {
namespace {

using cli::Cell;
using cli::percent_text;
using cli::rate_text;
using cli::Table;
using cli::time_text;
using cli::Tint;
using nlohmann::json;

std::string text_of(const json &object, const char *key) {
    return object.value(key, std::string());
}

std::string nanoseconds_text(double nanoseconds) {
    return time_text(nanoseconds / 1000);
}

std::string ratio_text(double ratio) {
    char text[32];
    (void)std::snprintf(text, sizeof text, ratio < 9.995 ? "%.2f" : ratio < 99.95 ? "%.1f" : "%.0f", ratio);
    return text;
}

// One line per ceiling.
std::string ceilings_text(const json &document) {
    const json &ceilings = document.at("ceilings");
    std::string text =
        "  copies at " + rate_text(ceilings.at("copy").at("bytes_per_second").get<double>(), "B/s") + "\n";
    for (const auto &[dtype, one] : ceilings.at("matmul").items()) {
        text += "  multiplies " + dtype + " at " +
                (one.is_null() ? "an unknown rate"
                               : rate_text(one.at("flops_per_second").get<double>(), "FLOP/s") + " (" +
                                     text_of(one, "op") + " of " + text_of(one, "impl_id") + ")") +
                "\n";
    }
    return text;
}

std::string paragraph(const std::string &text, size_t indent, const cli::Page &page) {
    return std::string(indent, ' ') + cli::fill(cli::words_of(text), indent, indent, page.width()) + "\n";
}

// A ceiling that changed during the measurement casts doubt on every fraction.
std::string drift_text(const json &measured, const cli::Page &page) {
    if (measured.size() < 2) {
        return "";
    }
    const double before = measured[0].get<double>();
    const double after = measured[1].get<double>();
    constexpr double much = 0.1;
    if (std::abs(after / before - 1) < much) {
        return "";
    }
    return paragraph("The copy rate was " + rate_text(before, "B/s") + " before and " + rate_text(after, "B/s") +
                         " after: something else keeps this machine busy, or its clock changes.",
                     0, page);
}

// "67 %" of the copy rate; for linear ops, of the nearer ceiling.
std::string fraction_text(const json &one) {
    const json &roofline = one.at("roofline");
    if (roofline.is_null()) {
        return one.at("of_copy").is_null() ? "" : percent_text(one.at("of_copy").get<double>()) + " of copy";
    }
    const bool by_matmul = one.contains("of_matmul") && one.at("of_matmul") == roofline;
    return percent_text(roofline.get<double>()) + (by_matmul ? " of matmul" : " of copy");
}

std::string spread_text(const json &one) {
    return one.at("samples") == 1 ? "once" : percent_text(one.at("spread").get<double>());
}

void add_timed(Table &table, const json &one, double fastest) {
    const double time = one.at("microseconds").get<double>();
    const bool is_linear = one.contains("flops_per_second");
    table.row({{text_of(one, "impl_id"), time == fastest ? Tint::good : Tint::plain},
               {time_text(time)},
               {spread_text(one), Tint::quiet},
               {is_linear ? rate_text(one.at("flops_per_second").get<double>(), "FLOP/s")
                          : rate_text(one.at("bytes_per_second").get<double>(), "B/s")},
               {fraction_text(one)},
               {time == fastest ? "" : cli::speed_text(fastest / time)}});
}

void add_shape(Table &table, const json &shape) {
    std::vector<json> timed;
    for (const json &one : shape.at("implementations")) {
        if (one.at("outcome") == "timed") {
            timed.push_back(one);
        }
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const json &a, const json &b) { return a.at("microseconds") < b.at("microseconds"); });
    if (!timed.empty()) {
        std::vector<Cell> heads;
        for (const char *head : {"implementation", "time", "spread", "rate", "of the ceiling", "than the first"}) {
            heads.push_back({head, Tint::quiet});
        }
        table.row(std::move(heads));
    }
    for (const json &one : timed) {
        add_timed(table, one, timed.front().at("microseconds").get<double>());
    }
    for (const json &one : shape.at("implementations")) {
        if (one.at("outcome") != "timed") {
            table.row({{text_of(one, "impl_id")},
                       {text_of(one, "outcome"), one.at("outcome") == "failed" ? Tint::bad : Tint::doubtful}});
            table.note(text_of(one, "reason"));
        }
    }
    if (shape.contains("error")) {
        table.row({{"failed", Tint::bad}});
        table.note(text_of(shape.at("error"), "message"));
    } else if (shape.at("implementations").empty()) {
        table.row({{"skipped", Tint::doubtful}});
    }
}

std::string above_copy_text(const json &document, const cli::Page &page) {
    for (const json &shape : document.at("shapes")) {
        for (const json &one : shape.at("implementations")) {
            if (one.at("outcome") == "timed" && !one.contains("flops_per_second") && !one.at("of_copy").is_null() &&
                one.at("of_copy") > 1) {
                return "\n" + paragraph("More than 100 % of copy: the tensors fit a cache, which is faster than the "
                                        "memory that the copy rate measures; --cold measures without the cache.",
                                        0, page);
            }
        }
    }
    return "";
}

// "+42 ns (34)"
Cell way_cell(const json &way) {
    const json &ratio = way.at("ratio_if_empty");
    return {ratio.is_null() ? "+0"
                            : "+" + nanoseconds_text(way.at("over_kernel").get<double>()) + " (" +
                                  ratio_text(ratio.get<double>()) + ")"};
}

std::string calls_text(const json &calls, const cli::Page &page) {
    if (calls.empty()) {
        return "";
    }
    Table table;
    table.row({{"op"}, {"served by"}, {"kernel"}, {"prepared"}, {"handle"}, {"by name"}});
    for (const json &one : calls) {
        if (one.contains("error")) {
            table.row({{text_of(one, "op")}, {"failed", Tint::bad}});
            table.note(text_of(one.at("error"), "message"));
            continue;
        }
        table.row({{text_of(one, "op")},
                   {text_of(one, "impl_id")},
                   {nanoseconds_text(one.at("kernel").at("ns").get<double>())},
                   way_cell(one.at("prepared")),
                   way_cell(one.at("handle")),
                   way_cell(one.at("by_name"))});
    }
    return "\n" + page.paint(Tint::heading, "A CALL on the host, with next to nothing to compute") + "\n" +
           table.text(page) +
           paragraph(
               "The time that each way adds to the kernel, +0 if the kernel itself varies by more; in parentheses, "
               "the cost with an empty kernel as a ratio to a bare indirect call.",
               2, page);
}

// "default.cpu: 12.5 us to 10 us, 1.25x faster, spread 2 %", as a paragraph.
std::string change_text(const json &row, const cli::Page &page) {
    const std::string verdict = text_of(row, "verdict");
    const std::string who = cli::printable_line(text_of(row, "impl_id")) + ": ";
    constexpr size_t indent = 6;
    if (row.at("ratio").is_null()) {
        return paragraph(who + verdict, indent, page);
    }
    const std::string times =
        who + time_text(row.at("before").get<double>()) + " to " + time_text(row.at("now").get<double>()) + ", ";
    const std::string speed = cli::speed_text(1 / row.at("ratio").get<double>());
    const std::string rest = ", spread " + percent_text(row.at("spread").get<double>()) +
                             (verdict == "same"     ? ": no change beyond it"
                              : verdict == "unsure" ? ": too few rounds to tell"
                                                    : "");
    // The speed is one piece, so that it can be coloured after the text is broken into lines.
    std::vector<std::string> pieces = cli::words_of(times);
    const size_t comma = rest.find(' ') + 1;
    pieces.push_back(speed + rest.substr(0, comma));
    for (std::string &word : cli::words_of(std::string_view(rest).substr(comma))) {
        pieces.push_back(std::move(word));
    }
    std::string text = std::string(indent, ' ') + cli::fill(pieces, indent, indent, page.width()) + "\n";
    const Tint tint = verdict == "slower" ? Tint::bad : verdict == "faster" ? Tint::good : Tint::plain;
    return text.replace(text.rfind(speed + ","), speed.size(), page.paint(tint, speed));
}

} // namespace

std::string render_report(const json &document, const cli::Page &page) {
    const std::string model = text_of(document, "model");
    std::string text = cli::printable_line(text_of(document, "device") + (model.empty() ? "" : ", " + model)) + "\n" +
                       cli::printable(ceilings_text(document)) +
                       drift_text(document.at("ceilings").at("copy").at("measured"), page);
    for (const json &shape : document.at("shapes")) {
        text += "\n" +
                page.paint(Tint::heading, cli::fill(cli::words_of(cli::printable_line(op_call::label_of(shape))), 0, 4,
                                                    page.width())) +
                "\n";
        Table table;
        add_shape(table, shape);
        text += table.text(page);
    }
    text += above_copy_text(document, page);
    text += calls_text(document.at("calls"), page);
    if (!document.at("left_out").empty()) {
        Table table;
        for (const json &one : document.at("left_out")) {
            table.row({{text_of(one, "op")}});
            table.note(text_of(one, "reason"));
        }
        text += "\n" + page.paint(Tint::heading, "LEFT OUT") + "\n" + table.text(page);
    }
    return text + (document.at("interrupted").get<bool>() ? "\nInterrupted: the results so far are above.\n" : "");
}

std::string render_comparison(const json &comparison, const json &document, const std::string &path,
                              const cli::Page &page) {
    std::string text = "\n" + page.paint(Tint::heading, cli::printable_line("SINCE " + path)) + "\n";
    for (const char *key : {"device", "model"}) {
        if (comparison.at(key) != document.at(key)) {
            text += paragraph("That file was measured on another " + std::string(key) + ": " +
                                  cli::printable_line(text_of(comparison, key)),
                              2, page);
        }
    }
    if (comparison.at("cold") != document.at("cold")) {
        text += "  One of the two was measured with --cold, the other was not.\n";
    }
    text += "  The copy rate is " + ratio_text(comparison.at("copy_ratio").get<double>()) + " times the earlier one.\n";
    std::string label;
    for (const json &row : comparison.at("rows")) {
        if (text_of(row, "label") != label) {
            label = text_of(row, "label");
            text += "  " + cli::fill(cli::words_of(cli::printable_line(label)), 2, 4, page.width()) + "\n";
        }
        text += change_text(row, page);
    }
    return text;
}

} // namespace opdock::plugin_bench
