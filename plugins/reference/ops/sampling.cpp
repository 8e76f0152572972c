#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/ops.hpp"
#include "philox.hpp"

namespace reference {

namespace {

std::uint64_t high_half(std::uint64_t product) {
    return product >> 32;
}

// The weight of a logit, relative to the largest one of its row.
std::uint64_t weight_of(float logit, float largest) {
    if (std::isnan(logit) || (std::isinf(logit) && logit < 0))
        return 0;
    if (logit == largest)
        return std::uint64_t(1) << 40;
    const float below = largest - logit;
    if (!(below < 32))
        return 0;
    const std::uint64_t y = 3098164009 * static_cast<std::uint64_t>(below * 0x1p27f);
    const std::uint64_t f = y >> 26 & 0xffffffff;
    std::uint64_t a = 4035806;
    for (const std::uint64_t next : {39487045ull, 237459814ull, 1031553340ull, 2977028413ull})
        a = next - high_half(f * a);
    return ((std::uint64_t(1) << 32) - high_half(f * a)) << 8 >> (y >> 58);
}

// The upper 64 bits of a product.
std::uint64_t high_word(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t low_a = a & 0xffffffff, low_b = b & 0xffffffff;
    const std::uint64_t middle = (a >> 32) * low_b + high_half(low_a * low_b);
    return (a >> 32) * (b >> 32) + high_half(middle) + high_half(low_a * (b >> 32) + (middle & 0xffffffff));
}

// A logit is kept if the weights before it sum to less than this. The product is divided by 2^32 and rounded up.
std::uint64_t least_sum(float p, std::uint64_t sum) {
    if (!(p < 1))
        return sum;
    const auto share = static_cast<std::uint64_t>(std::max(0.0, std::floor(static_cast<double>(p) * 0x1p32)));
    return share * (sum >> 32) + high_half(share * (sum & 0xffffffff) + 0xffffffff);
}

std::uint64_t random_number(opdock::TensorView<const std::int64_t> rng_state, std::int64_t row) {
    const auto low = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
    const auto high = [](std::int64_t number) { return static_cast<std::uint32_t>(number >> 32); };
    const auto words =
        philox({low(row), high(row), low(rng_state[1]), high(rng_state[1])}, {low(rng_state[0]), high(rng_state[0])});
    return words[0] | std::uint64_t(words[1]) << 32;
}

// `k` is at least 1, and at most the number of logits.
std::int64_t draw(const std::vector<float> &logits, std::size_t k, float p, std::uint64_t number) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return logits[a] > logits[b] || (!std::isnan(logits[a]) && std::isnan(logits[b]));
    });
    const float largest = logits[order.front()];
    if (!(largest > -std::numeric_limits<float>::infinity()))
        return -1;
    order.resize(k);
    const auto weight = [&](std::size_t i) { return weight_of(logits[i], largest); };
    std::uint64_t sum = 0;
    for (const std::size_t i : order)
        sum += weight(i);
    const std::uint64_t least = least_sum(p, sum);
    std::size_t left = 0;
    sum = 0;
    for (; left < k && (left == 0 || sum < least); ++left)
        sum += weight(order[left]);
    order.resize(left);
    std::sort(order.begin(), order.end());
    const std::uint64_t target = high_word(number, sum);
    std::uint64_t so_far = 0;
    return static_cast<std::int64_t>(*std::find_if(order.begin(), order.end(), [&](std::size_t i) {
        so_far += weight(i);
        return so_far > target;
    }));
}

Status sample_top_k_top_p(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto logits = call.input<const T>(0);
        const auto rng_state = call.input<const std::int64_t>(1);
        const auto k = call.input<const std::int32_t>(2);
        const auto p = call.input<const float>(3);
        const auto indices = call.output<std::int64_t>(0);
        std::vector<float> row(static_cast<std::size_t>(logits.size(1)));
        for (std::int64_t r = 0; r < logits.size(0); ++r) {
            for (std::size_t i = 0; i < row.size(); ++i)
                row[i] = static_cast<float>(logits(r, static_cast<std::int64_t>(i)));
            const bool takes_all = !k || k[r] <= 0 || k[r] > logits.size(1);
            indices[r] = row.empty() ? -1
                                     : draw(row, takes_all ? row.size() : static_cast<std::size_t>(k[r]), p ? p[r] : 1,
                                            random_number(rng_state, r));
        }
        return Status();
    });
}

} // namespace

void add_sampling(Plugin &plugin) {
    plugin.add(opdock::ops::sample_top_k_top_p, "f32|f16|bf16", opdock::kernel<&sample_top_k_top_p>);
}

} // namespace reference
