#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/status_line.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {

int rebase(const Request &request) {
    cli::check_output(request.out, request.force);
    const OpenedPackage opened = open_requested(request, take_all());
    require_open(opened, request);
    require_backends(opened.package, request);
    if (!opened.recipients.empty() && request.recipients.empty()) {
        throw cli::UsageError("the package is encrypted; name the recipients of the new one with --recipient");
    }
    const Signing signing(request);
    Package package = opened.package;
    package.serial = request.serial.value_or(package.serial + 1);
    std::string conflicts;
    cli::StatusLine status;
    for (Backend &backend : package.backends) {
        const BackendPlace *place = find_place(backend.name, request);
        if (place == nullptr) { // stays on its commit
            continue;
        }
        status.show(backend.name + ": merging " + cli::counted(count_of(backend.changes), "change"));
        Adapted adapted = adapt(backend, *place);
        for (const std::string &path : adapted.conflicts) {
            conflicts += "\n  " + backend.name + "/" + core::visible_line(path);
        }
        backend = std::move(adapted.backend);
    }
    status.clear();
    if (!conflicts.empty()) {
        throw cli::Failure("the changes conflict with the new commit in" + conflicts +
                               "\n`plugin-pack unpatch --3way` writes these files with both sides in them",
                           exit_conflict);
    }
    const std::string text = signing.print(package);
    cli::write_output(request.out, request.force, text);
    report_package(request, package, signing, text.size(), "opdock.plugin-pack.rebase/1");
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
