#include "placed_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "op-call/element.hpp"
#include "opdock/plugin.hpp"
#include "tensor_files.hpp"

namespace numerics {

namespace {

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t> &shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;)
        strides[d - 1] = strides[d] * shape[d];
    return strides;
}

} // namespace

PlacedTensor::PlacedTensor(std::uint32_t dtype, std::vector<std::int64_t> shape,
                           const std::optional<std::vector<std::int64_t>> &strides)
    : dtype_(dtype), shape_(std::move(shape)), strides_(strides ? *strides : contiguous_strides(shape_)),
      element_size_(opdock::files::element_size(dtype)) {
    std::int64_t lowest = 0, highest = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
        count_ *= static_cast<std::size_t>(shape_[d]);
        const std::int64_t reach = (shape_[d] - 1) * strides_[d];
        (reach < 0 ? lowest : highest) += reach;
    }
    const std::size_t span = count_ == 0 ? 0 : static_cast<std::size_t>(highest - lowest + 1) * element_size_;
    size_ = guard + span + guard;
    memory_.reset(static_cast<std::byte *>(::operator new(size_, alignment)));
    std::fill_n(memory_.get(), size_, fill);
    if (count_ > 0)
        first_ = memory_.get() + guard + static_cast<std::size_t>(-lowest) * element_size_;

    descriptor_.data = first_;
    descriptor_.device = {kDLCPU, 0};
    descriptor_.ndim = static_cast<int>(shape_.size());
    descriptor_.dtype = opdock_dtype_unpack(dtype);
    descriptor_.shape = shape_.data();
    descriptor_.strides = strides ? strides_.data() : nullptr;
}

template<class Visit>
void PlacedTensor::for_each(Visit visit) const {
    std::vector<std::int64_t> index(shape_.size(), 0);
    for (std::size_t i = 0; i < count_; ++i) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < index.size(); ++d)
            offset += index[d] * strides_[d];
        visit(first_ + offset * static_cast<std::int64_t>(element_size_));
        for (std::size_t d = index.size(); d-- > 0 && ++index[d] == shape_[d];)
            index[d] = 0;
    }
}

void PlacedTensor::put(std::span<const std::byte> elements) {
    if (elements.size() != count_ * element_size_)
        throw std::logic_error("a tensor of " + std::to_string(count_ * element_size_) + " bytes was given " +
                               std::to_string(elements.size()));
    for_each([from = elements.data(), this](std::byte *element) mutable {
        std::memcpy(element, from, element_size_);
        from += element_size_;
    });
}

std::vector<double> PlacedTensor::values() const {
    std::vector<double> values;
    values.reserve(count_);
    for_each([&](const std::byte *element) { values.push_back(opdock::op_call::load_element(dtype_, element, 0)); });
    return values;
}

bool PlacedTensor::guards_intact() const {
    std::vector<std::byte> rest = bytes();
    for_each(
        [&](const std::byte *element) { std::fill_n(rest.begin() + (element - memory_.get()), element_size_, fill); });
    return std::all_of(rest.begin(), rest.end(), [](std::byte byte) { return byte == fill; });
}

} // namespace numerics
