#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "commands.hpp"
#include "files/reject.hpp"
#include "keys/trust.hpp"
#include "plugin_files.hpp"

namespace opdock::plugin_sign {
namespace {

using nlohmann::ordered_json;

const char *name_of(core::SignatureState state) {
    switch (state) {
    case core::SignatureState::valid:
        return "valid";
    case core::SignatureState::other_library:
        return "other_library";
    case core::SignatureState::other_manifest:
        return "other_manifest";
    case core::SignatureState::forged:
        return "wrong";
    case core::SignatureState::unknown_key:
        break;
    }
    return "unknown_key";
}

ordered_json as_json(const core::JudgedSignature &judged) {
    return {{"line", judged.signature.line},
            {"key", judged.signature.key_id},
            {"name", judged.key != nullptr ? ordered_json(judged.key->key.name) : ordered_json()},
            {"state", name_of(judged.state)}};
}

ordered_json as_json(const core::TrustedKey &trusted) {
    return {{"id", trusted.key.id()}, {"name", trusted.key.name}, {"path", trusted.path}};
}

} // namespace

int verify(const Request &request) {
    const PluginFiles files = plugin_files(request.subjects.front());
    const core::SignedFiles &signed_files = files.signed_files;
    const core::TrustedKeys keys = opdock::keys::keys_to_trust(request.public_keys, request.trusted);
    for (const std::string &warning : keys.warnings) {
        std::cerr << "plugin-sign: " << cli::printable(warning) << '\n';
    }
    ordered_json document = {
        {"schema", "opdock.plugin-sign.verify/1"},
        {"library", files.library},
        {"library_sha256", core::hex(signed_files.library)},
        {"manifest", files.manifest.empty() ? ordered_json() : ordered_json(files.manifest)},
        {"manifest_sha256", signed_files.manifest ? ordered_json(core::hex(*signed_files.manifest)) : ordered_json()},
        {"signature", signed_files.signature},
        {"status", "valid"},
        {"code", ""},
        {"reason", ""},
        {"key", nullptr},
        {"signatures", ordered_json::array()},
    };
    std::string line;
    bool is_valid = false;
    try {
        const auto judged = core::judge_signatures(signed_files, core::signatures_of(signed_files), keys);
        for (const core::JudgedSignature &one : judged) {
            document["signatures"].push_back(as_json(one));
        }
        const core::TrustedKey &by = core::check_judged(signed_files, judged, keys);
        document["key"] = as_json(by);
        line = files.library + ": valid, signed with " + by.key.text() + " of " + by.path;
        is_valid = true;
    } catch (const core::Rejected &rejected) {
        document["status"] = "rejected";
        document["code"] = core::code_text(rejected.code());
        document["reason"] = rejected.what();
        line = files.library + ": " + core::code_text(rejected.code()) + ": " + rejected.what();
    }
    if (request.json) {
        cli::print_in_order(document);
    } else if (!is_valid) {
        throw cli::Failure(line);
    } else {
        std::cout << cli::printable(line) << '\n';
    }
    return is_valid ? cli::exit_fine : cli::exit_absent;
}

} // namespace opdock::plugin_sign
