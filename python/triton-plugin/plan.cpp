#include "plan.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

namespace opdock::triton {
namespace {

constexpr std::size_t most_argument_bytes = 4096; // per kernel
constexpr std::size_t most_steps = 16;
constexpr std::uintptr_t alignment = 16;

[[noreturn]] void decline(const std::string &reason) {
    throw Failure(OPDOCK_UNSUPPORTED, reason);
}

// Loads each kernel once per device and keeps it.
void *load(const Plugin &plugin, const Driver &driver, DLDevice device, std::size_t number) {
    static std::mutex &mutex = *new std::mutex;
    static auto &loaded = *new std::map<std::array<std::int64_t, 3>, void *>;
    const std::scoped_lock lock(mutex);
    void *&function = loaded[{device.device_type, device.device_id, static_cast<std::int64_t>(number)}];
    if (function == nullptr) {
        const Kernel &kernel = plugin.description.kernels[number];
        const std::string code = unpack_image(plugin.data, plugin.description.images[kernel.image]);
        void *found = nullptr;
        const Status status = driver.load(device.device_id, code, kernel.name, kernel.shared_bytes, &found);
        if (!status.ok()) {
            throw Failure(status.code(), kernel.name + " cannot be loaded: " + status.message());
        }
        function = found;
    }
    return function;
}

Driver::Grid grid_of(const Launch &launch, const std::vector<double> &values) {
    constexpr std::array<std::int64_t, 3> most = {2147483647, 65535, 65535};
    std::array<unsigned, 3> grid = {};
    for (std::size_t i = 0; i < grid.size(); ++i) {
        const std::int64_t size = evaluate_integer(launch.grid[i], values);
        if (size < 0 || size > most[i]) {
            decline("the grid of " + launch.function + ", '" + launch.grid[i].text + "', is " + std::to_string(size) +
                    ", but at most " + std::to_string(most[i]) + " blocks are possible");
        }
        grid[i] = static_cast<unsigned>(size);
    }
    return {grid[0], grid[1], grid[2]};
}

std::size_t size_of(Parameter::Type type) {
    switch (type) {
    case Parameter::Type::i1:
    case Parameter::Type::i8:
    case Parameter::Type::u8:
        return 1;
    case Parameter::Type::i16:
    case Parameter::Type::u16:
        return 2;
    case Parameter::Type::i32:
    case Parameter::Type::u32:
    case Parameter::Type::f32:
        return 4;
    default:
        return 8;
    }
}

template<class Number>
void store(const Parameter &parameter, double value, char *to) {
    const double rounded = std::floor(value);
    if constexpr (sizeof(Number) < sizeof(std::int64_t)) {
        if (rounded < static_cast<double>(std::numeric_limits<Number>::min()) ||
            rounded > static_cast<double>(std::numeric_limits<Number>::max())) {
            decline("the argument " + parameter.name + " is " + std::to_string(rounded) + ", but was compiled as " +
                    std::to_string(8 * sizeof(Number)) + " bits");
        }
    }
    const auto number = static_cast<Number>(rounded);
    std::memcpy(to, &number, sizeof number);
}

void store_number(const Parameter &parameter, double value, char *to) {
    switch (parameter.type) {
    case Parameter::Type::i1:
        *to = value != 0 ? 1 : 0;
        break;
    case Parameter::Type::i8:
        return store<std::int8_t>(parameter, value, to);
    case Parameter::Type::i16:
        return store<std::int16_t>(parameter, value, to);
    case Parameter::Type::i32:
        return store<std::int32_t>(parameter, value, to);
    case Parameter::Type::i64:
        return store<std::int64_t>(parameter, value, to);
    case Parameter::Type::u8:
        return store<std::uint8_t>(parameter, value, to);
    case Parameter::Type::u16:
        return store<std::uint16_t>(parameter, value, to);
    case Parameter::Type::u32:
        return store<std::uint32_t>(parameter, value, to);
    case Parameter::Type::u64:
        return store<std::uint64_t>(parameter, value, to);
    case Parameter::Type::f32: {
        const auto number = static_cast<float>(value);
        std::memcpy(to, &number, sizeof number);
        break;
    }
    case Parameter::Type::f64:
        std::memcpy(to, &value, sizeof value);
        break;
    default:
        throw std::logic_error("the description has a number that is a pointer");
    }
}

// Appends `size` bytes at the next multiple of `size` and returns their offset.
std::uint32_t append(std::vector<char> &arguments, std::size_t size) {
    const std::size_t begin = (arguments.size() + size - 1) / size * size;
    arguments.resize(begin + size);
    if (arguments.size() > most_argument_bytes) {
        decline("a kernel has more than " + std::to_string(most_argument_bytes) + " bytes of arguments");
    }
    return static_cast<std::uint32_t>(begin);
}

bool contains(const std::vector<std::int64_t> &places, std::size_t place) {
    for (const std::int64_t one : places) {
        if (static_cast<std::size_t>(one) == place) {
            return true;
        }
    }
    return false;
}

} // namespace

Plan::Plan(Situation &situation) : driver_(&Driver::of(situation.problem().device().device_type)) {
    const Implementation &implementation = situation.implementation();
    const std::vector<std::vector<Situation::Candidate>> candidates = situation.candidates();
    for (const Expression &bytes : implementation.workspaces) {
        const std::int64_t size = evaluate_integer(bytes, situation.values());
        workspaces_.push_back(reserve(static_cast<std::uint64_t>(size > 0 ? size : 0)));
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const Launch &launch = implementation.launches[i];
        if (!candidates[i].empty()) {
            steps_.push_back(make_step(situation, launch, candidates[i]));
        }
        if (!steps_.empty() && steps_.back().empty()) { // a launch without blocks
            steps_.pop_back();
        }
    }
    if (steps_.size() > most_steps) {
        decline("an op has more than " + std::to_string(most_steps) + " kernels");
    }
}

// Reserves bytes of the workspace and returns their offset.
std::uint64_t Plan::reserve(std::uint64_t bytes) {
    const std::uint64_t begin = workspace_size_;
    workspace_size_ += (bytes + 255) / 256 * 256;
    return begin;
}

Plan::Step Plan::make_step(const Situation &situation, const Launch &launch,
                           const std::vector<Situation::Candidate> &candidates) {
    const Driver::Grid grid = grid_of(launch, situation.values());
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
        return {};
    }
    Step step;
    for (const Situation::Candidate &candidate : candidates) {
        Choice choice;
        choice.function = load(situation.plugin(), *driver_, situation.problem().device(), candidate.number);
        choice.grid = grid;
        choice.threads = static_cast<unsigned>(candidate.kernel->threads);
        choice.shared_bytes = static_cast<unsigned>(candidate.kernel->shared_bytes);
        pack(situation, launch, *candidate.variant, choice);
        // Triton appends two pointers: memory for the kernel itself, and for a profiler.
        const std::uint32_t own = append(choice.arguments, sizeof(void *));
        append(choice.arguments, sizeof(void *));
        if (const std::uint64_t bytes = candidate.kernel->scratch_bytes; bytes != 0) {
            choice.scratch.push_back({own, reserve(bytes * grid.x * grid.y * grid.z)});
        }
        step.push_back(std::move(choice));
    }
    return step;
}

void Plan::pack(const Situation &situation, const Launch &launch, const Variant &variant, Choice &choice) const {
    const opdock_problem &problem = situation.problem().c();
    for (std::size_t i = 0; i < launch.parameters.size(); ++i) {
        const Parameter &parameter = launch.parameters[i];
        const bool is_absent = situation.is_absent(parameter);
        if (contains(variant.ones, i) || (is_absent && parameter.otherwise < 0)) {
            continue; // the code has it as a constant
        }
        const std::uint32_t at = append(choice.arguments, size_of(parameter.type));
        if (is_absent) {
            choice.scratch.push_back({at, workspaces_.at(static_cast<std::size_t>(parameter.otherwise))});
            continue;
        }
        const auto index = static_cast<std::size_t>(parameter.index);
        switch (parameter.kind) {
        case Parameter::Kind::tensor: {
            const std::uint32_t tensor = problem.tensor_offsets[index];
            choice.pointers.push_back({at, tensor});
            if (contains(variant.aligned, i)) {
                choice.aligned.push_back(tensor);
                choice.unless += (choice.unless.empty() ? "" : " and ") + parameter.name;
            }
            break;
        }
        case Parameter::Kind::workspace:
            choice.scratch.push_back({at, workspaces_.at(index)});
            break;
        default:
            store_number(parameter, evaluate(parameter.value, situation.values()), choice.arguments.data() + at);
        }
    }
    choice.unless =
        "no variant of " + launch.function + " takes the call: it needs " + choice.unless + " aligned to 16 bytes";
}

Status Plan::run(const Call &call) const {
    const opdock_call &c = call.call();
    std::array<const Choice *, most_steps> chosen; // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        chosen[i] = nullptr;
        for (const Choice &choice : steps_[i]) {
            std::uintptr_t pointers = 0;
            for (const std::uint32_t tensor : choice.aligned) {
                pointers |= reinterpret_cast<std::uintptr_t>(c.data[tensor]);
            }
            if (pointers % alignment == 0) {
                chosen[i] = &choice;
                break;
            }
        }
        if (chosen[i] == nullptr) {
            return unsupported(steps_[i].back().unless);
        }
    }
    alignas(16) std::array<char, most_argument_bytes> arguments; // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        const Choice &choice = *chosen[i];
        std::memcpy(arguments.data(), choice.arguments.data(), choice.arguments.size());
        for (const Pointer &pointer : choice.pointers) {
            std::memcpy(arguments.data() + pointer.offset, &c.data[pointer.tensor], sizeof(void *));
        }
        for (const Scratch &scratch : choice.scratch) {
            const void *place = static_cast<const char *>(c.workspace) + scratch.workspace_offset;
            std::memcpy(arguments.data() + scratch.offset, &place, sizeof place);
        }
        Status status = driver_->launch(call.device().device_id, choice.function, choice.grid, choice.threads,
                                        choice.shared_bytes, c.stream, arguments.data(), choice.arguments.size());
        if (!status.ok()) {
            return i == 0 || status.code() == OPDOCK_DEVICE_LOST ? std::move(status) : failed(status.message());
        }
    }
    return {};
}

} // namespace opdock::triton
