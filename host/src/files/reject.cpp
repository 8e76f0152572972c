#include "files/reject.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace opdock::core {
namespace {

struct Row {
    RejectCode code;
    RejectFate fate;
    std::string_view meaning;
};

#define OPDOCK_ROW(name, number, fate, meaning) Row{RejectCode::name, RejectFate::fate, meaning},
constexpr std::array rows{OPDOCK_REJECT_CODES(OPDOCK_ROW)};
#undef OPDOCK_ROW

// Null if no code has this number.
const Row *row_of(RejectCode code) {
    const auto *const row = std::ranges::find(rows, code, &Row::code);
    return row == rows.end() ? nullptr : row;
}

} // namespace

std::string code_text(RejectCode code) {
    return fmt::format("OPDOCK-E{:03}", static_cast<int>(code));
}

std::string_view meaning(RejectCode code) {
    const Row *row = row_of(code);
    return row != nullptr ? row->meaning : "unknown code";
}

bool is_skip(RejectCode code) {
    const Row *row = row_of(code);
    return row != nullptr && row->fate == RejectFate::skip;
}

bool is_quarantine(RejectCode code) {
    const Row *row = row_of(code);
    return row != nullptr && row->fate == RejectFate::quarantine;
}

std::vector<RejectCode> all_reject_codes() {
    std::vector<RejectCode> codes;
    codes.reserve(rows.size());
    for (const Row &row : rows) {
        codes.push_back(row.code);
    }
    return codes;
}

std::string to_text(const Rejection &rejection) {
    return fmt::format("{} {}: {}", code_text(rejection.code), rejection.path.string(), rejection.message);
}

Rejection changed_since_judged(const std::filesystem::path &path) {
    return {RejectCode::file_changed, path,
            fmt::format("'{}' was changed or replaced after it was checked, so it is not used.\n"
                        "Install plugins by renaming them into place, then open the host again.",
                        path.filename().string())};
}

} // namespace opdock::core
