#include "signing.hpp"

#include <iostream>

#include "attachments.hpp"
#include "commands.hpp"
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
    if (!key_) {
        return plugin_pack::print(package, nullptr, recipients_);
    }
    Package signed_package = package;
    signed_package.attachments = with_signatures(std::move(signed_package.attachments), *key_);
    return plugin_pack::print(signed_package, &*key_, recipients_);
}

std::string Signing::text() const {
    return (key_ ? "signed with " + key_->public_key.text() : std::string("not signed")) +
           (recipients_.empty() ? "" : ", encrypted");
}

int keygen(const Request &request) {
    std::cout << keys::make_key_files(request.subject, {request.passphrase_file, request.no_passphrase});
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
