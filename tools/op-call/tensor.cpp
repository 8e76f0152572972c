#include "op-call/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "op-call/element.hpp"

namespace opdock::op_call {
namespace {

// The distributions of the standard library differ between implementations; these do not.
class Random {
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}

    // [0, 1)
    double even() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

    // Box-Muller transform; uses one value of each pair.
    double normal() {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - even()));
        return radius * std::cos(2.0 * std::numbers::pi * even());
    }

  private:
    std::mt19937_64 engine_;
};

double random_value(Random &random, const MadeUp &made_up) {
    if (!made_up.range) {
        return made_up.dtype == OPDOCK_BOOL ? std::floor(2.0 * random.even()) : random.normal();
    }
    const auto [low, high] = *made_up.range;
    const double value = low + (high - low) * random.even();
    return is_integer(made_up.dtype) ? std::min(std::floor(value), high - 1) : value;
}

// From the first number of the range to the last; integers are rounded down.
double spaced_value(size_t index, size_t count, const MadeUp &made_up) {
    const auto [first, last] = *made_up.range;
    const auto steps = static_cast<double>(std::max<size_t>(count, 2) - 1);
    const double value = first + (last - first) * static_cast<double>(index) / steps;
    return is_integer(made_up.dtype) ? std::floor(value) : value;
}

size_t bytes_of(uint32_t dtype, const std::vector<int64_t> &shape) {
    try {
        return files::byte_size(dtype, shape);
    } catch (const files::Error &error) {
        throw NoMemory("not enough memory for " + type_text(dtype, shape) + ": " + error.what());
    }
}

std::byte *allocate(size_t bytes, const std::string &type) {
    // Linux may grant more memory than it has, and kills the process when that memory is used.
    const double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    try {
        if (static_cast<double>(bytes) < machine) {
            return static_cast<std::byte *>(::operator new(std::max<size_t>(bytes, 1), HostTensor::alignment));
        }
    } catch (const std::bad_alloc &) { // reported below
    }
    throw NoMemory("not enough memory for " + type + ", which takes " + std::to_string(bytes) + " bytes");
}

} // namespace

HostTensor::HostTensor(uint32_t type, std::vector<int64_t> dims)
    : dtype(type), shape(std::move(dims)), bytes(bytes_of(dtype, shape)),
      values(bytes / files::element_size(dtype) * values_in_element(dtype)),
      memory(allocate(bytes, type_text(dtype, shape))) {
    std::memset(memory.get(), 0, bytes);
}

HostTensor make_up(const MadeUp &made_up, uint64_t seed) {
    // Drawing a number takes longer than most ops take to process it, so after this many, a prime, they repeat.
    constexpr size_t most_drawn = 4'194'301;
    HostTensor tensor(made_up.dtype, made_up.shape);
    tensor.strides = made_up.strides;
    if (made_up.kind == MadeUp::Kind::zeros) {
        return tensor;
    }
    if (made_up.kind == MadeUp::Kind::spaced) {
        for (size_t i = 0; i < tensor.values; ++i) {
            store_element(tensor.dtype, tensor.memory.get(), i, spaced_value(i, tensor.values, made_up));
        }
        return tensor;
    }
    Random random(seed);
    const size_t drawn = std::min(tensor.values, most_drawn);
    for (size_t i = 0; i < drawn; ++i) {
        store_element(tensor.dtype, tensor.memory.get(), i,
                      made_up.kind == MadeUp::Kind::ones ? 1.0 : random_value(random, made_up));
    }
    const size_t period = drawn / values_in_element(tensor.dtype) * files::element_size(tensor.dtype);
    for (size_t done = period; done < tensor.bytes; done += period) {
        std::memcpy(tensor.memory.get() + done, tensor.memory.get(), std::min(period, tensor.bytes - done));
    }
    return tensor;
}

namespace {

files::TensorData read_file(const FilePart &file, const std::string &parameter) {
    try {
        return file.format == FilePart::Format::npy
                   ? files::read_npy(file.path)
                   : files::read_safetensors(file.path, file.tensor.empty() ? parameter : file.tensor);
    } catch (const files::Error &error) { // its message contains names from the file
        throw cli::Failure(cli::printable_line(error.what()));
    }
}

} // namespace

HostTensor read_tensor(const FilePart &file, const std::string &parameter) {
    const files::TensorData data = read_file(file, parameter);
    HostTensor tensor(data.dtype, data.shape);
    std::copy(data.bytes.begin(), data.bytes.end(), tensor.memory.get());
    return tensor;
}

files::TensorData to_file(const HostTensor &tensor, const std::string &name) {
    return {name, tensor.dtype, tensor.shape, {tensor.memory.get(), tensor.memory.get() + tensor.bytes}};
}

} // namespace opdock::op_call
