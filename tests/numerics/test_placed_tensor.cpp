#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "opdock/abi/dtype.h"
#include "placed_tensor.hpp"

using namespace numerics;

namespace {

std::span<const std::byte> bytes_of(const std::vector<float> &values) {
    return std::as_bytes(std::span(values));
}

float *data(const PlacedTensor &tensor) {
    return static_cast<float *>(tensor.descriptor()->data);
}

} // namespace

TEST_CASE("placement: elements come back in order whatever the strides") {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    for (const std::vector<std::int64_t> &strides :
         {std::vector<std::int64_t>{3, 1}, {5, 1}, {1, 2}, {6, 2}, {3, -1}, {-3, -1}}) {
        PlacedTensor tensor(OPDOCK_F32, {2, 3}, strides);
        tensor.put(bytes_of(values));
        CHECK(tensor.values() == std::vector<double>{1, 2, 3, 4, 5, 6});
        CHECK(data(tensor)[strides[0] + 2 * strides[1]] == 6);
    }
}

TEST_CASE("placement: a tensor without elements has no data") {
    PlacedTensor tensor(OPDOCK_F32, {2, 0}, std::nullopt);
    CHECK(tensor.descriptor()->data == nullptr);
    CHECK(tensor.values().empty());
    CHECK(tensor.guards_intact());
}

TEST_CASE("placement: elements that were never written are NaN") {
    for (std::uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16})
        CHECK(std::isnan(PlacedTensor(dtype, {1}, std::nullopt).values()[0]));
}

TEST_CASE("placement: a write to a gap, before the first or past the last element is noticed") {
    for (std::int64_t at : {-1, 3, 8}) {
        CAPTURE(at);
        PlacedTensor tensor(OPDOCK_F32, {2, 3}, std::vector<std::int64_t>{5, 1});
        tensor.put(bytes_of({1, 2, 3, 4, 5, 6}));
        CHECK(tensor.guards_intact());
        data(tensor)[at] = 0;
        CHECK_FALSE(tensor.guards_intact());
    }
}

TEST_CASE("placement: contiguous tensors are aligned as an allocator's memory is") {
    CHECK(reinterpret_cast<std::uintptr_t>(PlacedTensor(OPDOCK_BF16, {3}, std::nullopt).descriptor()->data) % 256 == 0);
}
