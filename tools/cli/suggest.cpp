#include "cli/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace opdock::cli {
namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

// Levenshtein's, with a swap of two neighbours as one mistake.
size_t typing_mistakes(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1);
    std::vector<size_t> above(b.size() + 1);
    std::vector<size_t> row(b.size() + 1);
    std::iota(above.begin(), above.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        std::swap(before, above);
        std::swap(above, row);
    }
    return above[b.size()];
}

} // namespace

bool same_name(std::string_view a, std::string_view b) {
    return lower(a) == lower(b);
}

bool is_wanted(const std::vector<std::string> &wanted, std::string_view name) {
    return wanted.empty() ||
           std::any_of(wanted.begin(), wanted.end(), [&](const std::string &one) { return same_name(one, name); });
}

std::vector<std::string> near_misses(std::string_view typed, const std::vector<std::string> &known) {
    constexpr size_t contained = 100; // ranks after every typing mistake
    const std::string wanted = lower(typed);
    const size_t tolerated = std::max<size_t>(1, wanted.size() / 4);
    std::vector<std::pair<size_t, std::string>> found;
    for (const std::string &name : known) {
        const std::string candidate = lower(name);
        const size_t mistakes = typing_mistakes(wanted, candidate);
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
