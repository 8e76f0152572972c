// Searches a set of suspects for those that make a test bad. The test receives the suspects that are active; the others
// are replaced.
//
// All active is bad, none active is good. The suspects are ordered, and halving finds the shortest prefix that is bad:
// its last member is named after log2(n) tests, wherever it is. That member is tested alone next. If it is bad alone,
// it is a culprit by itself; otherwise it needs others to be bad, and halving over those before it finds them. Finally
// everything but the culprits is tested; while that is bad, the search continues there. Every conclusion rests on a bad
// and a good test that differ by one suspect, so the number of culprits need not be known.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace opdock::plugin_bisect {

using Members = std::vector<size_t>; // indices of suspects, ascending

// A minimal set of suspects that are bad together: a single one, or several that interact.
struct Culprit {
    Members members;
    size_t tests = 0; // number of tests made when the last member was named
};

struct Found {
    std::vector<Culprit> culprits;
    bool rest_is_good = false; // everything but the culprits was tested and is good
};

class Search {
  public:
    // True if the test is bad when only these suspects are active. May throw, which ends the search. Called at most
    // once for the same members.
    using Test = std::function<bool(const Members &active)>;
    // Called with a culprit when its last member is named, before all others are tested.
    using Named = std::function<void(const Culprit &)>;

    Search(size_t suspects, Test test, Named named = {});

    // `first_only` ends the search as soon as the first culprit is named, without testing it alone.
    Found run(bool first_only);

    size_t tests() const { return tests_; }
    // The maximum number of tests left if no further culprit is found.
    size_t most_left() const { return most_left_; }

  private:
    bool is_bad(const Members &active);
    // Size of the shortest prefix of `rest` that is bad with `kept`; all of it is bad, `good` members are not.
    size_t shortest_bad(const Members &kept, const Members &rest, size_t good);
    // Finds one culprit among `candidates`, which are bad together. *good is the size of a prefix known to be good;
    // afterwards it is the number of candidates in such a prefix without the culprit's members.
    Culprit find(const Members &candidates, size_t *good, bool first_only);

    size_t suspects_;
    Test test_;
    Named named_;
    std::map<Members, bool> known_;
    size_t tests_ = 0;
    size_t most_left_ = 0;
};

} // namespace opdock::plugin_bisect
