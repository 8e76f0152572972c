#include "binary.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/variables.hpp"
#include "inspect/linkage.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// "acme::Kernel" for "_ZN4acme6KernelIfE3runEv": only the name, as far as it consists of plain names. Anything else is
// unchanged. Does not use the C++ runtime's function, for which a short symbol can stand for a text of any size.
std::string readable(const std::string &symbol) {
    static constexpr std::pair<std::string_view, std::string_view> kinds[] = {
        {"_ZTV", "vtable of "}, {"_ZTI", "type of "},    {"_ZTS", "type name of "},
        {"_ZGV", "guard of "},  {"_ZZ", "variable in "}, {"_Z", ""}};
    const auto *const kind = std::find_if(std::begin(kinds), std::end(kinds),
                                          [&](const auto &one) { return symbol.starts_with(one.first); });
    if (kind == std::end(kinds)) {
        return symbol;
    }
    std::string_view rest = std::string_view(symbol).substr(kind->first.size());
    const bool is_nested = rest.starts_with('N');
    rest.remove_prefix(std::min(rest.find_first_not_of(is_nested ? "NKVrRO" : "L"), rest.size()));
    std::string name;
    if (rest.starts_with("St")) {
        name = "std";
        rest.remove_prefix(2);
    }
    do {
        size_t size = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
        rest.remove_prefix(static_cast<size_t>(end - rest.data()));
        if (error != std::errc() || size == 0 || size > rest.size()) {
            break;
        }
        name += (name.empty() ? "" : "::") + std::string(rest.substr(0, size));
        rest.remove_prefix(size);
    } while (is_nested);
    return name.empty() || name == "std" ? symbol : std::string(kind->second) + name;
}

// The first names, and the number of the others.
std::string symbols_text(const std::vector<std::string> &symbols, bool are_all) {
    constexpr size_t most = 4;
    std::vector<std::string> names; // one name for all instances of a template
    for (const std::string &symbol : symbols) {
        if (std::string name = readable(symbol); std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(std::move(name));
        }
    }
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), most); ++i) {
        text += (text.empty() ? "" : ", ") + names[i];
    }
    return names.size() <= most
               ? text
               : text + " and " + (are_all ? "" : "at least ") + std::to_string(names.size() - most) + " more";
}

// Compares versions number by number: 2.9 is older than 2.34.
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
        auto others = linkage.at("exports").get<std::vector<std::string>>();
        const bool are_all = others.size() < core::Linkage::most_exports;
        std::erase(others, "opdock_register");
        if (!others.empty()) {
            findings.add("exports", "exports symbols other than opdock_register: " + symbols_text(others, are_all) +
                                        ". Symbols of different plugins must not clash: link with a version script, as "
                                        "opdock_add_plugin does");
        }
        for (const json &path : linkage.at("search_paths")) {
            const auto text = path.get<std::string>();
            if (!text.starts_with("$ORIGIN") && !text.starts_with("${ORIGIN}")) {
                findings.add("search-path",
                             "searches for libraries in '" + text +
                                 "' (RPATH), a folder of the build machine; link without -rpath, or with $ORIGIN");
            }
        }
        if (linkage.at("relocates_text").get<bool>()) {
            findings.add("text-relocations", "its code is modified when it is loaded; compile with -fPIC");
        }
        const auto glibc = needs.value("GLIBC", std::string());
        if (!newest_glibc.empty() && is_newer(glibc, newest_glibc)) {
            findings.add("glibc",
                         "needs glibc " + glibc + ", newer than " + newest_glibc + "; build on an older system");
        }
    }
    json warnings = verdict.at("warnings");
    if (verdict.at("build_id").get_ref<const std::string &>().empty()) {
        warnings.push_back("the file has no build id, which distinguishes builds in caches and reports; link with "
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
