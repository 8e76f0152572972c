// The result of the round trip: the files made from a commit and its changes.
#pragma once

#include <doctest/doctest.h>

#include "changes.hpp"
#include "conversions.hpp"
#include "made_repository.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {

inline std::map<std::string, std::string> rebuilt(const MadeRepository &made, const Changes &changes) {
    const Workshop workshop(objects_of(made.path()));
    const std::string tree = workshop.apply(changes.commit, changes.list);
    CHECK(tree == changes.tree);
    const test::TemporaryDirectory out;
    workshop.check_out(tree, out.path().string());
    restore_conversions(workshop, changes, out.path().string());
    return files_in(out.path());
}

} // namespace opdock::plugin_pack
