#include <algorithm>
#include <limits>
#include <numeric>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using Doubles = std::vector<double>;
using opdock::TensorView;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Queries [query, query + queries) and keys [key, key + keys) of one batch that belong to one sequence.
struct Sequence {
    std::int64_t batch, query, queries, key, keys;
};

struct Range {
    std::int64_t begin, end;
};

struct Attention {
    double scale, soft_cap;
    bool causal;
    std::int64_t left, right;
    std::int64_t heads, heads_per_key; // query heads, and the number of them that share a key head

    // The keys that query i of a sequence sees.
    Range seen(std::int64_t i, std::int64_t queries, std::int64_t keys) const {
        const std::int64_t position = i + keys - queries;
        std::int64_t end = causal ? std::min(keys, position + 1) : keys;
        // Adding a window larger than the sequence could overflow.
        if (right >= 0)
            end = std::min(end, position + std::min(right, queries + keys) + 1);
        const std::int64_t begin = left >= 0 ? std::max<std::int64_t>(position - std::min(left, queries + keys), 0) : 0;
        return {std::min(begin, std::max<std::int64_t>(end, 0)), std::max<std::int64_t>(end, 0)};
    }
    // The score z without the bias.
    double score(const Doubles &query, const Doubles &key) const {
        const double z = scale * std::inner_product(query.begin(), query.end(), key.begin(), 0.0);
        return soft_cap > 0 ? soft_cap * std::tanh(z / soft_cap) : z;
    }
    double slope(double score) const { return soft_cap > 0 ? 1 - score / soft_cap * (score / soft_cap) : 1; }
};

Attention attention_of(const Problem &problem, std::int64_t heads, std::int64_t key_heads, std::int64_t depth) {
    Attention a = {};
    a.scale = problem.has_attribute(0) ? problem.get_float(0)
                                       : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(depth, 1)));
    a.heads = heads;
    a.heads_per_key = key_heads == 0 ? 1 : heads / key_heads;
    return a;
}

// Reads the attributes of the ops over whole sequences.
Attention attention_of(const Problem &problem, const DLTensor &query, const DLTensor &key) {
    Attention a = attention_of(problem, query.shape[2], key.shape[2], query.shape[3]);
    a.causal = problem.get_bool(1);
    a.left = problem.get_int(2);
    a.right = problem.get_int(3);
    a.soft_cap = problem.get_float(4);
    return a;
}

// Reads the arguments of an op whose query is input `first`, and whose starts are inputs `starts` and `starts` +
// 1.
template<std::uint32_t starts>
Status check_starts(const Problem &problem) {
    if (problem.has_input(starts) != problem.has_input(starts + 1))
        return opdock::invalid_argument("query_starts and key_starts: give both or neither");
    return {};
}
Status check_starts(const char *name, TensorView<const std::int32_t> starts, std::int64_t end) {
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < starts.numel(); ++i) {
        if (starts[i] < last || starts[i] > end || (i == 0 && starts[i] != 0))
            return opdock::invalid_argument(std::string(name) + ": start " + std::to_string(i) + " is " +
                                            std::to_string(starts[i]) + "; expected non-decreasing starts from 0 to " +
                                            std::to_string(end));
        last = starts[i];
    }
    return {};
}

// Finds the sequences: each batch is one, or the starts tell where each begins.
Status find_sequences(const Call &call, std::uint32_t first, std::uint32_t starts, std::vector<Sequence> &sequences) {
    const DLTensor &query = *call.input(first);
    const DLTensor &key = *call.input(first + 1);
    if (!call.has_input(starts)) {
        for (std::int64_t b = 0; b < query.shape[0]; ++b)
            sequences.push_back({b, 0, query.shape[1], 0, key.shape[1]});
        return {};
    }
    const auto queries = call.input<const std::int32_t>(starts);
    const auto keys = call.input<const std::int32_t>(starts + 1);
    Status status = check_starts("query_starts", queries, query.shape[1]);
    if (status.ok())
        status = check_starts("key_starts", keys, key.shape[1]);
    for (std::int64_t i = 0; status.ok() && i + 1 < queries.numel(); ++i)
        sequences.push_back({0, queries[i], queries[i + 1] - queries[i], keys[i], keys[i + 1] - keys[i]});
    return status;
}

template<class T>
void fill(TensorView<T> tensor, T value) {
    if (tensor)
        for (std::int64_t i = 0; i < tensor.numel(); ++i)
            tensor[i] = value;
}

// Turns scores into weights that sum to 1, and returns the logarithm of the sum of their exponentials.
double to_weights(Doubles &z) {
    double largest = -infinity;
    for (const double one : z)
        largest = one > largest || std::isnan(one) ? one : largest;
    if (largest == -infinity) {
        std::fill(z.begin(), z.end(), 0.0);
        return -infinity;
    }
    double sum = 0;
    for (const double one : z)
        sum += std::exp(one - largest);
    const double lse = largest + std::log(sum);
    for (double &one : z)
        one = std::exp(one - lse);
    return lse;
}

template<class T>
Doubles row_of(TensorView<T> tensor, std::int64_t i, std::int64_t j, std::int64_t head) {
    Doubles row;
    widen(tensor.row((i * tensor.size(1) + j) * tensor.size(2) + head), row);
    return row;
}

// Adds factor * from to `to`.
void add_scaled(Doubles &to, double factor, const Doubles &from) {
    for (std::size_t i = 0; i < to.size(); ++i)
        to[i] += factor * from[i];
}

// Computes the output of one query over `keys` keys; take_key(j) and take_value(j) return key and value j. Returns lse.
template<class Score, class TakeValue>
double attend(const Range &seen, Score score, TakeValue take_value, Doubles &output) {
    Doubles z;
    for (std::int64_t j = seen.begin; j < seen.end; ++j)
        z.push_back(score(j));
    const double lse = to_weights(z);
    std::fill(output.begin(), output.end(), 0.0);
    for (std::int64_t j = seen.begin; j < seen.end; ++j)
        if (const double weight = z[static_cast<std::size_t>(j - seen.begin)]; weight != 0)
            add_scaled(output, weight, take_value(j));
    return lse;
}

Status attention_fwd(const Call &call) {
    std::vector<Sequence> sequences;
    Status status = find_sequences(call, 0, 4, sequences);
    if (!status.ok())
        return status;
    const Attention a = attention_of(call, *call.input(0), *call.input(1));
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto query = call.input<const T>(0);
        const auto key = call.input<const T>(1);
        const auto value = call.input<const T>(2);
        const auto bias = call.input<const T>(3);
        const auto output = call.output<T>(0);
        const auto lse = call.output<float>(1);
        fill(output, T(0.0f));
        fill(lse, -std::numeric_limits<float>::infinity());
        Doubles sum(static_cast<std::size_t>(output.size(3)));
        for (const Sequence &one : sequences) {
            for (std::int64_t i = 0; i < one.queries; ++i) {
                for (std::int64_t h = 0; h < a.heads; ++h) {
                    const std::int64_t g = h / a.heads_per_key;
                    const std::int64_t at = one.query + i;
                    const Doubles q = row_of(query, one.batch, at, h);
                    const auto score = [&](std::int64_t j) {
                        return a.score(q, row_of(key, one.batch, one.key + j, g)) +
                               (bias ? wide(bias(one.batch, h, at, one.key + j)) : 0);
                    };
                    const double log = attend(
                        a.seen(i, one.queries, one.keys), score,
                        [&](std::int64_t j) { return row_of(value, one.batch, one.key + j, g); }, sum);
                    narrow(sum, output.row((one.batch * output.size(1) + at) * a.heads + h));
                    if (lse)
                        lse(one.batch, h, at) = rounded<float>(log);
                }
            }
        }
        return Status();
    });
}

// The gradients of the keys and values of one key head of a sequence, by row.
struct KeyGradients {
    std::vector<Doubles> key, value;

    KeyGradients(std::int64_t keys, std::int64_t d, std::int64_t e)
        : key(static_cast<std::size_t>(keys), Doubles(static_cast<std::size_t>(d))),
          value(static_cast<std::size_t>(keys), Doubles(static_cast<std::size_t>(e))) {}
};

template<class T>
class Backward {
  public:
    explicit Backward(const Call &call)
        : a_(attention_of(call, *call.input(1), *call.input(2))), grad_(call.input<const T>(0)),
          query_(call.input<const T>(1)), key_(call.input<const T>(2)), value_(call.input<const T>(3)),
          output_(call.input<const T>(4)), lse_(call.input<const float>(5)), bias_(call.input<const T>(6)),
          grad_query_(call.output<T>(0)), grad_key_(call.output<T>(1)), grad_value_(call.output<T>(2)),
          grad_bias_(call.output<T>(3)) {
        fill(grad_query_, T(0.0f));
        fill(grad_key_, T(0.0f));
        fill(grad_value_, T(0.0f));
        fill(grad_bias_, T(0.0f));
    }

    void run(const Sequence &one) const {
        for (std::int64_t g = 0; g < key_.size(2); ++g) {
            KeyGradients gradients(one.keys, key_.size(3), value_.size(3));
            for (std::int64_t h = g * a_.heads_per_key; h < (g + 1) * a_.heads_per_key; ++h)
                for (std::int64_t i = 0; i < one.queries; ++i)
                    query(one, g, h, i, gradients);
            for (std::int64_t j = 0; j < one.keys; ++j) {
                const auto row = static_cast<std::size_t>(j);
                const std::int64_t at = (one.batch * key_.size(1) + one.key + j) * key_.size(2) + g;
                narrow(gradients.key[row], grad_key_.row(at));
                narrow(gradients.value[row], grad_value_.row(at));
            }
        }
    }

  private:
    void query(const Sequence &one, std::int64_t g, std::int64_t h, std::int64_t i, KeyGradients &gradients) const {
        const std::int64_t at = one.query + i;
        const double lse = wide(lse_(one.batch, h, at));
        if (lse == -infinity)
            return;
        const Doubles q = row_of(query_, one.batch, at, h);
        const Doubles grad = row_of(grad_, one.batch, at, h);
        const Doubles output = row_of(output_, one.batch, at, h);
        const double projection = std::inner_product(grad.begin(), grad.end(), output.begin(), 0.0);
        Doubles grad_query(q.size());
        const Range seen = a_.seen(i, one.queries, one.keys);
        for (std::int64_t j = seen.begin; j < seen.end; ++j) {
            const auto row = static_cast<std::size_t>(j);
            const Doubles k = row_of(key_, one.batch, one.key + j, g);
            const Doubles v = row_of(value_, one.batch, one.key + j, g);
            const double score = a_.score(q, k);
            const double above = score + (bias_ ? wide(bias_(one.batch, h, at, one.key + j)) : 0) - lse;
            const double weight = std::exp(above > 0 ? 0 : above); // NaN is kept
            if (weight == 0) // a bias of minus infinity hides a key, whatever the gradient is
                continue;
            const double slope = weight * (std::inner_product(grad.begin(), grad.end(), v.begin(), 0.0) - projection);
            if (grad_bias_)
                grad_bias_(one.batch, h, at, one.key + j) = rounded<T>(slope);
            const double inner = slope * a_.scale * a_.slope(score);
            add_scaled(grad_query, inner, k);
            add_scaled(gradients.key[row], inner, q);
            add_scaled(gradients.value[row], weight, grad);
        }
        narrow(grad_query, grad_query_.row((one.batch * query_.size(1) + at) * a_.heads + h));
    }

    Attention a_;
    TensorView<const T> grad_, query_, key_, value_, output_;
    TensorView<const float> lse_;
    TensorView<const T> bias_;
    TensorView<T> grad_query_, grad_key_, grad_value_, grad_bias_;
};

Status attention_bwd(const Call &call) {
    std::vector<Sequence> sequences;
    Status status = find_sequences(call, 1, 7, sequences);
    if (!status.ok())
        return status;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        const Backward<typename decltype(tag)::type> backward(call);
        for (const Sequence &one : sequences)
            backward.run(one);
        return Status();
    });
}

// Checks that every page with tokens of a sequence is a page of the cache, and that the table has enough pages.
Status check_pages(const Call &call) {
    const auto table = call.input<const std::int32_t>(3);
    const auto lengths = call.input<const std::int32_t>(4);
    const std::int64_t pages = call.input(1)->shape[0];
    const std::int64_t tokens = call.input(1)->shape[1];
    for (std::int64_t i = 0; i < lengths.numel(); ++i) {
        if (lengths[i] < 0 || lengths[i] > table.size(1) * tokens)
            return opdock::invalid_argument("lengths: sequence " + std::to_string(i) + " has " +
                                            std::to_string(lengths[i]) + " tokens; its pages have room for " +
                                            std::to_string(table.size(1) * tokens));
        for (std::int64_t j = 0; j * tokens < lengths[i]; ++j)
            if (table(i, j) < 0 || table(i, j) >= pages)
                return opdock::invalid_argument("block_table: page " + std::to_string(j) + " of sequence " +
                                                std::to_string(i) + " is " + std::to_string(table(i, j)) +
                                                "; the cache has " + std::to_string(pages));
    }
    return {};
}

Status attention_decode(const Call &call) {
    Status status = check_pages(call);
    if (!status.ok())
        return status;
    Attention a = attention_of(call, call.input(0)->shape[1], call.input(1)->shape[2], call.input(0)->shape[2]);
    a.causal = true;
    a.left = call.get_int(1);
    a.right = -1;
    a.soft_cap = call.get_float(2);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto query = call.input<const T>(0);
        const auto keys = call.input<const T>(1);
        const auto values = call.input<const T>(2);
        const auto table = call.input<const std::int32_t>(3);
        const auto lengths = call.input<const std::int32_t>(4);
        const auto output = call.output<T>(0);
        const auto lse = call.output<float>(1);
        const std::int64_t tokens = keys.size(1);
        Doubles q;
        Doubles sum(static_cast<std::size_t>(output.size(2)));
        for (std::int64_t i = 0; i < query.size(0); ++i) {
            for (std::int64_t h = 0; h < a.heads; ++h) {
                widen(query.row(i * a.heads + h), q);
                const auto take = [&](TensorView<const T> cache, std::int64_t j) {
                    return row_of(cache, table(i, j / tokens), j % tokens, h / a.heads_per_key);
                };
                const double log = attend(
                    a.seen(0, 1, lengths[i]), [&](std::int64_t j) { return a.score(q, take(keys, j)); },
                    [&](std::int64_t j) { return take(values, j); }, sum);
                narrow(sum, output.row(i * a.heads + h));
                if (lse)
                    lse(i, h) = rounded<float>(log);
            }
        }
        return Status();
    });
}

Status kv_cache_append(const Call &call) {
    const auto slots = call.input<const std::int64_t>(4);
    const std::int64_t tokens = call.input(0)->shape[1];
    const std::int64_t places = call.input(0)->shape[0] * tokens;
    for (std::int64_t i = 0; i < slots.numel(); ++i)
        if (slots[i] >= places)
            return opdock::invalid_argument("slots: token " + std::to_string(i) + " goes to slot " +
                                            std::to_string(slots[i]) + "; the cache has " + std::to_string(places));
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (std::uint32_t which : {0u, 1u}) {
            const auto cache = call.input<T>(which);
            const auto from = call.input<const T>(2 + which);
            const std::int64_t heads = from.size(1);
            for (std::int64_t i = 0; i < slots.numel(); ++i) {
                for (std::int64_t g = 0; slots[i] >= 0 && g < heads; ++g) {
                    const auto source = from.row(i * heads + g);
                    const auto target = cache.row(slots[i] * heads + g);
                    for (std::int64_t p = 0; p < source.size(); ++p)
                        target[p] = source[p];
                }
            }
        }
        return Status();
    });
}

} // namespace

void add_attention(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::attention_fwd, any_float, opdock::kernel<&attention_fwd>, opdock::supports<&check_starts<4>>);
    plugin.add(ops::attention_bwd, any_float, opdock::kernel<&attention_bwd>, opdock::supports<&check_starts<7>>);
    plugin.add(ops::attention_decode, any_float, opdock::kernel<&attention_decode>);
    plugin.add(ops::kv_cache_append, any_float, opdock::kernel<&kv_cache_append>);
}

} // namespace reference
