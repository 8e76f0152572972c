#include "tune/reading_order.hpp"

#include <algorithm>

namespace opdock::core {

ReadingOrder reading_order(const std::vector<std::vector<size_t>> &reads) {
    enum class State { unseen, open, done };
    struct Step {
        size_t thing;
        size_t next; // index of the next thing that it reads
    };
    ReadingOrder result;
    std::vector<State> states(reads.size(), State::unseen);
    std::vector<bool> in_circle(reads.size());
    std::vector<Step> path; // no recursion: chains may be long
    for (size_t root = 0; root < reads.size(); ++root) {
        if (states[root] != State::unseen) {
            continue;
        }
        states[root] = State::open;
        path.push_back({root, 0});
        while (!path.empty()) {
            Step &step = path.back();
            if (step.next == reads[step.thing].size()) {
                states[step.thing] = State::done;
                if (!in_circle[step.thing]) {
                    result.order.push_back(step.thing);
                }
                path.pop_back();
                continue;
            }
            const size_t read = reads[step.thing][step.next++];
            if (states[read] == State::unseen) {
                states[read] = State::open;
                path.push_back({read, 0});
            } else if (states[read] == State::open && !(in_circle[read] && in_circle[step.thing])) {
                std::vector<size_t> circle; // if both are in a circle already, breaking that one breaks this one too
                const auto begin =
                    std::find_if(path.begin(), path.end(), [read](const Step &one) { return one.thing == read; });
                for (auto one = begin; one != path.end(); ++one) {
                    circle.push_back(one->thing);
                    in_circle[one->thing] = true;
                }
                result.circles.push_back(std::move(circle));
            }
        }
    }
    return result;
}

} // namespace opdock::core
