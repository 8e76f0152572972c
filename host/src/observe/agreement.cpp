#include "observe/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <spdlog/fmt/fmt.h>

#include "opdock/plugin.hpp"
#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

struct Tolerance {
    double norm;
    double element;
};

template<class T>
double element(std::span<const std::byte> bytes, size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return static_cast<double>(static_cast<float>(value));
}

template<class T>
std::string compare(std::span<const std::byte> expected, std::span<const std::byte> found, Tolerance tolerance) {
    const size_t count = expected.size() / sizeof(T);
    double squares = 0;
    double difference = 0;
    size_t finite = 0;
    for (size_t i = 0; i < count; ++i) {
        const double a = element<T>(expected, i);
        const double b = element<T>(found, i);
        if (!std::isfinite(a) || !std::isfinite(b)) {
            if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
                return fmt::format("element {} is {:.6g}, expected {:.6g}", i, b, a);
            }
            continue;
        }
        squares += a * a;
        difference += (a - b) * (a - b);
        ++finite;
    }
    if (finite == 0 || difference == 0) {
        return {};
    }
    const double mean = std::sqrt(squares / static_cast<double>(finite));
    for (size_t i = 0; i < count; ++i) {
        const double a = element<T>(expected, i);
        const double b = element<T>(found, i);
        if (std::isfinite(a) && std::abs(a - b) > tolerance.element * (std::abs(a) + mean)) {
            return fmt::format("element {} is {:.6g}, expected {:.6g}", i, b, a);
        }
    }
    if (std::sqrt(difference) > tolerance.norm * std::sqrt(squares)) {
        return fmt::format("the relative norm of the difference is {:.2g}, more than the allowed {:.2g}",
                           std::sqrt(difference / squares), tolerance.norm);
    }
    return {};
}

} // namespace

std::string disagreement(uint32_t dtype, std::span<const std::byte> expected, std::span<const std::byte> found) {
    // Most configs of most kernels differ only in speed, and a GPU's tensors have hundreds of millions of elements.
    if (expected.size() == found.size() && std::memcmp(expected.data(), found.data(), expected.size()) == 0) {
        return {};
    }
    const auto units = [](double last_place, double norm, double element) {
        return Tolerance{norm * last_place, element * last_place};
    };
    switch (dtype) {
    case OPDOCK_F32:
        return compare<float>(expected, found, units(0x1p-23, 1024, 16384));
    case OPDOCK_F16:
        return compare<half_t>(expected, found, units(0x1p-10, 2, 16));
    case OPDOCK_BF16:
        return compare<bfloat16_t>(expected, found, units(0x1p-7, 1, 16));
    case OPDOCK_E4M3:
        return compare<e4m3_t>(expected, found, units(0x1p-3, 0.5, 2));
    case OPDOCK_E5M2:
        return compare<e5m2_t>(expected, found, units(0x1p-2, 0.5, 2));
    default: {
        const auto different = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
        return different.first == expected.end() ? ""
                                                 : fmt::format("byte {} differs", different.first - expected.begin());
    }
    }
}

} // namespace opdock::core
