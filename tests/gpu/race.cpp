#include "race.hpp"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

namespace gpu_tests {
namespace {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

} // namespace

nlohmann::json race(const std::vector<Way> &ways, int rounds) {
    std::vector<std::vector<double>> times(ways.size());
    for (int round = -2; round < rounds; ++round) { // two rounds of warm-up
        for (size_t i = 0; i < ways.size(); ++i) {
            const size_t at = (i + static_cast<size_t>(round + 2)) % ways.size();
            const double time = ways[at].measure();
            if (round >= 0) {
                times[at].push_back(time);
            }
        }
    }
    nlohmann::json found;
    for (size_t at = 0; at < ways.size(); ++at) {
        std::vector<double> differences;
        std::vector<double> ratios;
        for (size_t i = 0; i < times[at].size(); ++i) {
            differences.push_back(times[at][i] - times[0][i]);
            ratios.push_back(times[at][i] / times[0][i]);
        }
        found[ways[at].name] = {
            {"microseconds", median(times[at])}, {"over_first", median(differences)}, {"ratio", median(ratios)}};
    }
    return found;
}

double microseconds_of(const std::function<void()> &work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace gpu_tests
