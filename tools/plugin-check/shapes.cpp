#include "shapes.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace opdock::plugin_check {
namespace {

using op_call::Parameter;
using op_call::Signature;

const std::vector<Size> plain_sizes = {
    {{}, 1},      {{1}, 1},      {{}, 7},         {{3}, 5},           {{2}, 16},     {{2, 3}, 17},
    {{5}, 64},    {{1}, 127},    {{3}, 128},      {{7}, 129},         {{4, 3}, 255}, {{33}, 257},
    {{2}, 4099},  {{16}, 1024},  {{1}, 8192},     {{64}, 1000},       {{1024}, 33},  {{3}, 65537},
    {{4099}, 48}, {{64}, 16384}, {{2, 3, 2}, 22}, {{1, 2, 1, 3}, 70},
};

// Different sizes each time: a fault at few lengths only is found by some run, if not by this one.
std::vector<Size> drawn_sizes(Random &random) {
    const auto between = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random.below(static_cast<size_t>(high - low + 1)));
    };
    std::vector<Size> sizes;
    for (const int64_t most : {64, 512, 6000}) {
        sizes.push_back({{between(1, 9)}, between(2, most)});
    }
    for (int i = 0; i < 2; ++i) {
        sizes.push_back({{between(1, 3)}, (int64_t{1} << between(8, 15)) + between(-1, 1)});
    }
    return sizes;
}

// The names of a signature's dims, and the one that is a row's length.
struct Names {
    std::set<std::string> all;     // without "..."
    std::set<std::string> in_list; // the names that only lists have
    std::string last;              // "" if there is only "..."
    bool has_leading = false;
};

Names names_of(const Signature &signature) {
    Names names;
    size_t most = 0;
    std::set<std::string> outside;
    for (const Parameter &input : signature.inputs) {
        const std::vector<std::string> dims = input.dims;
        for (const std::string &dim : dims) {
            for (const std::string &name : op_call::names_in(dim)) {
                if (name == "...") {
                    names.has_leading = true;
                } else {
                    names.all.insert(name);
                    (input.list ? names.in_list : outside).insert(name);
                }
            }
        }
        if (!input.optional && dims.size() > most && dims.back() != "...") {
            most = dims.size();
            const std::vector<std::string> of_last = op_call::names_in(dims.back());
            names.last = of_last.empty() ? "" : of_last.front();
        }
    }
    for (const std::string &name : outside) {
        names.in_list.erase(name);
    }
    return names;
}

bool has_lists(const Signature &signature) {
    return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                       [](const Parameter &input) { return input.list; });
}

// The other names get random sizes, often one that another name has, since signatures compare them.
Shape draw_shape(const Names &names, const Size &size, Random &random, double work) {
    static const std::vector<int64_t> small = {1, 2, 3, 4, 5, 8, 16, 17, 32, 64, 100, 129};
    Shape shape;
    shape.leading = size.leading;
    if (names.last.empty()) {
        shape.leading.push_back(size.last);
    } else {
        shape.names[names.last] = size.last;
    }
    int64_t rows = 1; // for a name to take where there is no "..."
    for (const int64_t dim : size.leading) {
        rows *= dim;
    }
    bool has_rows = names.has_leading;
    for (const std::string &name : names.all) {
        if (shape.names.contains(name)) {
            continue;
        }
        int64_t value = random.one_of(small);
        if (!has_rows && random.chance(0.5)) {
            value = rows;
            has_rows = true;
        } else if (!names.last.empty() && random.chance(0.35)) {
            auto known = shape.names.begin();
            std::advance(known, random.below(shape.names.size()));
            value = known->second;
        }
        shape.names[name] = work_of(shape) * static_cast<double>(value) > work ? 1 : value;
    }
    return shape;
}

// The elements of a list have different sizes.
Shapes draw_shapes(const Signature &signature, const Names &names, const Size &size, Random &random, double work) {
    Shapes shapes = {draw_shape(names, size, random, work)};
    if (!has_lists(signature)) {
        return shapes;
    }
    for (size_t count = random.below(4); count > 0; --count) {
        Shape next = shapes.front();
        for (const std::string &name : names.in_list) {
            next.names[name] = random.one_of(plain_sizes).last;
        }
        shapes.push_back(std::move(next));
    }
    return shapes;
}

// A name may occur in several dims of one tensor: f32[b, s, s].
double elements_of(const Signature &signature, const Shape &shape) {
    double most = 0;
    for (const Parameter &input : signature.inputs) {
        double elements = 1;
        for (const int64_t dim : dims_in(input.dims, shape)) {
            elements *= static_cast<double>(dim);
        }
        most = std::max(most, elements);
    }
    return most;
}

std::optional<Shapes> fitting(const Signature &signature, const Names &names, const Size &size, Random &random,
                              const Takes &takes, double work) {
    for (int attempt = 0; attempt < 40; ++attempt) {
        Shapes shapes = draw_shapes(signature, names, size, random, work);
        const bool is_too_large = std::any_of(shapes.begin(), shapes.end(), [&](const Shape &shape) {
            return elements_of(signature, shape) > 2 * most_work;
        });
        if (!is_too_large && takes(shapes)) {
            return shapes;
        }
    }
    return std::nullopt;
}

double work_of_all(const Shapes &shapes) {
    double work = 0;
    for (const Shape &shape : shapes) {
        work += work_of(shape);
    }
    return work;
}

} // namespace

std::vector<int64_t> dims_in(const std::vector<std::string> &dims, const Shape &shape) {
    std::vector<int64_t> sizes;
    for (const std::string &dim : dims) {
        if (dim == "...") {
            sizes.insert(sizes.end(), shape.leading.begin(), shape.leading.end());
        } else {
            sizes.push_back(std::max<int64_t>(op_call::evaluate(dim, shape.names).value_or(1), 0));
        }
    }
    return sizes;
}

bool is_empty(const Shapes &shapes) {
    return std::all_of(shapes.begin(), shapes.end(), [](const Shape &shape) { return work_of(shape) == 0; });
}

double work_of(const Shape &shape) {
    double work = 1;
    for (const int64_t dim : shape.leading) {
        work *= static_cast<double>(dim);
    }
    for (const auto &[name, value] : shape.names) {
        work *= static_cast<double>(value);
    }
    return work;
}

std::vector<Shapes> plain_shapes(const Signature &signature, Random &random, const Takes &takes) {
    std::vector<Size> sizes = plain_sizes;
    for (Size &size : drawn_sizes(random)) {
        sizes.push_back(std::move(size));
    }
    std::vector<Shapes> all = shapes_of(sizes, signature, random, takes, most_work);
    std::stable_sort(all.begin(), all.end(),
                     [](const Shapes &a, const Shapes &b) { return work_of_all(a) < work_of_all(b); });
    return all;
}

std::vector<Shapes> shapes_of(const std::vector<Size> &sizes, const Signature &signature, Random &random,
                              const Takes &takes, double work) {
    const Names names = names_of(signature);
    std::vector<Shapes> all;
    for (const Size &size : sizes) {
        if (std::optional<Shapes> shapes = fitting(signature, names, size, random, takes, work)) {
            all.push_back(std::move(*shapes));
        }
    }
    return all;
}

std::vector<Shapes> round_shapes(const Signature &signature, Random &random, const Takes &takes) {
    static const std::vector<int64_t> dims = {8, 16, 24, 32, 64};
    const Names names = names_of(signature);
    std::vector<Shapes> all;
    for (int attempt = 0; attempt < 200 && all.size() < 4; ++attempt) {
        Shape shape;
        shape.leading = {random.one_of(dims)};
        for (const std::string &name : names.all) {
            shape.names[name] = random.one_of(dims);
        }
        const Shapes shapes(has_lists(signature) ? 2 : 1, shape);
        if (elements_of(signature, shape) <= most_work / 8 && takes(shapes)) {
            all.push_back(shapes);
        }
    }
    return all;
}

std::vector<Shapes> empty_shapes(const Signature &signature, Random &random, const Takes &takes) {
    return shapes_of({{{0}, 8}, {{2, 0}, 3}, {{3}, 0}}, signature, random, takes, most_work);
}

std::vector<Shapes> rank_shapes(const Signature &signature, Random &random, const Takes &takes) {
    static const std::vector<int64_t> leading = {2, 3, 1, 2, 1, 3, 2, 2};
    const Names names = names_of(signature);
    std::vector<Shapes> all;
    for (size_t count = 0; names.has_leading && count <= leading.size(); ++count) {
        if (count > 0 && count < 4) { // the plain shapes have this many
            continue;
        }
        const auto with_leading = [&](Shapes shapes) {
            for (Shape &shape : shapes) {
                shape.leading.assign(leading.begin(), leading.begin() + static_cast<std::ptrdiff_t>(count));
            }
            return shapes;
        };
        constexpr double work = 1 << 12;
        if (const std::optional<Shapes> shapes = fitting(
                signature, names, {{1}, 5}, random, [&](const Shapes &one) { return takes(with_leading(one)); },
                work)) {
            all.push_back(with_leading(*shapes));
        }
    }
    return all;
}

std::vector<Shapes> square_shapes(const Signature &signature, const Takes &takes) {
    constexpr int64_t size = 17;
    const Names names = names_of(signature);
    Shape shape;
    shape.leading = {size};
    for (const std::string &name : names.all) {
        shape.names[name] = size;
    }
    const Shapes shapes(has_lists(signature) ? 2 : 1, shape);
    return takes(shapes) ? std::vector<Shapes>{shapes} : std::vector<Shapes>();
}

std::vector<Shapes> zero_shapes(const Signature &signature, Random &random, const Takes &takes) {
    const Names names = names_of(signature);
    std::vector<Shapes> all;
    for (const std::string &name : names.all) {
        if (names.all.size() == 1 && name == names.last) {
            continue; // as in empty_shapes(); beside other names, it alone has size 0 here
        }
        const Takes takes_without = [&](const Shapes &shapes) {
            Shapes without = shapes;
            for (Shape &shape : without) {
                shape.names[name] = 0;
            }
            return takes(without);
        };
        if (std::optional<Shapes> shapes = fitting(signature, names, {{3}, 16}, random, takes_without, most_work)) {
            for (Shape &shape : *shapes) {
                shape.names[name] = 0;
            }
            all.push_back(std::move(*shapes));
        }
    }
    return all;
}

} // namespace opdock::plugin_check
