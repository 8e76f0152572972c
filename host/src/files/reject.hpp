// Reasons for rejecting a plugin: a stable code for scripts and a sentence for people. docs/errors.md has a row for
// each code.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::core {

// The host's treatment of a plugin, determined by the code.
enum class RejectFate {
    reject,
    skip,       // nothing is wrong with it: reported as skipped, accepted by strict mode
    quarantine, // its code did harm: not run again until the file changes or a user requests it
};

// X(name, number, fate, meaning). People search for the number: append, never renumber, never reuse.
#define OPDOCK_REJECT_CODES(X)                                                                                         \
    /* The file, judged before any of its code runs. */                                                                \
    X(not_found, 1, reject, "no such file or directory")                                                               \
    X(unreadable, 2, reject, "the file cannot be opened or read")                                                      \
    X(not_regular_file, 3, reject, "not a regular file")                                                               \
    X(too_large, 4, reject, "too large for a plugin")                                                                  \
    X(not_elf, 5, reject, "not an ELF shared object")                                                                  \
    X(wrong_machine, 6, reject, "built for another kind of machine")                                                   \
    X(truncated, 7, reject, "the file ends too early")                                                                 \
    X(malformed_elf, 8, reject, "the ELF headers contradict themselves")                                               \
    X(unsafe_memory, 9, reject, "asks for memory that makes attacks easier")                                           \
    /* Its note. */                                                                                                    \
    X(no_note, 10, reject, "a shared object without opdock's note")                                                    \
    X(malformed_note, 11, reject, "opdock's note is malformed")                                                        \
    X(abi_mismatch, 12, reject, "built for an ABI this host does not support")                                         \
    X(cpu_feature_missing, 13, reject, "needs a CPU feature this machine lacks")                                       \
    /* Skipped although nothing is wrong with them. */                                                                 \
    X(shadowed, 15, skip, "a plugin of the same id was found earlier")                                                 \
    X(cuda_skipped, 16, skip, "for CUDA, which the policy skips")                                                      \
    /* Opening it. */                                                                                                  \
    X(library_missing, 20, reject, "needs a library that is not installed")                                            \
    X(symbol_unresolved, 21, reject, "uses a symbol that no library defines")                                          \
    X(version_missing, 22, reject, "needs a newer version of a library")                                               \
    X(no_static_tls, 23, reject, "no room for its thread-local variables")                                             \
    X(load_failed, 24, reject, "the dynamic loader refused it")                                                        \
    X(entry_missing, 25, reject, "exports no opdock_register")                                                         \
    /* Its registration. */                                                                                            \
    X(entry_failed, 30, reject, "its entry returned an error")                                                         \
    X(entry_threw, 31, reject, "its entry threw an exception")                                                         \
    X(duplicate, 32, reject, "registers the same thing twice")                                                         \
    X(conflict, 33, reject, "registers what another plugin registered before")                                         \
    X(null_kernel, 34, reject, "an implementation without a kernel")                                                   \
    X(bad_name, 35, reject, "a name that is empty, too long or has invalid characters")                                \
    X(bad_signature, 36, reject, "a signature that cannot be parsed")                                                  \
    X(signature_conflict, 37, reject, "declares an op differently than another plugin")                                \
    X(op_undeclared, 38, reject, "implements an op it does not declare")                                               \
    X(bad_field, 39, reject, "a field of a registration has an invalid value")                                         \
    X(unknown_required_flag, 40, reject, "requires something this host does not know")                                 \
    X(too_many_registrations, 41, reject, "registers more than a host keeps")                                          \
    /* In strict mode only. */                                                                                         \
    X(tune_file_wrong, 42, reject, "its tune file is wrong")                                                           \
    /* Its code, when it is tried in a process of its own. */                                                          \
    X(probe_died, 50, quarantine, "its code ended the process that tried it")                                          \
    X(probe_timed_out, 51, quarantine, "its code did not finish")                                                      \
    X(probe_unreadable, 52, reject, "the record of its registration cannot be read")                                   \
    /* Opening it for real, after it was scanned. */                                                                   \
    X(registration_changed, 53, reject, "registers something other than when it was scanned")                          \
    X(file_changed, 54, reject, "changed while it was loaded")                                                         \
    X(host_died, 55, quarantine, "processes ended while they opened it")                                               \
    X(probe_stopped, 56, reject, "the process that tried it received a signal to stop")                                \
    /* In strict mode, and where trust is required. */                                                                 \
    X(probe_unusable, 57, reject, "it could not be tried")                                                             \
    /* Trust is judged before anything of the file is read; that of its libraries once its headers were. */            \
    X(unsafe_place, 60, reject, "other users may write to it, or it belongs to another user")                          \
    X(unsigned_, 61, reject, "neither signed nor listed, but trust is required")                                       \
    X(signature_invalid, 62, reject, "its signature is invalid")                                                       \
    X(untrusted_key, 63, reject, "signed with a key that is not trusted")                                              \
    /* Both only in strict mode, and where trust is required. */                                                       \
    X(unsafe_search, 64, reject, "would load libraries from the working directory, or from an unknown place")          \
    X(unsafe_library, 65, reject, "other users may put code into a library that it needs")                             \
    X(bad_soname, 66, reject, "its name as a library is a path")                                                       \
    X(no_proc, 67, reject, "/proc, through which plugins are opened, is missing")

#define OPDOCK_REJECT_CODE(name, number, ...) name = (number),
enum class RejectCode { OPDOCK_REJECT_CODES(OPDOCK_REJECT_CODE) };
#undef OPDOCK_REJECT_CODE

// "OPDOCK-E005"
std::string code_text(RejectCode code);

// "not an ELF file"
std::string_view meaning(RejectCode code);

bool is_skip(RejectCode code);
bool is_quarantine(RejectCode code);

// The end of a quarantine message. It is stored, and also shown by tools that try the file again.
inline constexpr std::string_view quarantine_text =
    "\nHosts do not try it again until the file changes; `plugin-ls --rescan` and plugin-check of the file do so each "
    "time. Fix the plugin, or report it to its vendor.";

// In ascending order of their numbers.
std::vector<RejectCode> all_reject_codes();

struct Rejection {
    RejectCode code;
    std::filesystem::path path;
    // What failed, what was expected, what was found and what to do; names the file without its folders.
    std::string message;
};

// The rejection of a file that is not the one that was judged.
Rejection changed_since_judged(const std::filesystem::path &path);

// Passes a rejection from the parts of a stage up to the stage. Never leaves the stage.
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
