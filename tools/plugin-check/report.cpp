#include "report.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/fill.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"

namespace opdock::plugin_check {
namespace {

using cli::Page;
using cli::Tint;
using nlohmann::json;

std::string short_number(double value) {
    std::ostringstream text;
    text << std::setprecision(2) << value;
    return text.str();
}

// Wrapped to the page, each line indented by `indent` blanks.
std::string paragraph(const std::string &text, size_t indent, const Page &page) {
    std::string lines;
    std::istringstream source(cli::printable(text));
    for (std::string line; std::getline(source, line);) {
        lines += std::string(indent, ' ') + cli::fill(cli::words_of(line), indent, indent, page.width()) + "\n";
    }
    return lines;
}

std::string counts_of(const json &one) {
    std::string text = cli::counted(one.at("ran").get<uint64_t>(), "case");
    for (const char *what : {"declined", "skipped"}) {
        if (const auto count = one.at(what).get<uint64_t>(); count != 0) {
            text += ", " + std::to_string(count) + " " + what;
        }
    }
    if (const auto configs = one.at("configs").get<uint64_t>(); configs != 0) {
        text += ", " + cli::counted(configs, "config");
    }
    return text;
}

std::string finding_text(const json &finding, const Page &page) {
    const auto dtypes = finding.value("dtypes", std::string());
    std::string text = paragraph(finding.at("check").get<std::string>() + (dtypes.empty() ? "" : " (" + dtypes + ")") +
                                     ": " + finding.at("message").get<std::string>(),
                                 8, page);
    if (const auto label = finding.value("label", std::string()); !label.empty()) {
        text += paragraph(label + more_text(finding), 10, page);
    }
    if (const auto command = finding.value("command", std::string()); !command.empty()) {
        text += "          " + cli::printable(command) + "\n"; // in one line, for copying
    }
    return text;
}

std::string file_text(const json &file, const Page &page) {
    std::string text = page.paint(Tint::heading, cli::printable(file.at("path").get<std::string>())) + "\n";
    if (!file.at("id").get<std::string>().empty()) {
        std::string facts = file.at("id").get<std::string>() + " " + file.at("version").get<std::string>() + " of " +
                            file.at("vendor").get<std::string>();
        text += paragraph(facts + needs_text(file), 2, page);
    }
    if (!file.at("findings").empty()) {
        const std::string name = std::filesystem::path(file.at("path").get<std::string>()).filename().string();
        text += "  " + page.paint(Tint::bad, "FAIL") + "  " + cli::printable_line(name) + "\n";
    }
    for (const json &finding : file.at("findings")) {
        text += finding_text(finding, page);
    }
    for (const json &warning : file.at("warnings")) {
        text += paragraph("warning: " + warning.get<std::string>(), 2, page);
    }
    return text + "\n";
}

} // namespace

std::string needs_text(const json &file) {
    std::string text;
    for (const auto &[kind, version] : file.at("needs").items()) {
        text += (text.empty() ? ", needs " : ", ") + kind + " " + version.get<std::string>();
    }
    return text.empty() ? "" : text + " or newer";
}

std::string more_text(const json &finding) {
    const auto also = finding.at("also").get<uint64_t>();
    if (also == 0) {
        return "";
    }
    std::string dtypes;
    for (const json &tuple : finding.at("also_dtypes")) {
        dtypes += (dtypes.empty() ? ", also with " : ", ") + tuple.get<std::string>();
    }
    return "; and " + std::to_string(also) + " more" + dtypes;
}

std::string worst_text(const json &one) {
    std::string text;
    for (const auto &[tuple, outputs] : one.at("worst").items()) {
        double worst = 0;
        for (const auto &[output, error] : outputs.items()) {
            worst = std::max(worst, error.get<double>());
        }
        text += (text.empty() ? "" : "; ") + tuple + " " + short_number(worst);
    }
    return text;
}

size_t count_findings(const json &document) {
    size_t count = 0;
    for (const char *part : {"files", "ops"}) {
        for (const json &one : document.at(part)) {
            count += one.at("findings").size();
        }
    }
    return count;
}

std::string tried_of(const json &document) {
    uint64_t cases = 0;
    uint64_t calls = 0;
    uint64_t elements = 0;
    uint64_t dims = 0;
    for (const json &one : document.at("ops")) {
        cases += one.at("ran").get<uint64_t>();
        calls += one.at("calls").get<uint64_t>();
        elements = std::max(elements, one.at("most_elements").get<uint64_t>());
        dims = std::max(dims, one.at("most_dims").get<uint64_t>());
    }
    return cli::counted(cases, "case") + " of " + cli::counted(calls, "call") + (cases == 1 ? " was" : " were") +
           " tried, with inputs of at most " + cli::counted(elements, "element") + " and " + cli::counted(dims, "dim");
}

std::string verdict_of(const json &document) {
    const size_t findings = count_findings(document);
    const std::string found = findings == 0 ? "nothing found" : cli::counted(findings, "finding");
    const auto &ops = document.at("ops");
    const auto uncompared =
        std::count_if(ops.begin(), ops.end(), [](const json &one) { return !one.at("has_reference").get<bool>(); });
    return (document.at("interrupted").get<bool>() ? "interrupted; until then " : "") + found +
           (ops.empty() ? "" : "; " + tried_of(document)) +
           (uncompared == 0 ? "" : "; the values of " + std::to_string(uncompared) + " were not compared");
}

std::string render_text(const json &document, const Page &page) {
    std::string text;
    for (const json &file : document.at("files")) {
        text += file_text(file, page);
    }
    // Rows are aligned over all ops; findings are below their rows.
    cli::Table table;
    for (const json &one : document.at("ops")) {
        const bool is_good = one.at("findings").empty();
        table.row({{is_good ? "ok" : "FAIL", is_good ? Tint::good : Tint::bad},
                   {one.at("op").get<std::string>()},
                   {one.at("impl_id").get<std::string>()},
                   {counts_of(one) + (one.at("worst").empty() ? "" : "; relative error: " + worst_text(one))}});
    }
    std::istringstream rows(table.text(page));
    std::string line;
    std::string row;
    auto one = document.at("ops").begin();
    const auto finish_row = [&] {
        if (row.empty()) {
            return;
        }
        text += row;
        if (one->contains("call")) {
            text += paragraph(one->at("call").get<std::string>(), 8, page);
        }
        for (const json &finding : one->at("findings")) {
            text += finding_text(finding, page);
        }
        for (const json &note : one->at("notes")) {
            text += paragraph("note: " + note.get<std::string>(), 8, page);
        }
        ++one;
        row.clear();
    };
    while (std::getline(rows, line)) {
        if (!line.starts_with("   ")) { // deeper indentation continues the row above
            finish_row();
        }
        row += line + "\n";
    }
    finish_row();
    const size_t ops = document.at("ops").size();
    const size_t findings = count_findings(document);
    std::ostringstream end;
    end << "\n"
        << cli::counted(ops, "implementation") << " checked in " << std::fixed << std::setprecision(1)
        << document.at("seconds").get<double>() << " s with seed " << document.at("seed").get<uint64_t>() << ": ";
    const bool is_good = findings == 0 && !document.at("interrupted").get<bool>();
    const size_t column = end.str().size() - 1; // it begins on a line of its own
    return text + end.str() +
           page.paint(is_good ? Tint::good : Tint::bad,
                      cli::fill(cli::words_of(verdict_of(document)), column, 0, page.width())) +
           "\n";
}

} // namespace opdock::plugin_check
