// The activations and their derivatives as functions of one number.
#pragma once

#include <cmath>

namespace reference {

inline double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

inline double silu_of(double x) {
    return x * sigmoid(x);
}
inline double silu_slope(double x) {
    const double s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

inline constexpr double qgelu_steepness = 1.702;
inline double qgelu_of(double x) {
    return x * sigmoid(qgelu_steepness * x);
}
inline double qgelu_slope(double x) {
    const double s = sigmoid(qgelu_steepness * x);
    return s * (1 + qgelu_steepness * x * (1 - s));
}

// The tanh form: 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x * sigmoid(2u).
inline constexpr double gelu_scale = 0.79788456080286535588;
inline constexpr double gelu_cubic = 0.044715;
inline double gelu_of(double x) {
    return x * sigmoid(2 * gelu_scale * (x + gelu_cubic * x * x * x));
}
inline double gelu_slope(double x) {
    const double s = sigmoid(2 * gelu_scale * (x + gelu_cubic * x * x * x));
    return s + x * s * (1 - s) * 2 * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

inline double relu_of(double x) {
    return x < 0 ? 0 : x;
} // a NaN stays one
inline double relu_slope(double x) {
    return x > 0 ? 1 : 0;
}

inline double srelu_of(double x) {
    return relu_of(x) * relu_of(x);
}
inline double srelu_slope(double x) {
    return 2 * relu_of(x);
}

} // namespace reference
