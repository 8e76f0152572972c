#include "inspect.hpp"

#include <fmt/format.h>

#include "elf.hpp"
#include "elf_notes.hpp"

namespace opdock::core {
namespace {

const std::string &the_note(const PluginFile &file, const ElfNotes &notes) {
    if (notes.opdock.empty()) {
        throw Rejected(RejectCode::no_note, fmt::format("'{}' is a shared object without opdock's note, so it is no "
                                                        "opdock plugin.\nIf it should be one, put OPDOCK_NOTE(...) at "
                                                        "file scope into one of its sources.",
                                                        file.name()));
    }
    if (notes.opdock.size() > 1) {
        throw Rejected(RejectCode::malformed_note,
                       fmt::format("'{}' has {} of opdock's notes, expected one.\n"
                                   "Put OPDOCK_NOTE(...) into exactly one source; link two plugins as two files.",
                                   file.name(), notes.opdock.size()));
    }
    return notes.opdock.front();
}

} // namespace

Inspection inspect(const std::filesystem::path &path) {
    Inspection result;
    try {
        const PluginFile file(path);
        const ElfImage image(file);
        const ElfNotes notes = read_notes(image);
        result.build_id = notes.build_id;
        result.note = parse_note(file.name(), the_note(file, notes), host_abi);
        if (const auto reason = judge_cpu_features(file.name(), result.note->cpu_features, machine_cpu_features())) {
            throw Rejected(RejectCode::cpu_feature_missing, *reason);
        }
    } catch (const Rejected &rejected) {
        result.rejection = Rejection{rejected.code(), path, rejected.what()};
    }
    return result;
}

} // namespace opdock::core
