#include "report.hpp"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/printable.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// For XML and HTML, in text and in attributes. Makes visible what neither may contain, and what would reverse text.
std::string escaped(const std::string &text) {
    std::string result;
    for (const char c : cli::printable(text)) {
        switch (c) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        default:
            result += c;
        }
    }
    return result;
}

std::string escaped(const json &text) {
    return escaped(text.get<std::string>());
}

std::string detail_of(const json &finding) {
    std::string text = finding.at("message").get<std::string>();
    for (const char *member : {"label", "command"}) {
        if (const auto more = finding.value(member, std::string()); !more.empty()) {
            text += "\n" + more;
        }
    }
    return text;
}

void add_junit_case(std::ostringstream &xml, const std::string &suite, const std::string &name, const json &one) {
    xml << "  <testcase classname=\"" << escaped(suite) << "\" name=\"" << escaped(name) << "\" time=\""
        << one.value("seconds", 0.0) << "\"";
    if (one.at("findings").empty()) {
        xml << "/>\n";
        return;
    }
    xml << ">\n";
    for (const json &finding : one.at("findings")) {
        xml << "    <failure type=\"" << escaped(finding.at("check")) << "\" message=\""
            << escaped(finding.at("message")) << "\">" << escaped(detail_of(finding)) << "</failure>\n";
    }
    xml << "  </testcase>\n";
}

// Otherwise the report of a run that was ended early would look like that of a sound plugin.
void add_interruption(std::ostringstream &xml) {
    xml << "  <testcase classname=\"plugin-check\" name=\"all was tried\" time=\"0\">\n"
           "    <error type=\"interrupted\" message=\"a signal ended plugin-check early\"/>\n  </testcase>\n";
}

constexpr const char *style = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2330; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
p.facts { color: #5a6475; margin-top: .2rem; }
table { border-collapse: collapse; width: 100%; margin-top: 1.5rem; }
th { text-align: left; font-weight: 600; color: #5a6475; border-bottom: 2px solid #d5dae3; }
th, td { padding: .35rem .7rem .35rem 0; vertical-align: top; }
td { border-bottom: 1px solid #e6e9ef; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
div.wide { overflow-x: auto; }
.ok { color: #12713f; font-weight: 600; }
.fail { color: #b3261e; font-weight: 600; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: #f4f6f9; padding: .5rem .7rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.finding { border-left: 3px solid #b3261e; padding-left: .8rem; margin: .6rem 0; }
@media print { body { font-size: 10px; margin: 0; } code, pre { font-size: 9px; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #14171d; color: #dfe4ec; }
  th, p.facts { color: #97a1b3; } td { border-color: #272c36; } th { border-color: #3a4150; }
  pre { background: #1d222b; } .ok { color: #5fd39a; } .fail { color: #ff8a80; }
}
)";

void add_findings(std::ostringstream &html, const json &one) {
    for (const json &finding : one.at("findings")) {
        const auto dtypes = finding.value("dtypes", std::string());
        html << "<div class=\"finding\"><b>" << escaped(finding.at("check")) << "</b>"
             << (dtypes.empty() ? "" : " " + escaped(dtypes)) << ": " << escaped(finding.at("message"));
        if (const auto label = finding.value("label", std::string()); !label.empty()) {
            html << "<br>" << escaped(label + more_text(finding));
        }
        if (const auto command = finding.value("command", std::string()); !command.empty()) {
            html << "<pre>" << escaped(command) << "</pre>";
        }
        html << "</div>\n";
    }
}

std::string verdict_cell(const json &one) {
    return one.at("findings").empty() ? "<td class=\"ok\">ok</td>" : "<td class=\"fail\">FAIL</td>";
}

} // namespace

std::string render_junit(const json &document) {
    std::ostringstream cases;
    size_t count = 0;
    size_t failures = 0;
    for (const json &file : document.at("files")) {
        add_junit_case(cases, "plugin-check.file", file.at("path").get<std::string>(), file);
        ++count;
        failures += file.at("findings").empty() ? 0 : 1;
    }
    for (const json &one : document.at("ops")) {
        add_junit_case(cases, "plugin-check." + one.at("impl_id").get<std::string>(), one.at("op").get<std::string>(),
                       one);
        ++count;
        failures += one.at("findings").empty() ? 0 : 1;
    }
    const bool is_complete = !document.at("interrupted").get<bool>();
    if (!is_complete) {
        add_interruption(cases);
        ++count;
    }
    std::ostringstream xml;
    xml << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"plugin-check\" tests=\"" << count
        << "\" failures=\"" << failures << "\" errors=\"" << (is_complete ? 0 : 1) << "\" time=\""
        << document.at("seconds").get<double>() << "\">\n"
        << "  <properties><property name=\"seed\" value=\"" << document.at("seed").get<uint64_t>()
        << "\"/></properties>\n"
        << cases.str() << "</testsuite>\n";
    return xml.str();
}

std::string render_html(const json &document) {
    std::ostringstream html;
    const bool is_good = count_findings(document) == 0 && !document.at("interrupted").get<bool>();
    html << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width\">\n<title>plugin-check</title><style>"
         << style << "</style></head><body>\n<h1>plugin-check: <span class=\"" << (is_good ? "ok\">" : "fail\">")
         << verdict_of(document) << "</span></h1>\n<p class=\"facts\">opdock " << escaped(document.at("version"))
         << ", seed " << document.at("seed").get<uint64_t>() << ", " << std::fixed << std::setprecision(1)
         << document.at("seconds").get<double>() << " s</p>\n";
    for (const json &file : document.at("files")) {
        html << "<h2>" << escaped(file.at("id")) << " " << escaped(file.at("version"))
             << "</h2>\n<p class=\"facts\"><code>" << escaped(file.at("path")) << "</code><br>vendor "
             << escaped(file.at("vendor")) << ", build " << escaped(file.at("build_id")) << escaped(needs_text(file))
             << "</p>\n";
        add_findings(html, file);
    }
    // Implementations with findings come first, then by name.
    std::vector<const json *> sorted;
    for (const json &one : document.at("ops")) {
        sorted.push_back(&one);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const json *a, const json *b) {
        return a->at("findings").empty() < b->at("findings").empty();
    });
    html << "<div class=\"wide\"><table><tr><th></th><th>op</th><th>implementation</th><th class=\"number\">calls</th>"
            "<th class=\"number\">declined</th><th class=\"number\">configs</th><th>worst relative error</th>"
            "<th class=\"number\">seconds</th></tr>\n";
    for (const json *one : sorted) {
        html << "<tr>" << verdict_cell(*one) << "<td><code>" << escaped(one->at("op")) << "</code></td><td><code>"
             << escaped(one->at("impl_id")) << "</code></td><td class=\"number\">" << one->at("ran").get<uint64_t>()
             << "</td><td class=\"number\">" << one->at("declined").get<uint64_t>() << "</td><td class=\"number\">"
             << one->at("configs").get<uint64_t>() << "</td><td>" << escaped(worst_text(*one))
             << "</td><td class=\"number\">" << one->at("seconds").get<double>() << "</td></tr>\n";
        if (!one->at("findings").empty() || !one->at("notes").empty()) {
            html << "<tr><td></td><td colspan=\"7\">";
            add_findings(html, *one);
            for (const json &note : one->at("notes")) {
                html << "<p class=\"facts\">" << escaped(note) << "</p>";
            }
            html << "</td></tr>\n";
        }
    }
    html << "</table></div>\n</body></html>\n";
    return html.str();
}

} // namespace opdock::plugin_check
