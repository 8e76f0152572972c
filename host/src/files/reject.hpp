// Why a plugin is not taken: a stable code for scripts and a sentence for people. docs/errors.md has a row for each
// code.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::core {

// The number is what people grep for: append, never renumber, never reuse.
enum class RejectCode {
    // The file, judged before any of its code runs.
    not_found = 1,
    unreadable = 2,
    not_regular_file = 3,
    too_large = 4,
    not_elf = 5,
    wrong_machine = 6,
    truncated = 7,
    malformed_elf = 8,
    unsafe_memory = 9,
    // What its note says.
    no_note = 10,
    malformed_note = 11,
    abi_mismatch = 12,
    cpu_feature_missing = 13,
    // Passed over though nothing is wrong with it.
    shadowed = 15,
    cuda_skipped = 16,
    // Opening it.
    library_missing = 20,
    symbol_unresolved = 21,
    version_missing = 22,
    no_static_tls = 23,
    load_failed = 24,
    entry_missing = 25,
    // Its registration.
    entry_failed = 30,
    entry_threw = 31,
    duplicate = 32,
    conflict = 33,
    null_kernel = 34,
    bad_name = 35,
    bad_signature = 36,
    signature_conflict = 37,
    op_undeclared = 38,
    bad_field = 39,
    unknown_required_flag = 40,
    too_many_registrations = 41,
    tune_file_wrong = 42, // in strict mode only
    // What its code does when it is tried in a process of its own.
    probe_died = 50,
    probe_timed_out = 51,
    probe_unreadable = 52,
    // Opening it for real, after it was scanned.
    registration_changed = 53,
    file_changed = 54,
    host_died = 55,
    probe_stopped = 56,
    probe_unusable = 57, // in strict mode and where trust is required only
    // Trust is judged before anything of the file is read; that of its libraries once its headers were.
    unsafe_place = 60,
    unsigned_ = 61,
    signature_invalid = 62,
    untrusted_key = 63,
    unsafe_search = 64,  // in strict mode, or where trust is required
    unsafe_library = 65, // likewise
    bad_soname = 66,
    no_proc = 67,
};

// "OPDOCK-E005"
std::string code_text(RejectCode code);

// "not an ELF file"
std::string_view meaning(RejectCode code);

// Whether nothing is wrong with the plugin: it is reported as skipped, and strict mode does not mind.
bool is_skip(RejectCode code);

// Whether its code did harm: it is not run again until the file changes or somebody asks for it.
bool is_quarantine(RejectCode code);

// How such a rejection ends. It is kept, and shown by what tried the file again, too.
inline constexpr std::string_view quarantine_text =
    "\nHosts do not try it again until the file changes; each `plugin-ls --rescan` and each plugin-check of the file "
    "does. Mend the plugin, or tell its vendor.";

// In the order of their numbers.
std::vector<RejectCode> all_reject_codes();

struct Rejection {
    RejectCode code;
    std::filesystem::path path;
    // What failed, what was expected, what came, and what to do; names the file without its folders.
    std::string message;
};

// The file is not the one that was judged.
Rejection changed_since_judged(const std::filesystem::path &path);

// How the parts of a stage hand a rejection up to it. Never leaves the stage.
class Rejected : public std::runtime_error {
  public:
    Rejected(RejectCode code, const std::string &message) : std::runtime_error(message), code_(code) {}

    RejectCode code() const noexcept { return code_; }

  private:
    RejectCode code_;
};

// "OPDOCK-E005 /opt/acme/libacme.so: 'libacme.so' is ..."
std::string to_text(const Rejection &rejection);

} // namespace opdock::core
