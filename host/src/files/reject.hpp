// Why a plugin is not taken: a stable code for scripts and a sentence for people. docs/errors.md has a row for each
// code.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::core {

// X(name, number, meaning). The number is what people grep for: append, never renumber, never reuse.
#define OPDOCK_REJECT_CODES(X)                                                                                         \
    /* The file, judged before any of its code runs. */                                                                \
    X(not_found, 1, "no such file or directory")                                                                       \
    X(unreadable, 2, "the file cannot be opened or read")                                                              \
    X(not_regular_file, 3, "not a regular file")                                                                       \
    X(too_large, 4, "too large for a plugin")                                                                          \
    X(not_elf, 5, "not an ELF shared object")                                                                          \
    X(wrong_machine, 6, "built for another kind of machine")                                                           \
    X(truncated, 7, "the file ends too early")                                                                         \
    X(malformed_elf, 8, "the ELF headers contradict themselves")                                                       \
    X(unsafe_memory, 9, "asks for memory that makes attacks easier")                                                   \
    /* Its note. */                                                                                                    \
    X(no_note, 10, "a shared object without opdock's note")                                                            \
    X(malformed_note, 11, "opdock's note cannot be understood")                                                        \
    X(abi_mismatch, 12, "built for an ABI this host does not have")                                                    \
    X(cpu_feature_missing, 13, "needs a CPU feature this machine lacks")                                               \
    /* Passed over though nothing is wrong with it. */                                                                 \
    X(shadowed, 15, "a plugin of the same id was found earlier")                                                       \
    X(cuda_skipped, 16, "for CUDA, which the policy skips")                                                            \
    /* Opening it. */                                                                                                  \
    X(library_missing, 20, "needs a library that is not installed")                                                    \
    X(symbol_unresolved, 21, "uses a symbol that no library defines")                                                  \
    X(version_missing, 22, "needs a newer version of a library")                                                       \
    X(no_static_tls, 23, "no room for its thread-local variables")                                                     \
    X(load_failed, 24, "the dynamic loader refused it")                                                                \
    X(entry_missing, 25, "exports no opdock_register")                                                                 \
    /* Its registration. */                                                                                            \
    X(entry_failed, 30, "its entry returned an error")                                                                 \
    X(entry_threw, 31, "its entry threw an exception")                                                                 \
    X(duplicate, 32, "registers the same thing twice")                                                                 \
    X(conflict, 33, "registers what another plugin registered before")                                                 \
    X(null_kernel, 34, "an implementation without a kernel")                                                           \
    X(bad_name, 35, "a name that is empty, too long or has characters names may not have")                             \
    X(bad_signature, 36, "a signature that cannot be parsed")                                                          \
    X(signature_conflict, 37, "declares an op unlike another plugin does")                                             \
    X(op_undeclared, 38, "implements an op it does not declare")                                                       \
    X(bad_field, 39, "a field of a registration has a value it may not have")                                          \
    X(unknown_required_flag, 40, "requires something this host does not know")                                         \
    X(too_many_registrations, 41, "registers more than a host keeps")                                                  \
    /* In strict mode only. */                                                                                         \
    X(tune_file_wrong, 42, "its tune file is wrong")                                                                   \
    /* Its code, when it is tried in a process of its own. */                                                          \
    X(probe_died, 50, "its code ended the process that tried it")                                                      \
    X(probe_timed_out, 51, "its code did not come to an end")                                                          \
    X(probe_unreadable, 52, "the record of its registration cannot be read")                                           \
    /* Opening it for real, after it was scanned. */                                                                   \
    X(registration_changed, 53, "registers something else than when it was scanned")                                   \
    X(file_changed, 54, "changed while it was loaded")                                                                 \
    X(host_died, 55, "processes ended while they opened it")                                                           \
    X(probe_stopped, 56, "the process that tried it got a signal to stop")                                             \
    /* In strict mode, and where trust is required. */                                                                 \
    X(probe_unusable, 57, "it could not be tried")                                                                     \
    /* Trust is judged before anything of the file is read; that of its libraries once its headers were. */            \
    X(unsafe_place, 60, "others may write to it, or it belongs to somebody else")                                      \
    X(unsigned_, 61, "neither signed nor listed where trust is required")                                              \
    X(signature_invalid, 62, "its signature does not hold")                                                            \
    X(untrusted_key, 63, "signed with a key that is not trusted")                                                      \
    /* These two in strict mode, and where trust is required. */                                                       \
    X(unsafe_search, 64, "would take libraries from the working directory, or from nobody knows where")                \
    X(unsafe_library, 65, "others may put code into a library that it needs")                                          \
    X(bad_soname, 66, "its name as a library is a path")                                                               \
    X(no_proc, 67, "/proc is not there, through which plugins are opened")

#define OPDOCK_REJECT_CODE(name, number, meaning) name = (number),
enum class RejectCode { OPDOCK_REJECT_CODES(OPDOCK_REJECT_CODE) };
#undef OPDOCK_REJECT_CODE

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
