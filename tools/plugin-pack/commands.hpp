// The commands of plugin-pack, one function each. They print the result and return the exit code; errors are thrown as
// exceptions.
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

// Opens the package of the request with the requested or trusted keys.
OpenedPackage open_requested(const Request &request, const Taking &taking);
// The key for decryption; nothing if the request names none.
std::optional<keys::SecretKey> requested_key(const Request &request);
// The keys of the request; warns of keys that do not count.
Trust requested_trust(const Request &request);

// git's description of a commit: "v1.2", or the beginning of its id.
std::string describe(const std::string &repository, const std::string &commit);

// Prints a report of the written package.
void report_package(const Request &request, const Package &package, const Signing &signing, size_t bytes,
                    const char *schema);

// "a, b"
std::string joined(const std::vector<std::string> &words);

} // namespace opdock::plugin_pack
