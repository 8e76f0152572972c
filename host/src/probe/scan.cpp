#include "probe/scan.hpp"

#include <utility>
#include <variant>

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "inspect/inspect.hpp"
#include "inspect/library_place.hpp"
#include "load/load.hpp"
#include "opdock_version.hpp"
#include "probe/probe.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

std::string text_of(const CallDeath &death) {
    return fmt::format("{} ended in the first call of '{}' for op '{}'.\nPLUGIN_PER_OP or PLUGIN_DENY_VENDORS can keep "
                       "it from being chosen; reset_health or `plugin-ls --rescan` forgets this.",
                       death.count == 1 ? "A process" : fmt::format("{} processes", death.count),
                       visible_line(death.impl_id), visible_line(death.op));
}

Scan look_at(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions) {
    Inspection inspection = inspect(directory, name, versions);
    Scan scan;
    scan.identity = inspection.identity;
    scan.build_id = std::move(inspection.build_id);
    scan.note = std::move(inspection.note);
    scan.weaknesses = std::move(inspection.weaknesses);
    scan.remarks = std::move(inspection.remarks);
    scan.libraries = std::move(inspection.libraries);
    scan.rejection = std::move(inspection.rejection);
    return scan;
}

Trial try_out(Scan &scan, const HeldDirectory &directory, const std::string &name, const std::string &probe,
              bool secure) {
    // The probe opens the file by name: before and after, the name must refer to the file that was inspected.
    const auto refuse_other = [&] {
        const bool is_other = !is_still(scan.identity, directory, name);
        if (is_other) {
            scan.rejection = changed_since_judged(std::filesystem::path(directory.path()) / name);
        }
        return is_other;
    };
    if (refuse_other()) {
        return {true};
    }
    const ProbeLimits limits = limits_for(scan.note->devices);
    Trial trial;
    std::optional<ProbeResult> result = run_probe(probe, directory, name, limits, secure, &trial.why);
    if (!result) {
        return trial;
    }
    trial.took_place = true;
    trial.printed = std::move(result->printed); // the last lines are also part of a rejection
    if (refuse_other()) {
        return trial;
    }
    auto judged = judge_probe(directory, name, limits, std::move(*result));
    if (auto *rejection = std::get_if<Rejection>(&judged)) {
        scan.rejection = std::move(*rejection);
        scan.interruptions = scan.rejection->code == RejectCode::probe_stopped ? scan.interruptions + 1 : 0;
        if (scan.interruptions >= most_chances) {
            scan.rejection->code = RejectCode::probe_died;
            scan.rejection->message =
                fmt::format("{} times in a row {}{}", scan.interruptions,
                            scan.rejection->message.substr(0, scan.rejection->message.find('\n')), quarantine_text);
        }
    } else {
        scan.interruptions = 0;
        scan.transcript = std::make_shared<const Transcript>(std::move(std::get<Transcript>(judged)));
    }
    return trial;
}

std::string find_probe() {
    const std::filesystem::path library = library_directory();
    // Relative to the installed library, and to the library in the build tree.
    for (const char *folder : {libexec_from_library, "../libexec"}) {
        const std::filesystem::path probe = (library / folder / "opdock" / "plugin-probe").lexically_normal();
        if (!library.empty() && ::access(probe.c_str(), X_OK) == 0) {
            return probe.string();
        }
    }
    return {};
}

} // namespace opdock::core
