#include "binary.hpp"

#include <algorithm>

#include "cli/variables.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

std::string list_text(const json &list) {
    std::string text;
    for (const json &one : list) {
        text += (text.empty() ? "" : ", ") + one.get<std::string>();
    }
    return text;
}

// Versions number by number: 2.9 is older than 2.34.
bool is_newer(const std::string &a, const std::string &b) {
    size_t at_a = 0;
    size_t at_b = 0;
    while (at_a < a.size() || at_b < b.size()) {
        const auto next = [](const std::string &text, size_t &at) {
            unsigned long number = 0;
            for (; at < text.size() && text[at] != '.'; ++at) {
                number = number * 10 + static_cast<unsigned long>(text[at] - '0');
            }
            ++at;
            return number;
        };
        const unsigned long of_a = next(a, at_a);
        const unsigned long of_b = next(b, at_b);
        if (of_a != of_b) {
            return of_a > of_b;
        }
    }
    return false;
}

class Findings {
  public:
    void add(const std::string &check, const std::string &message) {
        list_.push_back({{"check", check}, {"message", message}});
    }
    const json &list() const { return list_; }

  private:
    json list_ = json::array();
};

} // namespace

json judge_binary(const json &verdict, const std::string &newest_glibc) {
    Findings findings;
    if (verdict.at("status") != "ok") {
        findings.add(verdict.at("status") == "faulty" ? "tune-file" : "rejected",
                     verdict.at("code").get<std::string>() + ": " + verdict.at("reason").get<std::string>());
    }
    json needs = json::object();
    json libraries = json::array();
    if (const json &linkage = verdict.at("linkage"); linkage.is_object()) {
        needs = linkage.at("versions");
        libraries = linkage.at("libraries");
        json others = json::array();
        for (const json &name : linkage.at("exports")) {
            if (name != "opdock_register") {
                others.push_back(name);
            }
        }
        if (!others.empty()) {
            findings.add("exports", "it exports more than opdock_register: " + list_text(others) +
                                        ". Symbols of two plugins must not meet: link with a version script, as "
                                        "opdock_add_plugin does");
        }
        for (const json &path : linkage.at("search_paths")) {
            const auto text = path.get<std::string>();
            if (!text.starts_with("$ORIGIN") && !text.starts_with("${ORIGIN}")) {
                findings.add("search-path",
                             "it looks for libraries in '" + text +
                                 "' (RPATH), which is a place of the machine that built it; link without "
                                 "-rpath, or with $ORIGIN");
            }
        }
        if (linkage.at("relocates_text").get<bool>()) {
            findings.add("text-relocations", "its code is written to while it is loaded; compile with -fPIC");
        }
        const auto glibc = needs.value("GLIBC", std::string());
        if (!newest_glibc.empty() && is_newer(glibc, newest_glibc)) {
            findings.add("glibc",
                         "it needs glibc " + glibc + ", newer than " + newest_glibc + "; build it on an older system");
        }
    }
    json warnings = verdict.at("warnings");
    if (verdict.at("build_id") == "") {
        warnings.push_back("it has no build id, which tells one build from another in caches and reports; link with "
                           "-Wl,--build-id");
    }
    const json note = verdict.at("note").is_object() ? verdict.at("note") : json::object();
    return {{"path", verdict.at("path")},
            {"status", verdict.at("status")},
            {"id", note.value("id", "")},
            {"version", note.value("version", "")},
            {"vendor", note.value("vendor", "")},
            {"abi", note.value("abi", json::array())},
            {"build_id", verdict.at("build_id")},
            {"needs", needs},
            {"libraries", libraries},
            {"findings", findings.list()},
            {"warnings", warnings}};
}

json check_binary(const std::string &path, const std::string &newest_glibc) {
    char *text = nullptr;
    detail::check(opdock_check_file(path.c_str(), cli::variable_prefix().c_str(), &text));
    return judge_binary(json::parse(detail::take(text)), newest_glibc);
}

} // namespace opdock::plugin_check
