#include "files/reject.hpp"

#include <array>

#include <fmt/format.h>

namespace opdock::core {
namespace {

struct Row {
    RejectCode code;
    std::string_view meaning;
};

constexpr std::array rows{
    Row{RejectCode::not_found, "no such file or directory"},
    Row{RejectCode::unreadable, "the file cannot be opened or read"},
    Row{RejectCode::not_regular_file, "not a regular file"},
    Row{RejectCode::too_large, "too large for a plugin"},
    Row{RejectCode::not_elf, "not an ELF shared object"},
    Row{RejectCode::wrong_machine, "built for another kind of machine"},
    Row{RejectCode::truncated, "the file ends too early"},
    Row{RejectCode::malformed_elf, "the ELF headers contradict themselves"},
    Row{RejectCode::unsafe_memory, "asks for memory that makes attacks easier"},
    Row{RejectCode::no_note, "a shared object without opdock's note"},
    Row{RejectCode::malformed_note, "opdock's note cannot be understood"},
    Row{RejectCode::abi_mismatch, "built for an ABI this host does not have"},
    Row{RejectCode::cpu_feature_missing, "needs a CPU feature this machine lacks"},
    Row{RejectCode::shadowed, "a plugin of the same id was found earlier"},
    Row{RejectCode::cuda_skipped, "for CUDA, which the policy skips"},
    Row{RejectCode::library_missing, "needs a library that is not installed"},
    Row{RejectCode::symbol_unresolved, "uses a symbol that no library defines"},
    Row{RejectCode::version_missing, "needs a newer version of a library"},
    Row{RejectCode::no_static_tls, "no room for its thread-local variables"},
    Row{RejectCode::load_failed, "the dynamic loader refused it"},
    Row{RejectCode::entry_missing, "exports no opdock_register"},
    Row{RejectCode::entry_failed, "its entry returned an error"},
    Row{RejectCode::entry_threw, "its entry threw an exception"},
    Row{RejectCode::duplicate, "registers the same thing twice"},
    Row{RejectCode::conflict, "registers what another plugin registered before"},
    Row{RejectCode::null_kernel, "an implementation without a kernel"},
    Row{RejectCode::bad_name, "a name that is empty, too long or has characters names may not have"},
    Row{RejectCode::bad_signature, "a signature that cannot be parsed"},
    Row{RejectCode::signature_conflict, "declares an op unlike another plugin does"},
    Row{RejectCode::op_undeclared, "implements an op it does not declare"},
    Row{RejectCode::bad_field, "a field of a registration has a value it may not have"},
    Row{RejectCode::unknown_required_flag, "requires something this host does not know"},
    Row{RejectCode::too_many_registrations, "registers more than a host keeps"},
    Row{RejectCode::tune_file_wrong, "its tune file is wrong"},
    Row{RejectCode::probe_died, "its code ended the process that tried it"},
    Row{RejectCode::probe_timed_out, "its code did not come to an end"},
    Row{RejectCode::probe_unreadable, "the record of its registration cannot be read"},
    Row{RejectCode::registration_changed, "registers something else than when it was scanned"},
    Row{RejectCode::file_changed, "changed while it was loaded"},
    Row{RejectCode::host_died, "processes ended while they opened it"},
    Row{RejectCode::probe_stopped, "the process that tried it got a signal to stop"},
    Row{RejectCode::probe_unusable, "it could not be tried"},
    Row{RejectCode::unsafe_place, "others may write to it, or it belongs to somebody else"},
    Row{RejectCode::unsigned_, "neither signed nor listed where trust is required"},
    Row{RejectCode::signature_invalid, "its signature does not hold"},
    Row{RejectCode::untrusted_key, "signed with a key that is not trusted"},
    Row{RejectCode::unsafe_search, "would take libraries from the working directory, or from nobody knows where"},
    Row{RejectCode::unsafe_library, "others may put code into a library that it needs"},
    Row{RejectCode::bad_soname, "its name as a library is a path"},
    Row{RejectCode::no_proc, "/proc is not there, through which plugins are opened"},
};

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
