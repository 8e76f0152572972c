#include <algorithm>
#include <iostream>

#include <sys/stat.h>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "keys/key_files.hpp"
#include "keys/plugin_signature.hpp"
#include "plugin_files.hpp"
#include "text/error.hpp"

namespace opdock::plugin_sign {
namespace {

// Signatures by other keys are kept, even those of an older library: they belong to others.
std::vector<core::FileSignature> signatures_in(const std::string &path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
        return {};
    }
    try {
        return core::read_signatures(path);
    } catch (const core::Error &error) {
        throw cli::Failure(std::string(error.what()) + "; move the file away to get a new one");
    }
}

} // namespace

int keygen(const Request &request) {
    std::cout << keys::make_key_files(request.subjects.front(), {request.passphrase_file, request.no_passphrase});
    return cli::exit_fine;
}

int sign(const Request &request) {
    const PluginFiles files = plugin_files(request.subjects.front());
    refuse_no_plugin(files);
    const std::string &path = files.signed_files.signature;
    std::vector<core::FileSignature> signatures = signatures_in(path);
    const keys::SecretKey key = keys::read_key_file(request.key, {request.passphrase_file});
    const core::FileSignature signature =
        keys::sign_plugin(files.signed_files.library, files.signed_files.manifest, key);
    std::erase_if(signatures, [&](const core::FileSignature &one) { return one.key_id == signature.key_id; });
    if (signatures.size() == core::most_signatures) {
        throw cli::Failure(path + ": it has " + std::to_string(core::most_signatures) +
                           " signatures already; remove those that are not needed");
    }
    signatures.push_back(signature);
    cli::replace_file(path, print(signatures));
    std::cout << cli::printable(path) << ": signed with " << key.public_key.text() << '\n';
    return cli::exit_fine;
}

} // namespace opdock::plugin_sign
