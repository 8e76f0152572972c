// Conversion of elements to double precision and back. An f64 stays unchanged.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "opdock/plugin.hpp"

namespace reference {

// Like opdock::visit_floating, but with double as well.
template<class Visitor>
auto visit_floating(DLDataType dtype, Visitor &&visit) {
    return opdock_dtype_pack(dtype) == OPDOCK_F64 ? visit(opdock::TypeTag<double>{})
                                                  : opdock::visit_floating(dtype, visit);
}

template<class T>
double wide(T value) {
    if constexpr (std::is_same_v<T, double>)
        return value;
    else
        return static_cast<double>(static_cast<float>(value));
}

// Rounds to nearest, ties to even, in one step. Going through float would round twice: a value just above a tie of a
// 16-bit type could land on the tie and then round down. A float rounded to odd never lands on a tie.
template<class T>
T rounded(double value) {
    if constexpr (std::is_same_v<T, double>) {
        return value;
    } else {
        auto narrow = static_cast<float>(value);
        if constexpr (!std::is_same_v<T, float>) {
            const auto found = static_cast<double>(narrow);
            if (found != value && opdock::detail::bits_of(narrow) % 2 == 0) {
                constexpr float infinity = std::numeric_limits<float>::infinity();
                narrow = std::nextafter(narrow, value > found ? infinity : -infinity);
            }
        }
        return T(narrow);
    }
}

template<class T>
void widen(opdock::Row<T> row, std::vector<double> &to) {
    to.resize(static_cast<std::size_t>(row.size()));
    std::int64_t i = 0;
    for (double &element : to)
        element = wide(row[i++]);
}

// Converts back, into a row with the same number of elements.
template<class T>
void narrow(const std::vector<double> &from, opdock::Row<T> row) {
    std::int64_t i = 0;
    for (double element : from)
        row[i++] = rounded<T>(element);
}

// output[i] = function(inputs[i]...), for any strides. An output may be one of the inputs.
template<class T, class Function, class... Inputs>
void map(opdock::TensorView<T> output, Function function, opdock::TensorView<const Inputs>... inputs) {
    const auto map_row = [&](opdock::Row<T> to, auto... from) {
        for (std::int64_t i = 0; i < to.size(); ++i)
            to[i] = rounded<T>(function(wide(from[i])...));
    };
    for (std::int64_t r = 0; r < output.rows(); ++r)
        map_row(output.row(r), inputs.row(r)...);
}

} // namespace reference
