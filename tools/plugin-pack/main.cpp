#include <iostream>

#include "cli/exit.hpp"
#include "commands.hpp"
#include "files/digest.hpp"
#include "keys/key_files.hpp"
#include "options.hpp"

namespace {

int run(const opdock::plugin_pack::Request &request) {
    using opdock::plugin_pack::Action;
    opdock::core::prepare_sodium();
    switch (request.action) {
    case Action::patch:
        return opdock::plugin_pack::patch(request);
    case Action::unpatch:
        return opdock::plugin_pack::unpatch(request);
    case Action::verify:
        return opdock::plugin_pack::verify(request);
    case Action::inspect:
        return opdock::plugin_pack::inspect(request);
    case Action::rebase:
        return opdock::plugin_pack::rebase(request);
    case Action::revert:
        return opdock::plugin_pack::revert(request);
    case Action::install:
        return opdock::plugin_pack::install(request);
    case Action::uninstall:
        return opdock::plugin_pack::uninstall(request);
    case Action::list:
        return opdock::plugin_pack::list(request);
    case Action::history:
        return opdock::plugin_pack::history(request);
    case Action::import_flagscale:
        return opdock::plugin_pack::import_flagscale(request);
    case Action::keygen:
        std::cout << opdock::keys::make_key_files(request.subject, {request.passphrase_file, request.no_passphrase});
        return opdock::cli::exit_fine;
    case Action::version:
        std::cout << opdock::plugin_pack::version_text() << '\n';
        return opdock::cli::exit_fine;
    case Action::help:
        break;
    }
    std::cout << opdock::plugin_pack::help_text(request.words);
    return opdock::cli::exit_fine;
}

} // namespace

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-pack", [&] {
        return run(opdock::plugin_pack::parse_request({argv + 1, argv + argc}));
    });
}
