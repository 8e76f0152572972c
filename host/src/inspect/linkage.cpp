#include "inspect/linkage.hpp"

#include <algorithm>

#include "files/plugin_file.hpp"
#include "files/reject.hpp"
#include "inspect/elf.hpp"
#include "inspect/elf_dynamic.hpp"

namespace opdock::core {
namespace {

std::vector<std::string> parts_of(const std::string &version) {
    std::vector<std::string> parts(1);
    for (const char c : version) {
        if (c == '.') {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

// Compares digit strings as numbers of any length, other texts by length and characters.
bool is_less(const std::string &a, const std::string &b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

} // namespace

bool is_older(const std::string &a, const std::string &b) {
    const std::vector<std::string> of_a = parts_of(a);
    const std::vector<std::string> of_b = parts_of(b);
    return std::lexicographical_compare(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), is_less);
}

std::optional<Linkage> read_linkage(const std::filesystem::path &path) try {
    const PluginFile file(path);
    const ElfImage image(file);
    ElfDynamic dynamic = read_dynamic(image);
    Linkage linkage;
    linkage.exports = defined_symbols(image, Linkage::most_exports);
    for (const std::optional<std::string> &folders : {dynamic.libraries.rpath, dynamic.libraries.runpath}) {
        if (folders) {
            linkage.search_paths.push_back(*folders);
        }
    }
    linkage.libraries = std::move(dynamic.libraries.names);
    linkage.relocates_text = dynamic.relocates_text;
    for (const VersionNeed &need : dynamic.versions) {
        const std::size_t end = need.version.rfind('_');
        if (end == std::string::npos) {
            continue;
        }
        std::string &newest = linkage.versions[need.version.substr(0, end)];
        const std::string version = need.version.substr(end + 1);
        if (newest.empty() || is_older(newest, version)) {
            newest = version;
        }
    }
    return linkage;
} catch (const Rejected &) {
    return std::nullopt;
}

} // namespace opdock::core
