#include "description.hpp"

#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "inflate.hpp"

namespace opdock::triton {
namespace {

constexpr std::int64_t format = 2;

[[noreturn]] void malformed() {
    throw std::runtime_error("the description in the plugin is damaged");
}

// Every item is an 8-byte number, or a text preceded by its length.
class Reader {
  public:
    explicit Reader(std::string_view from) : from_(from) {}

    template<class Number>
    Number number() {
        static_assert(sizeof(Number) == 8);
        Number value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::int64_t integer() { return number<std::int64_t>(); }
    std::uint64_t size() {
        const std::int64_t value = integer();
        if (value < 0) {
            malformed();
        }
        return static_cast<std::uint64_t>(value);
    }
    std::string text() { return std::string(take(size())); }
    template<class Enumeration>
    Enumeration one_of() {
        const std::uint64_t value = size();
        if (value >= static_cast<std::uint64_t>(Enumeration::end)) {
            malformed();
        }
        return static_cast<Enumeration>(value);
    }
    // Reads a list preceded by its length. Each element takes at least 8 bytes, so a wrong length cannot loop for long.
    template<class Function>
    auto list(Function &&element) {
        std::vector<std::invoke_result_t<Function>> result;
        for (std::uint64_t i = size(); i > 0; --i) {
            result.push_back(element());
        }
        return result;
    }
    std::vector<std::int64_t> integers() {
        return list([this] { return integer(); });
    }
    // Reads indices into a list of `count` elements.
    std::vector<std::int64_t> places(std::size_t count) {
        std::vector<std::int64_t> result = integers();
        for (const std::int64_t place : result) {
            if (place < 0 || static_cast<std::size_t>(place) >= count) {
                malformed();
            }
        }
        return result;
    }
    Expression expression() {
        std::string text_of = text();
        return {std::move(text_of), list([this] {
                    const auto operation = one_of<Operation>();
                    return Step{operation, number<double>()};
                })};
    }
    std::vector<Expression> expressions() {
        return list([this] { return expression(); });
    }

  private:
    std::string_view take(std::uint64_t count) {
        if (count > from_.size()) {
            malformed();
        }
        const std::string_view taken = from_.substr(0, count);
        from_.remove_prefix(count);
        return taken;
    }

    std::string_view from_;
};

Launch read_launch(Reader &reader, std::size_t tuples, std::size_t architectures, std::size_t kernels) {
    Launch launch;
    launch.function = reader.text();
    launch.when = reader.expression();
    launch.grid = reader.expressions();
    launch.parameters = reader.list([&] {
        Parameter parameter;
        parameter.name = reader.text();
        parameter.kind = reader.one_of<Parameter::Kind>();
        parameter.type = reader.one_of<Parameter::Type>();
        parameter.index = reader.integer();
        parameter.otherwise = reader.integer();
        parameter.value = reader.expression();
        return parameter;
    });
    launch.variants = reader.list([&] {
        Variant variant;
        variant.aligned = reader.places(launch.parameters.size());
        variant.divisible = reader.places(launch.parameters.size());
        variant.ones = reader.places(launch.parameters.size());
        return variant;
    });
    launch.key_names = reader.list([&] { return reader.text(); });
    launch.keys = reader.expressions();
    launch.key_values = reader.list([&] { return reader.list([&] { return reader.number<double>(); }); });
    launch.kernels = reader.integers();
    bool is_sound = launch.grid.size() == 3 && launch.key_names.size() == launch.keys.size() &&
                    launch.kernels.size() == tuples * architectures * launch.variants.size() * launch.key_values.size();
    for (const std::vector<double> &values : launch.key_values) {
        is_sound = is_sound && values.size() == launch.keys.size();
    }
    for (const std::int64_t kernel : launch.kernels) {
        is_sound = is_sound && kernel >= -1 && kernel < static_cast<std::int64_t>(kernels);
    }
    if (!is_sound) {
        malformed();
    }
    return launch;
}

Implementation read_implementation(Reader &reader, const Description &plugin) {
    Implementation one;
    for (std::string *text : {&one.op, &one.signature, &one.impl_id, &one.device, &one.dtypes, &one.architectures}) {
        *text = reader.text();
    }
    one.priority = reader.integer();
    one.is_deterministic = reader.integer() != 0;
    one.needs_contiguous = reader.integer() != 0;
    one.knobs = reader.list([&] {
        std::string name = reader.text();
        const std::int64_t minimum = reader.integer();
        return Knob{std::move(name), minimum, reader.integer()};
    });
    one.dtype_sources = reader.list([&] {
        const std::int64_t parameter = reader.integer();
        return DtypeSource{parameter, reader.integer()};
    });
    one.dtype_tuples = reader.list([&] { return reader.integers(); });
    one.architecture_numbers = reader.places(plugin.architectures.size());
    one.variables = reader.list([&] {
        const auto kind = reader.one_of<Variable::Kind>();
        std::string name = reader.text();
        const std::int64_t first = reader.integer();
        return Variable{kind, std::move(name), first, reader.integer()};
    });
    one.where = reader.expressions();
    one.configs = reader.list([&] { return reader.integers(); });
    one.heuristics = reader.list([&] {
        const std::int64_t knob = reader.integer();
        return Implementation::Heuristic{knob, reader.expression()};
    });
    one.workspaces = reader.expressions();
    one.launches = reader.list([&] {
        return read_launch(reader, one.dtype_tuples.size(), one.architecture_numbers.size(), plugin.kernels.size());
    });
    for (const std::vector<std::int64_t> &config : one.configs) {
        if (config.size() != one.knobs.size()) {
            malformed();
        }
    }
    for (const Implementation::Heuristic &heuristic : one.heuristics) {
        if (heuristic.knob < 0 || static_cast<std::size_t>(heuristic.knob) >= one.knobs.size()) {
            malformed();
        }
    }
    if (one.configs.empty()) {
        malformed();
    }
    return one;
}

struct Sizes {
    std::uint64_t packed, unpacked;
};

Sizes read_sizes(std::string_view data) {
    Reader reader(data);
    const std::uint64_t packed = reader.size();
    return {packed, reader.size()};
}

std::string_view slice(std::string_view data, std::uint64_t offset, std::uint64_t size) {
    if (offset > data.size() || size > data.size() - offset) {
        malformed();
    }
    return data.substr(offset, size);
}

} // namespace

Description read_description(std::string_view data) {
    const Sizes sizes = read_sizes(data);
    const std::string text = inflate(slice(data, 16, sizes.packed), sizes.unpacked);
    Reader reader(text);
    if (reader.integer() != format) {
        malformed();
    }
    Description plugin;
    plugin.tune_version = reader.integer();
    plugin.architectures = reader.list([&] {
        Architecture architecture;
        architecture.name = reader.text();
        architecture.serves = reader.list([&] { return reader.text(); });
        architecture.toolkit = reader.integer();
        return architecture;
    });
    plugin.images = reader.list([&] {
        const std::uint64_t offset = reader.size();
        const std::uint64_t packed_size = reader.size();
        return Image{offset, packed_size, reader.size()};
    });
    plugin.kernels = reader.list([&] {
        Kernel kernel;
        kernel.image = reader.size();
        kernel.name = reader.text();
        for (std::uint64_t *size : {&kernel.threads, &kernel.shared_bytes, &kernel.scratch_bytes}) {
            *size = reader.size();
        }
        if (kernel.image >= plugin.images.size()) {
            malformed();
        }
        return kernel;
    });
    plugin.implementations = reader.list([&] { return read_implementation(reader, plugin); });
    return plugin;
}

std::string unpack_image(std::string_view data, const Image &image) {
    const std::uint64_t begin = 16 + read_sizes(data).packed;
    return inflate(slice(slice(data, begin, data.size() - begin), image.offset, image.packed_size), image.size);
}

} // namespace opdock::triton
