// What plugin-pack does, one function for each command. They print what came of it and return the exit code; what goes
// wrong they throw.
#pragma once

#include "package.hpp"
#include "request.hpp"
#include "signing.hpp"

namespace opdock::plugin_pack {

int patch(const Request &given);
int unpatch(const Request &given);
int revert(const Request &request);
int verify(const Request &request);
int inspect(const Request &request);
int rebase(const Request &request);
int keygen(const Request &request);
int import_flagscale(const Request &request);
int install(const Request &request);
int uninstall(const Request &request);
int list(const Request &request);
int history(const Request &request);
int tvm_ffi_plugin(const Request &request);

// The package that is asked about, by keys that are asked for or trusted.
OpenedPackage open_requested(const Request &request, const Taking &taking);
// The key that decrypts it; nothing where the request names none.
std::optional<keys::SecretKey> requested_key(const Request &request);
// Warns of keys that do not count.
Trust requested_trust(const Request &request);

// What git calls a commit: "v1.2", or the beginning of its id.
std::string describe(const std::string &repository, const std::string &commit);

// Prints what was written.
void report_package(const Request &request, const Package &package, const Signing &signing, size_t bytes,
                    const char *schema);

// "a, b"
std::string joined(const std::vector<std::string> &words);

} // namespace opdock::plugin_pack
