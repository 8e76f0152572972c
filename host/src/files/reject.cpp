#include "files/reject.hpp"

#include <array>

#include <fmt/format.h>

namespace opdock::core {
namespace {

struct Row {
    RejectCode code;
    std::string_view meaning;
};

#define OPDOCK_ROW(name, number, meaning) Row{RejectCode::name, meaning},
constexpr std::array rows{OPDOCK_REJECT_CODES(OPDOCK_ROW)};
#undef OPDOCK_ROW

} // namespace

std::string code_text(RejectCode code) {
    return fmt::format("OPDOCK-E{:03}", static_cast<int>(code));
}

std::string_view meaning(RejectCode code) {
    for (const Row &row : rows) {
        if (row.code == code) {
            return row.meaning;
        }
    }
    return "unknown code";
}

bool is_skip(RejectCode code) {
    return code == RejectCode::shadowed || code == RejectCode::cuda_skipped;
}

bool is_quarantine(RejectCode code) {
    return code == RejectCode::probe_died || code == RejectCode::probe_timed_out || code == RejectCode::host_died;
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
            fmt::format("'{}' was changed or replaced after it was judged, so it is not used.\n"
                        "Install plugins by renaming them into place, then open the host again.",
                        path.filename().string())};
}

} // namespace opdock::core
