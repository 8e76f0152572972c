// Random numbers that depend on the seed alone, on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <vector>

namespace opdock::plugin_check {

// A seed for a part of something that has this seed.
inline uint64_t derive(uint64_t seed, std::string_view part) {
    uint64_t hash = seed ^ 0xcbf29ce484222325u;
    for (const char c : part) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    return hash;
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    // SplitMix64.
    uint64_t bits() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    // [0, 1)
    double even() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    double even(double low, double high) { return low + (high - low) * even(); }
    // 0 to count - 1
    size_t below(size_t count) { return static_cast<size_t>(even() * static_cast<double>(count)); }
    bool chance(double probability) { return even() < probability; }
    // Standard normal, by the Box-Muller transform.
    double normal() {
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        const double radius = std::sqrt(-2.0 * std::log(1.0 - even()));
        const double angle = 2.0 * std::numbers::pi * even();
        spare_ = radius * std::sin(angle);
        has_spare_ = true;
        return radius * std::cos(angle);
    }
    template<class T>
    const T &one_of(const std::vector<T> &list) {
        return list[below(list.size())];
    }

  private:
    uint64_t state_;
    double spare_ = 0;
    bool has_spare_ = false;
};

} // namespace opdock::plugin_check
