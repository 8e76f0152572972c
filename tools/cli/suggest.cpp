#include "cli/suggest.hpp"

#include <algorithm>
#include <utility>

#include "text/spelling.hpp"

namespace opdock::cli {

bool same_name(std::string_view a, std::string_view b) {
    return core::same_name(a, b);
}

bool is_wanted(const std::vector<std::string> &wanted, std::string_view name) {
    return wanted.empty() ||
           std::any_of(wanted.begin(), wanted.end(), [&](const std::string &one) { return same_name(one, name); });
}

std::vector<std::string> near_misses(std::string_view typed, const std::vector<std::string> &known) {
    constexpr size_t contained = 100; // ranks after every typing mistake
    const std::string wanted = core::folded(typed);
    const size_t tolerated = core::tolerated_edits(wanted);
    std::vector<std::pair<size_t, std::string>> found;
    for (const std::string &name : known) {
        const std::string candidate = core::folded(name);
        const size_t mistakes = core::edit_distance(wanted, candidate);
        if (mistakes <= tolerated) {
            found.emplace_back(mistakes, name);
        } else if (wanted.size() >= 3 && candidate.find(wanted) != std::string::npos) {
            found.emplace_back(contained + candidate.size(), name);
        }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    found.resize(std::min<size_t>(found.size(), 3));
    std::vector<std::string> names;
    names.reserve(found.size());
    for (auto &[rank, name] : found) {
        names.push_back(std::move(name));
    }
    return names;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string> &known) {
    const std::vector<std::string> names = near_misses(typed, known);
    if (names.empty()) {
        return "";
    }
    std::string text = "; did you mean ";
    for (size_t i = 0; i < names.size(); ++i) {
        text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
        text += "'" + names[i] + "'";
    }
    return text + "?";
}

} // namespace opdock::cli
