#include "host/check.hpp"

#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include <spdlog/fmt/fmt.h>

#include "host/plugin_trust.hpp"
#include "inspect/dependencies.hpp"
#include "inspect/inspect.hpp"
#include "inspect/library_rules.hpp"
#include "inspect/linkage.hpp"
#include "inspect/manifest.hpp"
#include "load/register.hpp"
#include "probe/scan_cache.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"
#include "tune/plugin_tuning.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

json as_json(const Note &note) {
    return {{"abi", {note.abi.major, note.abi.minor}},
            {"oldest_host", {note.oldest_host.major, note.oldest_host.minor}},
            {"id", note.id},
            {"version", note.version},
            {"vendor", note.vendor},
            {"devices", note.devices},
            {"cpu_features", note.cpu_features}};
}

// Names in a file may contain anything; each becomes one line of a report.
json as_lines(const std::vector<std::string> &names) {
    json lines = json::array();
    for (const std::string &name : names) {
        lines.push_back(visible_line(name));
    }
    return lines;
}

json as_json(const std::optional<Linkage> &linkage) {
    if (!linkage) {
        return nullptr;
    }
    json versions = json::object();
    for (const auto &[kind, newest] : linkage->versions) {
        versions[visible_line(kind)] = visible_line(newest);
    }
    return {{"exports", as_lines(linkage->exports)},
            {"libraries", as_lines(linkage->libraries)},
            {"search_paths", as_lines(linkage->search_paths)},
            {"versions", std::move(versions)},
            {"relocates_text", linkage->relocates_text}};
}

Rejection wrong_tune_file(const std::filesystem::path &path, const std::vector<std::string> &problems,
                          std::string_view consequence) {
    std::string text;
    for (const std::string &problem : problems) {
        text += sentence(problem) + "\n";
    }
    return {RejectCode::tune_file_wrong, path, fmt::format("{}{}", text, consequence)};
}

// The check of one file.
class Check {
  public:
    Check(const std::filesystem::path &path, const CheckSettings &settings)
        : path_(path), settings_(settings), strict_(settings.policy.strict()), candidate_(candidate_of(path)),
          inspection_(inspect(path, versions_)), scan_(learnt()) {}

    json verdict() {
        std::optional<Rejection> rejection;
        try {
            judge();
        } catch (const Rejected &rejected) {
            rejection = Rejection{rejected.code(), path_, rejected.what()};
        }
        const char *status = !rejection ? "ok" : is_quarantine(rejection->code) ? "quarantined" : "rejected";
        if (!rejection && fault_) {
            status = "faulty";
            rejection = fault_;
        }
        return {{"path", path_.string()},
                {"status", status},
                {"code", rejection ? code_text(rejection->code) : ""},
                {"reason", rejection ? rejection->message : ""},
                {"note", inspection_.note ? as_json(*inspection_.note) : json(nullptr)},
                {"warnings", warnings_},
                {"build_id", inspection_.build_id},
                {"linkage", as_json(read_linkage(path_))}};
    }

  private:
    // The file with the plugin.json that names it, beside it or one folder up, if any.
    static PluginCandidate candidate_of(const std::filesystem::path &path) {
        PluginCandidate candidate;
        std::error_code unreachable; // on error the path stays relative and is not found
        const std::filesystem::path plugin = std::filesystem::absolute(path, unreachable).lexically_normal();
        candidate.path = plugin.string();
        for (const std::filesystem::path &folder : {plugin.parent_path(), plugin.parent_path().parent_path()}) {
            try {
                const std::string file = (folder / "plugin.json").string();
                Manifest manifest = read_manifest(file);
                if (std::filesystem::path(manifest.library).lexically_normal() == plugin) {
                    candidate.manifest = file;
                    candidate.tune = std::move(manifest.tune);
                    candidate.signature = std::move(manifest.signature);
                    candidate.manifest_digest = manifest.digest;
                    break;
                }
            } catch (const Error &) { // NOLINT(bugprone-empty-catch): none, or not a good one, which plugin-ls tells
            }
        }
        return candidate;
    }

    // The hosts' cached results for the file in its current state.
    std::optional<Scan> learnt() {
        const Log nobody([](void * /*unused*/, int32_t /*unused*/, const char * /*unused*/) {}, nullptr);
        std::optional<Scan> scan;
        try {
            const HeldFile file = HeldDirectories().follow(candidate_.path);
            scan = ScanCache(settings_.cache_folder, nobody).find_any(remembered_path(file));
        } catch (const Rejected &) {
            return {}; // the file does not exist; inspection reports that
        }
        if (scan && scan->identity != inspection_.identity) {
            warnings_.push_back(fmt::format("'{}' was changed since a host scanned it. Open hosts keep the earlier "
                                            "result; the next host tries it again.",
                                            path_.filename().string()));
            scan.reset();
        }
        return scan;
    }

    // Checks in the order of a host. Throws Rejected.
    void judge() {
        const TrustPolicy trust = settings_.policy.trust();
        PathRules rules;
        for (const std::string &file : {candidate_.path, candidate_.manifest}) {
            if (!file.empty()) {
                judge_place(file, refuses_unsafe_places(strict_, trust), rules);
            }
        }
        if (trust.mode == Trust::require) {
            judge_signature(trust, rules);
        }
        if (inspection_.rejection) {
            throw Rejected(inspection_.rejection->code, inspection_.rejection->message);
        }
        if (trust.mode == Trust::warn) { // a file that is no plugin needs no signature
            judge_signature(trust, rules);
        }
        if (scan_ && scan_->rejection && is_quarantine(scan_->rejection->code)) {
            throw Rejected(scan_->rejection->code, scan_->rejection->message);
        }
        judge_weaknesses();
        warnings_.insert(warnings_.end(), inspection_.remarks.begin(), inspection_.remarks.end());
        judge_places_of_libraries(refuses_unsafe_places(strict_, trust), rules);
        warn_of_call_deaths();
        judge_libraries();
        read_registration();
        judge_tune_file();
    }

    void judge_place(const std::string &file, bool refuse, PathRules &rules) {
        const auto fault = core::judge_place(file, nullptr, rules);
        if (fault && refuse) {
            throw fault->rejection(file);
        }
        if (fault) {
            warnings_.push_back(fault->warning(file));
        }
    }

    void judge_signature(const TrustPolicy &trust, PathRules &rules) {
        if (inspection_.identity == FileIdentity{}) {
            return; // unreadable; inspection reports that
        }
        std::optional<TrustedKeys> keys;
        const TrustVerdict verdict =
            core::judge_signature(candidate_, sha256_of(PluginFile(path_)), trust, [&]() -> const TrustedKeys & {
                return keys.emplace(read_trusted_keys(settings_.trust_folders, rules));
            });
        if (keys) {
            warnings_.insert(warnings_.end(), keys->warnings.begin(), keys->warnings.end());
        }
        if (!verdict.is_trusted) {
            warnings_.push_back(verdict.why);
        }
    }

    void judge_weaknesses() {
        for (const std::string &weakness : inspection_.weaknesses) {
            if (strict_) {
                throw Rejected(RejectCode::unsafe_memory, weakness + " Strict mode refuses it.");
            }
            warnings_.push_back(weakness);
        }
    }

    void judge_places_of_libraries(bool refuse, PathRules &rules) {
        const HeldFile file = HeldDirectories().follow(candidate_.path);
        const auto fault =
            LibraryRules().judge(inspection_.libraries, file.directory->path(), settings_.library_path, "", rules);
        if (fault && refuse) {
            throw Rejected(fault->code, fmt::format("'{}' is not used, because {}", file.name, fault->what));
        }
        if (fault) {
            warnings_.push_back(fmt::format("'{}' is used, though {}", file.name, fault->what));
        }
    }

    void warn_of_call_deaths() {
        if (scan_) {
            for (const CallDeath &death : scan_->call_deaths) {
                warnings_.push_back(text_of(death));
            }
        }
    }

    void judge_libraries() {
        if (inspection_.names_auditors) {
            warnings_.push_back(
                fmt::format("'{}' names audit libraries for the dynamic loader (DT_AUDIT), so its libraries and "
                            "symbols were not checked: the check would run the audit libraries.\nLink it without "
                            "--audit and --depaudit; hosts do not run audit libraries.",
                            path_.filename().string()));
        } else if (const auto rejection = judge_dependencies(path_)) {
            throw Rejected(rejection->code, rejection->message);
        }
    }

    // Reads the registration if a host has tried the file.
    void read_registration() {
        if (!scan_ || scan_->transcript == nullptr) {
            return;
        }
        PluginIdentity identity{scan_->note->id, scan_->note->vendor, candidate_.path, true, scan_->note->devices};
        identity.abi = scan_->note->abi;
        Registrar registrar(std::move(identity), nullptr, signatures_);
        registrar.run([&](opdock_registry *registry) { return scan_->transcript->replay(registry); });
        warnings_.insert(warnings_.end(), registrar.left_out().begin(), registrar.left_out().end());
        registration_ = registrar.take();
    }

    void judge_tune_file() {
        const bool is_named = !candidate_.tune.empty();
        const std::string file = is_named ? candidate_.tune : tune_file_beside(candidate_.path);
        std::error_code unreachable;
        if (!is_named && !std::filesystem::exists(file, unreachable)) {
            return;
        }
        bool is_read = true;
        const std::vector<std::string> problems =
            registration_ ? problems_by_registration(file, is_read) : problems_of_text(file, is_read);
        if (settings_.tune == TuneMode::off) { // hosts do not read it
            warnings_.insert(warnings_.end(), problems.begin(), problems.end());
        } else if (strict_ && !problems.empty()) {
            const Rejection wrong =
                wrong_tune_file(path_, problems, "Strict mode refuses a plugin whose tune file is wrong.");
            throw Rejected(wrong.code, wrong.message);
        } else if (!problems.empty()) {
            fault_ = wrong_tune_file(path_, problems,
                                     is_read ? "Hosts take the plugin and leave these entries out."
                                             : "Hosts take the plugin and ignore the file.");
        }
        if (!registration_) {
            warnings_.push_back(fmt::format("the tune file's knobs and ops were not checked, because no host has "
                                            "scanned this plugin yet; run `plugin-ls --modules {}` to scan it",
                                            candidate_.path));
        }
    }

    // Checks names too, since the registration is known. Sets `is_read` to false if it is no tune file at all.
    std::vector<std::string> problems_by_registration(const std::string &file, bool &is_read) const {
        std::vector<const Implementation *> implementations;
        for (const auto &implementation : registration_->implementations) {
            implementations.push_back(implementation.get());
        }
        const PluginTuning tuning(file, true, implementations);
        is_read = tuning.has_file();
        return tuning.problems();
    }

    static std::vector<std::string> problems_of_text(const std::string &file, bool &is_read) {
        std::vector<std::string> problems;
        try {
            const TuneFile read = read_tune_file(file);
            for (const TuneProblem &problem : read.problems) {
                problems.push_back(text_of(read, problem));
            }
        } catch (const Error &error) {
            is_read = false;
            problems.emplace_back(error.what());
        }
        return problems;
    }

    const std::filesystem::path &path_;
    const CheckSettings &settings_;
    const bool strict_;
    std::vector<std::string> warnings_;
    std::optional<Rejection> fault_; // only strict mode rejects for it
    const PluginCandidate candidate_;
    LibraryVersions versions_;
    const Inspection inspection_;
    const std::optional<Scan> scan_; // null if it belongs to another file
    Signatures signatures_;
    std::optional<Registration> registration_;
};

} // namespace

CheckSettings check_settings(const Environment &environment, const std::string &system_file) {
    return {load_policy(environment, system_file).stack, environment.tune_mode(), trust_folders(environment),
            environment.cache_folder(), environment.library_path};
}

json check_file(const std::filesystem::path &path, const CheckSettings &settings) {
    return Check(path, settings).verdict();
}

} // namespace opdock::core
