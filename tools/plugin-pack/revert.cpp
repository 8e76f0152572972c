#include <iostream>

#include <nlohmann/json.hpp>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "in_place.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {

using nlohmann::json;

namespace {

// Adds the move of the tree and those of its submodules.
void add_moves(const Adapted &adapted, bool back, std::vector<Move> &moves) {
    for (const Change &change : adapted.backend.changes.list) {
        const bool was = change.old_mode == submodule_mode, is = change.mode == submodule_mode;
        if (was != is || (is && change.path != change.old_path)) {
            throw cli::Failure(adapted.folder + ": the set of submodules changes, at " + path_json(change.path).dump() +
                               ", which --in-place does not support; use --out");
        }
    }
    Move move = move_to_adapted(adapted, adapted.folder);
    moves.push_back(back ? reversed(std::move(move)) : std::move(move));
    for (const Adapted &submodule : adapted.submodules) {
        add_moves(submodule, back, moves);
    }
}

} // namespace

int change_in_place(const Request &request, const Package &package, bool back) {
    std::vector<Adapted> all;
    std::vector<std::vector<Move>> moves; // per backend
    std::string in_the_way;
    for (const Backend *backend : requested_backends(package, request)) {
        const BackendPlace &place = *find_place(backend->name, request);
        require_top(place.folder);
        all.push_back(adapt(*backend, place));
        add_moves(all.back(), back, moves.emplace_back());
        for (const Move &move : moves.back()) {
            for (const std::string &path : paths_in_the_way(move)) {
                in_the_way += "\n  " + move.folder + "/" + core::visible_line(path);
            }
        }
    }
    if (!in_the_way.empty()) {
        throw cli::Failure(std::string("nothing was changed, because these files are neither as ") +
                               (back ? "the package makes them nor as they were before:"
                                     : "their commit has them nor as the package makes them:") +
                               in_the_way,
                           exit_conflict);
    }
    json backends = json::array();
    std::string text;
    for (size_t i = 0; i < moves.size(); ++i) {
        if (!request.dry_run) {
            for (const Move &move : moves[i]) {
                carry_out(move);
            }
        }
        const Backend &backend = all[i].backend;
        backends.push_back({{"name", backend.name},
                            {"folder", moves[i].front().folder},
                            {"commit", backend.changes.commit},
                            {"changes", count_of(backend.changes)},
                            {"conflicts", paths_json(all[i].conflicts)}});
        text += moves[i].front().folder + ": " + commit_text(backend) + (back ? " without " : " with ") +
                cli::counted(count_of(backend.changes), "change") +
                (request.dry_run ? ", not written (--dry-run)\n" : "\n");
    }
    if (request.json) {
        cli::print_document({{"schema", "opdock.plugin-pack.in-place/1"},
                             {"command", back ? "revert" : "unpatch"},
                             {"dry_run", request.dry_run},
                             {"backends", backends}});
    } else {
        std::cout << cli::printable(text);
    }
    return back ? cli::exit_fine : finish_with(all);
}

int revert(const Request &request) {
    const OpenedPackage opened = open_requested(request, {true, {}});
    require_open(opened, request);
    return change_in_place(request, opened.package, true);
}

} // namespace opdock::plugin_pack
