#include "search.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace opdock::plugin_bisect {
namespace {

Members both(const Members &kept, const Members &rest, size_t count) {
    Members all = kept;
    all.insert(all.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(all.begin(), all.end());
    return all;
}

Members without(const Members &all, const Members &some) {
    Members left;
    std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(left));
    return left;
}

} // namespace

Search::Search(size_t suspects, Test test, Named named)
    : suspects_(suspects), test_(std::move(test)), named_(std::move(named)) {
    Members all(suspects);
    std::iota(all.begin(), all.end(), size_t{0});
    known_ = {{{}, false}, {all, true}};
}

bool Search::is_bad(const Members &active) {
    if (const auto known = known_.find(active); known != known_.end()) {
        return known->second;
    }
    const bool bad = test_(active);
    known_.emplace(active, bad);
    ++tests_;
    return bad;
}

size_t Search::shortest_bad(const Members &kept, const Members &rest, size_t good) {
    size_t bad = rest.size();
    while (bad - good > 1) {
        most_left_ = static_cast<size_t>(std::bit_width(bad - good - 1)) + 2; // then it alone, and all others
        const size_t middle = good + (bad - good) / 2;
        (is_bad(both(kept, rest, middle)) ? bad : good) = middle;
    }
    return bad;
}

Culprit Search::find(const Members &candidates, size_t *good, bool first_only) {
    Culprit culprit;
    Members rest = candidates;
    size_t begin = *good;
    do {
        const size_t size = shortest_bad(culprit.members, rest, begin);
        *good = culprit.members.empty() ? size - 1 : *good - 1; // later members lie in that beginning
        culprit.members.push_back(rest[size - 1]);
        std::sort(culprit.members.begin(), culprit.members.end());
        culprit.tests = tests_;
        rest.resize(size - 1);
        begin = 0;
        most_left_ = 2;
    } while (!first_only && !is_bad(culprit.members));
    return culprit;
}

Found Search::run(bool first_only) {
    Found found;
    Members candidates(suspects_);
    std::iota(candidates.begin(), candidates.end(), size_t{0});
    size_t good = 0;
    while (is_bad(candidates)) {
        found.culprits.push_back(find(candidates, &good, first_only));
        if (named_) {
            named_(found.culprits.back());
        }
        if (first_only) {
            return found;
        }
        candidates = without(candidates, found.culprits.back().members);
        most_left_ = 1;
    }
    found.rest_is_good = true;
    return found;
}

} // namespace opdock::plugin_bisect
