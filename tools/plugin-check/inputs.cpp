#include "inputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare.hpp"
#include "op-call/element.hpp"
#include "signature/standard_ops.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::HostTensor;
using op_call::Parameter;
using op_call::Signature;
using op_call::Tensors;

bool begins_with(const std::string &text, std::string_view beginning) {
    return std::string_view(text).starts_with(beginning);
}

bool is_float(uint32_t dtype) {
    return !op_call::is_integer(dtype);
}

// --- meanings of the inputs of the standard ops ----------------------------------------------------------------------

enum class Meaning {
    number,     // drawn by the case's kind of values
    class_of,   // an index into the last dim of the op's logits, or ignore_index
    choice,     // 0 or 1
    positive,   // a factor or a variance
    small,      // sums of products are about 1, and their differences still have digits
    step,       // a whole number, at least 1
    never,      // 0: a set flag would make the op do nothing
    random_key, // any number, at least 0
    angle,
    log_probability,
    start,  // of a sequence among the tokens of another input
    slot,   // a place in a paged cache, each used once, or -1
    expert, // an index below the attribute `experts`, or -1
    place,  // a choice's place among all of them, each used once, or -1 minus such a place
    count,  // from 0 up to the size of the last dim
    row,    // of the input `cos`
    index,  // of any other input
};

struct Rule {
    const char *op; // beginning of the op's name
    const char *input;
    Meaning meaning;
};

const std::vector<Rule> rules = {
    {"cross_entropy_", "target", Meaning::class_of},
    {"fused_cross_entropy", "target", Meaning::class_of},
    {"fused_linear_cross_entropy", "target", Meaning::class_of},
    {"fused_linear_cross_entropy", "scale", Meaning::positive},
    {"fused_linear_cross_entropy", "input", Meaning::small},
    {"fused_linear_cross_entropy", "weight", Meaning::small},
    {"scaled_masked_softmax_", "mask", Meaning::choice},
    {"dropout_bwd", "mask", Meaning::choice},
    {"dropout_fwd", "rng_state", Meaning::random_key},
    {"fused_rope_", "freqs", Meaning::angle},
    {"attention_", "query_starts", Meaning::start},
    {"attention_", "key_starts", Meaning::start},
    {"grouped_linear_", "starts", Meaning::start},
    {"kv_cache_append", "slots", Meaning::slot},
    {"moe_align", "indices", Meaning::expert},
    {"moe_", "places", Meaning::place},
    {"kl_div", "target", Meaning::positive}, // a probability, or the logarithm of something
    {"jsd", "input", Meaning::log_probability},
    {"jsd", "target", Meaning::log_probability},
    {"rope_", "positions", Meaning::row},
    {"qk_norm_rope", "positions", Meaning::row},
    {"sample_", "rng_state", Meaning::random_key},
    {"sample_", "k", Meaning::count},
    {"sample_", "p", Meaning::positive}, // above 1, everything is kept
    {"quantize", "scale", Meaning::positive},
    {"quantize", "amax", Meaning::positive},
    {"dequantize", "scale_inv", Meaning::positive},
    {"multi_tensor_", "lr", Meaning::positive},
    {"multi_tensor_", "step", Meaning::step},
    {"multi_tensor_", "noop", Meaning::never},
    {"multi_tensor_", "found_inf", Meaning::never},
    {"multi_tensor_", "scale", Meaning::positive},
    {"multi_tensor_", "exp_avg_sq", Meaning::positive},
};

const Rule *rule_of(const Signature &signature, const Parameter &input) {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule &rule) {
        return begins_with(signature.op, rule.op) && input.name == rule.input;
    });
    return found == rules.end() ? nullptr : &*found;
}

Meaning meaning_of(const Signature &signature, const Parameter &input, uint32_t dtype) {
    if (const Rule *rule = rule_of(signature, input)) {
        return rule->meaning;
    }
    if (dtype == OPDOCK_E8M0) { // it has no other numbers
        return Meaning::positive;
    }
    if (is_float(dtype)) {
        return Meaning::number;
    }
    return dtype == OPDOCK_BOOL ? Meaning::choice : Meaning::index;
}

// The value that NAME_bwd, or NAME_bwd_and_more, takes from the standard NAME_fwd: an input named like an output.
std::optional<Forward> saved_value(const Signature &signature, const Parameter &input) {
    const size_t end = signature.op.find("_bwd");
    if (end == std::string::npos || rule_of(signature, input) != nullptr) {
        return {};
    }
    const std::string op = signature.op.substr(0, end) + "_fwd";
    const std::string_view text = core::standard_signature(op);
    const size_t outputs = std::min(text.find("-> ("), text.size());
    const auto is_in = [&](std::string_view parameters) {
        return parameters.find("(" + input.name + ":") != std::string_view::npos ||
               parameters.find(" " + input.name + ":") != std::string_view::npos;
    };
    return is_in(text.substr(outputs)) && !is_in(text.substr(0, outputs)) ? std::optional(Forward{op, input.name})
                                                                          : std::nullopt;
}

// True for ops in which an infinity is meaningful: it stays infinite, or hides an element.
bool takes_infinities(const Signature &signature, const Parameter &input) {
    static const std::vector<std::string> elementwise = {"relu", "silu", "gelu", "add"};
    const bool is_logits = input.name == "logits" || (input.name == "input" && begins_with(signature.op, "scaled_"));
    return (is_logits && signature.op.find("back") == std::string::npos &&
            signature.op.find("bwd") == std::string::npos) ||
           (std::find(elementwise.begin(), elementwise.end(), signature.op) != elementwise.end() && input.name != "b");
}

// --- rows of different magnitudes ------------------------------------------------------------------------------------

const Parameter *input_called(const Signature &signature, const std::string &name) {
    const auto found = std::find_if(signature.inputs.begin(), signature.inputs.end(),
                                    [&](const Parameter &input) { return input.name == name; });
    return found == signature.inputs.end() ? nullptr : &*found;
}

size_t rows_in(const std::vector<int64_t> &dims) {
    size_t rows = 1;
    for (size_t d = 0; d + 1 < dims.size(); ++d) {
        rows *= static_cast<size_t>(dims[d]);
    }
    return rows;
}

// True if there is a single floating-point input. An infinity times or beside numbers of another input is often NaN;
// for a single input, the reference must define the result.
bool is_only_float(const Signature &signature, const Dtypes &dtypes) {
    return std::count_if(signature.inputs.begin(), signature.inputs.end(),
                         [&](const Parameter &input) { return is_float(dtype_in(input.dtype, dtypes)); }) == 1;
}

std::vector<Magnitude> magnitudes_for(const Signature &signature, const Dtypes &dtypes, const Parameter &input) {
    std::vector<Magnitude> all = {Magnitude::ordinary, Magnitude::thousand, Magnitude::constant};
    if (is_only_float(signature, dtypes) && dtype_in(input.dtype, dtypes) != OPDOCK_E4M3) { // it has no infinity
        all.push_back(Magnitude::hidden);
        all.push_back(Magnitude::lowest);
    }
    return all;
}

// Each value after each, itself included, if the list is read as a cycle: the de Bruijn sequence of order 2.
std::vector<Magnitude> every_pair(const std::vector<Magnitude> &all) {
    std::vector<Magnitude> list;
    list.reserve(all.size() * all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        list.push_back(all[i]);
        for (size_t j = i + 1; j < all.size(); ++j) {
            list.push_back(all[i]);
            list.push_back(all[j]);
        }
    }
    return list;
}

// Takes the same amount of `random` for every magnitude: rows stay the same when others change.
double draw_of(Magnitude magnitude, Random &random, uint32_t dtype) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double normal = random.normal();
    switch (magnitude) {
    case Magnitude::thousand:
        return 1000 + normal;
    case Magnitude::constant:
        return std::min(1e25, largest_number(dtype) * 0.75);
    case Magnitude::hidden:
        return -infinity;
    case Magnitude::lowest:
        return normal < 0 ? -largest_number(dtype) : -infinity;
    case Magnitude::ordinary:
        break;
    }
    return normal;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

double draw_number(Values values, Random &random, uint32_t dtype, bool only_below) {
    const double normal = random.normal();
    switch (values) {
    case Values::tiny:
        return normal * (dtype == OPDOCK_F16 ? 1e-4 : 1e-20);
    case Values::huge:
        return normal * (dtype == OPDOCK_E4M3 ? 100 : 1e4);
    case Values::sparse:
        return random.chance(0.5) ? std::copysign(0.0, normal) : normal;
    case Values::constant:
        return 0.75;
    case Values::infinite:
        if (random.chance(0.1)) {
            const double infinity = std::numeric_limits<double>::infinity();
            return only_below ? -infinity : std::copysign(infinity, normal);
        }
        return normal;
    case Values::denormal:
        return random.even(-1, 1) * smallest_normal(dtype);
    case Values::not_a_number: // drawn per row
    case Values::rows:         // for another input
    case Values::normal:
        break;
    }
    return normal;
}

int64_t attribute_of(const Case &one, const std::string &name, int64_t otherwise) {
    for (const op_call::AttributeArgument &attribute : one.attributes) {
        if (attribute.name == name) {
            return std::get<int64_t>(attribute.value);
        }
    }
    return otherwise;
}

// The number of classes: the last dim of the input that has the most dims.
int64_t last_dim(const Case &one, const Signature &signature, const Parameter &except) {
    std::vector<int64_t> most;
    for (const Parameter &input : signature.inputs) {
        const std::vector<int64_t> dims = dims_in(input.dims, one.shapes.front());
        if (input.name != except.name && dims.size() > most.size()) {
            most = dims;
        }
    }
    return most.empty() ? 1 : most.back();
}

int64_t smallest_dim(const Case &one, const Signature &signature, const Parameter &except) {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (const Parameter &input : signature.inputs) {
        if (input.name != except.name) {
            for (const int64_t dim : dims_in(input.dims, one.shapes.front())) {
                smallest = std::min(smallest, dim);
            }
        }
    }
    return smallest == std::numeric_limits<int64_t>::max() ? 1 : smallest;
}

// The exclusive upper bound of a whole number with this meaning.
int64_t bound_of(Meaning meaning, const Case &one, const Signature &signature, const Parameter &input, uint32_t dtype) {
    const auto size_of = [&](const std::string &name, size_t dim) {
        const Parameter *other = input_called(signature, name);
        return other == nullptr ? 1 : dims_in(other->dims, one.shapes.front()).at(dim);
    };
    switch (meaning) {
    case Meaning::class_of: // there are logits, or a weight that makes them
        return input_called(signature, "weight") == nullptr ? last_dim(one, signature, input) : size_of("weight", 0);
    case Meaning::start:
        return input.name == "starts" ? size_of(signature.inputs.front().name, 0) + 1
                                      : size_of(input.name.substr(0, input.name.find("_starts")), 1) + 1;
    case Meaning::slot:
        return size_of("key_cache", 0) * size_of("key_cache", 1);
    case Meaning::expert:
        return attribute_of(one, "experts", 0);
    case Meaning::count:
        return last_dim(one, signature, input) + 1;
    case Meaning::row:
        return size_of("cos", 0);
    case Meaning::place:
        return size_of(input.name, 0) * size_of(input.name, 1);
    default:
        return std::min(smallest_dim(one, signature, input), static_cast<int64_t>(op_call::integers_of(dtype).second));
    }
}

class Drawing {
  public:
    Drawing(const Case &one, const Signature &signature, const Parameter &input, uint32_t dtype, int64_t row_size)
        : one_(one), dtype_(dtype), meaning_(meaning_of(signature, input, dtype)),
          random_(derive(one.seed, input.name)), bound_(bound_of(meaning_, one, signature, input, dtype)),
          ignored_(attribute_of(one, "ignore_index", -100)) {
        const bool is_hidden = one.values_of.empty()
                                   ? one.values == Values::infinite && !takes_infinities(signature, input)
                                   : one.values_of != input.name;
        values_ = is_hidden ? Values::normal : one.values;
        row_size_ = static_cast<size_t>(row_size);
        only_below_ = input.name == "logits" || begins_with(signature.op, "scaled_");
        if (values_ == Values::rows) {
            magnitudes_ = magnitudes_of(one, signature);
        }
    }

    double next() {
        switch (meaning_) {
        case Meaning::number:
            if (values_ == Values::not_a_number) {
                return next_or_nan();
            }
            return magnitudes_.empty() ? draw_number(values_, random_, dtype_, only_below_) : next_of_rows();
        case Meaning::class_of:
            return static_cast<double>(bound_ == 0 || random_.chance(0.15)
                                           ? ignored_
                                           : static_cast<int64_t>(random_.below(static_cast<size_t>(bound_))));
        case Meaning::choice:
            return random_.chance(0.3) ? 1 : 0;
        case Meaning::positive:
            return random_.even(0.05, 1.5);
        case Meaning::small:
            return random_.even(-0.125, 0.125);
        case Meaning::step:
            return static_cast<double>(1 + random_.below(50));
        case Meaning::never:
            return 0;
        case Meaning::random_key:
            return static_cast<double>(random_.bits() >> 12);
        case Meaning::angle:
            return random_.even(-30, 30);
        case Meaning::log_probability:
            return random_.even(-20, 0);
        case Meaning::start: // the first is 0, and they never decrease
            last_ =
                drawn_++ == 0 ? 0 : last_ + static_cast<int64_t>(random_.below(static_cast<size_t>(bound_ - last_)));
            return static_cast<double>(last_);
        case Meaning::slot:
            return static_cast<double>(random_.chance(0.1) ? -1 : bound_ - 1 - static_cast<int64_t>(drawn_++));
        case Meaning::place: {
            const int64_t place = bound_ - 1 - static_cast<int64_t>(drawn_++);
            return static_cast<double>(random_.chance(0.1) ? -1 - place : place);
        }
        case Meaning::expert:
            if (bound_ == 0 || random_.chance(0.1)) {
                return -1;
            }
            break;
        case Meaning::count:
        case Meaning::row:
        case Meaning::index:
            break;
        }
        return bound_ > 0 ? static_cast<double>(random_.below(static_cast<size_t>(bound_))) : 0;
    }

  private:
    // Half of the rows have no NaN, so that their results can be compared; the others have one, or many.
    double next_or_nan() {
        const size_t place = drawn_++ % row_size_;
        if (place == 0) {
            const bool has_some = drawn_ == 1 || random_.chance(0.5);
            const bool has_one = has_some && random_.chance(0.5);
            chance_ = has_some && !has_one ? 0.2 : 0;
            place_ = has_one ? random_.below(row_size_) : row_size_;
        }
        const double normal = random_.normal();
        if (!random_.chance(place == place_ ? 1 : chance_)) {
            return normal;
        }
        return one_.nan_as == 0 ? std::copysign(std::numeric_limits<double>::quiet_NaN(), normal)
                                : one_.nan_as * (1 + std::fabs(normal));
    }

    double next_of_rows() {
        const Magnitude magnitude = magnitudes_[drawn_++ / row_size_ % magnitudes_.size()];
        return draw_of(one_.only_usual && !is_usual(magnitude) ? Magnitude::ordinary : magnitude, random_, dtype_);
    }

    const Case &one_;
    uint32_t dtype_;
    Meaning meaning_;
    Random random_;
    int64_t bound_;
    int64_t ignored_;
    int64_t last_ = 0; // the last `start`
    Values values_ = Values::normal;
    bool only_below_ = false;
    std::vector<Magnitude> magnitudes_; // of each row
    size_t row_size_ = 1;
    size_t drawn_ = 0;
    double chance_ = 0; // of a NaN in this row
    size_t place_ = 0;  // of the only NaN in this row
};

bool is_statistic(const Signature &signature, const Parameter &input) {
    return saved_value(signature, input) && input.dtype == "f32";
}

void copy_elements(const HostTensor &from, HostTensor &to) {
    std::copy_n(from.memory.get(), from.bytes, to.memory.get());
}

} // namespace

std::vector<std::string> inputs_of_numbers(const Signature &signature, const Dtypes &dtypes) {
    std::vector<std::string> names;
    for (const Parameter &input : signature.inputs) {
        if (meaning_of(signature, input, dtype_in(input.dtype, dtypes)) == Meaning::number &&
            !saved_value(signature, input)) {
            names.push_back(input.name);
        }
    }
    return names;
}

std::vector<Twin> twins_of(const Signature &signature, const std::vector<Tensors> &inputs) {
    std::vector<Twin> twins;
    std::vector<std::pair<size_t, size_t>> firsts; // one for each dtype and shape
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Parameter &input = signature.inputs[i];
        for (size_t j = 0; j < inputs[i].size(); ++j) {
            const HostTensor &tensor = inputs[i][j];
            if (input.mut || input.host || tensor.values == 0 || is_statistic(signature, input) ||
                meaning_of(signature, input, tensor.dtype) != Meaning::number) {
                continue;
            }
            const auto first = std::find_if(firsts.begin(), firsts.end(), [&](const auto &place) {
                const HostTensor &other = inputs[place.first][place.second];
                return other.dtype == tensor.dtype && other.shape == tensor.shape;
            });
            if (first == firsts.end()) {
                firsts.emplace_back(i, j);
            } else {
                twins.push_back({i, j, first->first, first->second});
            }
        }
    }
    return twins;
}

std::vector<Twin> twins_of(const Signature &signature, const Dtypes &dtypes, const Shapes &shapes) {
    std::vector<Tensors> inputs(signature.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Parameter &input = signature.inputs[i];
        for (size_t j = 0; j < (input.list ? shapes.size() : 1); ++j) {
            inputs[i].emplace_back(dtype_in(input.dtype, dtypes), dims_in(input.dims, shapes[j]));
        }
    }
    return twins_of(signature, inputs);
}

std::vector<std::string> inputs_with_rows(const Signature &signature, const Dtypes &dtypes, const Shapes &shapes) {
    constexpr size_t enough = 5;
    std::vector<std::string> names;
    for (const Parameter &input : signature.inputs) {
        const uint32_t dtype = dtype_in(input.dtype, dtypes);
        const std::vector<int64_t> dims = dims_in(input.dims, shapes.front());
        if (!input.list && is_float(dtype) && meaning_of(signature, input, dtype) == Meaning::number &&
            !saved_value(signature, input) && dims.size() > 1 && dims.back() > 1 && rows_in(dims) >= enough) {
            names.push_back(input.name);
        }
    }
    return names;
}

std::vector<Magnitude> magnitudes_of(const Case &one, const Signature &signature) {
    std::vector<Magnitude> magnitudes;
    const Parameter *input = input_called(signature, one.values_of);
    if (one.values != Values::rows || input == nullptr) {
        return magnitudes;
    }
    std::vector<Magnitude> left = magnitudes_for(signature, one.dtypes, *input);
    std::vector<Magnitude> all; // in random order
    Random random(derive(one.seed, "rows"));
    while (!left.empty()) {
        const auto at = left.begin() + static_cast<std::ptrdiff_t>(random.below(left.size()));
        all.push_back(*at);
        left.erase(at);
    }
    const size_t rows = rows_in(dims_in(input->dims, one.shapes.front()));
    const std::vector<Magnitude> pairs = every_pair(all);
    const std::vector<Magnitude> &repeated = rows < pairs.size() ? all : pairs;
    magnitudes.reserve(rows);
    for (size_t r = 0; r < rows; ++r) {
        magnitudes.push_back(repeated[r % repeated.size()]);
    }
    return magnitudes;
}

double rounding_of(const Signature &signature, const Parameter &input, uint32_t dtype, double moved_by) {
    if (meaning_of(signature, input, dtype) != Meaning::number) {
        return 0;
    }
    return is_statistic(signature, input) ? std::min(moved_by, unit_in_last_place(dtype, 1) / 2) : moved_by;
}

HostTensor draw_input(const Case &one, const Signature &signature, const Parameter &input, uint32_t dtype,
                      const std::vector<int64_t> &dims) {
    HostTensor tensor(dtype, dims);
    Drawing drawing(one, signature, input, dtype, dims.empty() ? 1 : dims.back());
    std::vector<double> values(tensor.values);
    std::generate(values.begin(), values.end(), [&] { return drawing.next(); });
    op_call::store_elements(dtype, tensor.memory.get(), values);
    return tensor;
}

std::vector<std::string> forward_ops_of(const Signature &signature) {
    std::vector<std::string> ops;
    for (const Parameter &input : signature.inputs) {
        if (const std::optional<Forward> saved = saved_value(signature, input)) {
            ops.push_back(saved->op);
        }
    }
    return ops;
}

std::vector<Tensors> draw_inputs(const Case &one, const Signature &signature, const RunForward &run_forward) {
    std::vector<Tensors> inputs(signature.inputs.size());
    std::map<std::string, HostTensor *> known;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Parameter &input = signature.inputs[i];
        if (!one.has(input)) {
            continue;
        }
        const size_t count = input.list ? one.shapes.size() : 1;
        inputs[i].reserve(count);
        for (size_t j = 0; j < count; ++j) {
            Case of_element = one;
            of_element.seed += j;
            inputs[i].push_back(draw_input(of_element, signature, input, dtype_in(input.dtype, one.dtypes),
                                           dims_in(input.dims, one.shapes[j])));
        }
        if (!input.list && !saved_value(signature, input)) {
            known[input.name] = &inputs[i].front();
        }
    }
    // A saved value depends on the other inputs; an input that is the same tensor as a saved one depends on that.
    const std::vector<Twin> twins = one.exercise == Exercise::same ? twins_of(signature, inputs) : std::vector<Twin>();
    const auto is_saved = [&](size_t i) { return saved_value(signature, signature.inputs[i]).has_value(); };
    const auto of = [&](const Twin &twin) -> HostTensor & { return inputs[twin.of_parameter][twin.of_element]; };
    for (const Twin &twin : twins) {
        copy_elements(of(twin), inputs[twin.parameter][twin.element]);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        const std::optional<Forward> saved = saved_value(signature, signature.inputs[i]);
        if (!saved || inputs[i].empty()) {
            continue;
        }
        const std::optional<HostTensor> values = run_forward(*saved, one, known);
        HostTensor &input = inputs[i].front();
        if (values) {
            op_call::store_elements(
                input.dtype, input.memory.get(),
                op_call::load_elements(values->dtype, values->memory.get(), std::min(input.values, values->values)));
        }
    }
    for (const Twin &twin : twins) {
        if (is_saved(twin.parameter)) {
            copy_elements(inputs[twin.parameter][twin.element], of(twin));
        }
    }
    for (const Twin &twin : twins) {
        copy_elements(of(twin), inputs[twin.parameter][twin.element]);
    }
    return inputs;
}

} // namespace opdock::plugin_check
