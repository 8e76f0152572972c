#include <iostream>

#include "cli/exit.hpp"
#include "commands.hpp"
#include "files/digest.hpp"
#include "keys/key_files.hpp"

namespace {

int run(const opdock::plugin_sign::Request &request) {
    using opdock::plugin_sign::Action;
    opdock::core::prepare_sodium();
    switch (request.action) {
    case Action::keygen:
        std::cout << opdock::keys::make_key_files(request.subjects.front(),
                                                  {request.passphrase_file, request.no_passphrase});
        return opdock::cli::exit_fine;
    case Action::sign:
        return opdock::plugin_sign::sign(request);
    case Action::verify:
        return opdock::plugin_sign::verify(request);
    case Action::digest:
        return opdock::plugin_sign::digest_files(request);
    case Action::version:
        std::cout << opdock::plugin_sign::version_text() << '\n';
        return opdock::cli::exit_fine;
    case Action::help:
        break;
    }
    std::cout << opdock::plugin_sign::help_text(request.words);
    return opdock::cli::exit_fine;
}

} // namespace

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-sign", [&] {
        return run(opdock::plugin_sign::parse_request({argv + 1, argv + argc}));
    });
}
