// Searches a set of suspects for those that make a test bad. The test is given the suspects that are active; the others
// are replaced.
//
// All active is bad, none active is good. Suspects have an order, and halving finds the shortest beginning of it that
// is bad: its last member is named after log2(n) tests, whatever its place. That member alone is tested next. Where it
// is bad alone, it is a culprit by itself; else it takes others to be bad, and halving over those before it finds them.
// At last everything but the culprits is tested; while that is bad, the search goes on there. Every conclusion rests on
// a bad test and a good one that differ by one suspect, so that nothing has to be known of how many culprits there are.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace opdock::plugin_bisect {

using Members = std::vector<size_t>; // of the suspects, ascending

// Suspects that are bad together, and of which none may be missing for that: one, or several that interact.
struct Culprit {
    Members members;
    size_t tests = 0; // that were made when the last member was named
};

struct Found {
    std::vector<Culprit> culprits;
    bool rest_is_good = false; // everything but the culprits was tested
};

class Search {
  public:
    // Whether these are bad when they alone are active. May throw, which ends the search. The same members are asked
    // about once.
    using Test = std::function<bool(const Members &active)>;
    // Told of a culprit when its last member is named, before the test of all others.
    using Named = std::function<void(const Culprit &)>;

    Search(size_t suspects, Test test, Named named = {});

    // `first_only` ends at the first culprit, as soon as it is named: whether it is bad alone is not asked.
    Found run(bool first_only);

    size_t tests() const { return tests_; }
    // The most tests that are left if no further culprit is found.
    size_t most_left() const { return most_left_; }

  private:
    bool is_bad(const Members &active);
    // The size of the shortest beginning of `rest` that is bad beside `kept`; all of it is, and `good` members are not.
    size_t shortest_bad(const Members &kept, const Members &rest, size_t good);
    // One culprit among `candidates`, which are bad together. *good is how many of them are known to be good as a
    // beginning, and afterwards how many candidates but the culprit's members are.
    Culprit find(const Members &candidates, size_t *good, bool first_only);

    size_t suspects_;
    Test test_;
    Named named_;
    std::map<Members, bool> known_;
    size_t tests_ = 0;
    size_t most_left_ = 0;
};

} // namespace opdock::plugin_bisect
