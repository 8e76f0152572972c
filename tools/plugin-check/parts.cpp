#include "parts.hpp"

#include <map>
#include <numeric>

namespace opdock::plugin_check {

namespace {

bool has_rows(const std::vector<Magnitude> &magnitudes, size_t count) {
    return !magnitudes.empty() && count != 0 && count % magnitudes.size() == 0;
}

} // namespace

std::vector<Part> usual_rows(const std::vector<Magnitude> &magnitudes, size_t count) {
    std::vector<Part> rows;
    if (!has_rows(magnitudes, count)) {
        return rows;
    }
    const size_t of_row = count / magnitudes.size();
    for (size_t r = 0; r < magnitudes.size(); ++r) {
        if (is_usual(magnitudes[r])) {
            Part &row = rows.emplace_back();
            row.elements.resize(of_row);
            std::iota(row.elements.begin(), row.elements.end(), r * of_row);
        }
    }
    return rows;
}

std::vector<Part> parts_of(const std::vector<Magnitude> &magnitudes, size_t count) {
    if (!has_rows(magnitudes, count)) {
        return {Part{}};
    }
    const size_t of_row = count / magnitudes.size();
    std::map<Magnitude, Part> parts;
    for (size_t i = 0; i < count; ++i) {
        parts[magnitudes[i / of_row]].elements.push_back(i);
    }
    std::vector<Part> list;
    list.reserve(parts.size());
    for (auto &[magnitude, part] : parts) {
        // The sum of its squares may exceed f32, in which statistics may be computed: any number is right then.
        part.only_kind = magnitude == Magnitude::constant;
        list.push_back(std::move(part));
    }
    return list;
}

} // namespace opdock::plugin_check
