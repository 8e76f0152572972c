#include "signing.hpp"

#include "keys/key_files.hpp"

namespace opdock::plugin_pack {

Signing::Signing(const Request &request) {
    if (!request.no_key) {
        key_ = keys::read_key_file(request.key, {request.passphrase_file});
    }
    for (const std::string &path : request.recipients) {
        recipients_.push_back(core::read_public_key(path));
    }
}

std::string Signing::print(const Package &package) const {
    return plugin_pack::print(package, key_ ? &*key_ : nullptr, recipients_);
}

std::string Signing::text() const {
    return (key_ ? "signed with " + key_->public_key.text() : std::string("signed by nobody")) +
           (recipients_.empty() ? "" : ", encrypted");
}

} // namespace opdock::plugin_pack
