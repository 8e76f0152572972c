// sample_top_k_top_p, as opdock/ops/sampling.h defines it: weights are integers, so that sums do not depend on the
// order of additions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"
#include "topk.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sampling.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// One 64-bit random number per row.
void numbers_of_rows(int64_t begin, int64_t end, uint64_t offset, uint64_t seed, uint64_t *numbers) {
    const auto rows = static_cast<size_t>(end - begin);
    std::vector<uint32_t> words(4 * (rows + hn::MaxLanes(u32)));
    philox(static_cast<uint64_t>(begin), offset, seed, rows, words.data());
    for (size_t r = 0; r < rows; ++r)
        numbers[r] = words[4 * r] | uint64_t{words[4 * r + 1]} << 32;
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(numbers_of_rows);

namespace {

constexpr Operand operands[] = {{"logits"}, {"rng_state", false}, {"k", false}, {"p", false}, {"indices", false}};

opdock::Status check_sampling(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr uint64_t low_half = 0xffffffff;

uint64_t sampling_weight(float logit, float largest) {
    if (logit == largest)
        return uint64_t{1} << 40;
    const float below = largest - logit;
    if (!(below < 32)) // also true for NaN
        return 0;
    const uint64_t y = 3098164009 * static_cast<uint64_t>(below * 0x1p27f);
    const uint64_t f = y >> 26 & low_half;
    uint64_t a = f * 4035806 >> 32;
    a = f * (39487045 - a) >> 32;
    a = f * (237459814 - a) >> 32;
    a = f * (1031553340 - a) >> 32;
    a = f * (2977028413 - a) >> 32;
    return ((uint64_t{1} << 32) - a) << 8 >> (y >> 58);
}

// The upper word of a product.
uint64_t high_word_of_product(uint64_t a, uint64_t b) {
    uint64_t upper = 0;
    hwy::Mul128(a, b, &upper);
    return upper;
}

// A logit is kept if the weights before it sum to less than this.
uint64_t least_sum(float p, uint64_t sum) {
    if (!(p < 1))
        return sum;
    const auto share = static_cast<uint64_t>(std::max(0.0, std::floor(double{p} * 0x1p32)));
    return std::max<uint64_t>(1, share * (sum >> 32) + ((share * (sum & low_half) + low_half) >> 32));
}

// The logits of a row that have a weight, and the filters that reduce them.
class Sampler {
  public:
    explicit Sampler(size_t n) : logits_(n) {}

    template<class T>
    int64_t draw(const T *row, int64_t k, float p, uint64_t number) {
        load(row);
        if (!(largest_ > -infinity))
            return -1;
        if (k > 0 && static_cast<size_t>(k) < keys_.size())
            leave_largest(static_cast<size_t>(k));
        if (p < 1)
            leave_share(p);
        uint64_t sum = 0;
        for (const uint64_t key : keys_)
            sum += weight(key);
        std::sort(keys_.begin(), keys_.end(), [](uint64_t a, uint64_t b) { return place_of(a) < place_of(b); });
        const uint64_t target = high_word_of_product(number, sum);
        sum = 0;
        return place_of(*std::find_if(keys_.begin(), keys_.end(), [&](uint64_t key) {
            sum += weight(key);
            return sum > target;
        }));
    }

  private:
    // Skips logits with weight 0: they change no sum and sort after all others.
    template<class T>
    void load(const T *row) {
        largest_ = -infinity;
        for (size_t i = 0; i < logits_.size(); ++i) {
            logits_[i] = static_cast<float>(row[i]);
            largest_ = logits_[i] > largest_ ? logits_[i] : largest_;
        }
        keys_.clear();
        for (size_t i = 0; i < logits_.size(); ++i)
            if (largest_ - logits_[i] < 32 || logits_[i] == largest_)
                keys_.push_back(key_of(logits_[i], i));
    }

    uint64_t weight(uint64_t key) const { return sampling_weight(logits_[place_of(key)], largest_); }

    void leave_largest(size_t k) {
        const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(k);
        std::nth_element(keys_.begin(), end, keys_.end(), std::greater<>());
        keys_.erase(end, keys_.end());
    }

    // Halves the interval that contains the cut-off until it is a single key. The keys are partitioned: those before
    // begin sort before [begin, end), those from end on after it.
    void leave_share(float p) {
        uint64_t sum = 0;
        for (const uint64_t key : keys_)
            sum += weight(key);
        const uint64_t least = least_sum(p, sum);
        auto begin = keys_.begin(), end = keys_.end();
        uint64_t before = 0; // sum of the weights up to begin
        while (end - begin > 1) {
            const auto middle = begin + (end - begin) / 2;
            std::nth_element(begin, middle, end, std::greater<>());
            uint64_t half = 0;
            for (auto key = begin; key != middle; ++key)
                half += weight(*key);
            if (before + half < least) {
                before += half;
                begin = middle;
            } else {
                end = middle;
            }
        }
        keys_.erase(begin + 1, keys_.end());
    }

    std::vector<float> logits_;
    std::vector<uint64_t> keys_;
    float largest_ = 0;
};

template<class T>
void sample_rows(const opdock::Call &call, int64_t begin, int64_t end) {
    const Rows logits = Rows::of_input(call, 0), rng_state = Rows::of_input(call, 1, 0);
    const Rows k = Rows::of_input(call, 2, 0), p = Rows::of_input(call, 3, 0), indices = Rows::of_output(call, 0, 0);
    std::vector<uint64_t> numbers(static_cast<size_t>(end - begin));
    HWY_DYNAMIC_DISPATCH(numbers_of_rows)
    (begin, end, static_cast<uint64_t>(*rng_state.row<const int64_t>(1)),
     static_cast<uint64_t>(*rng_state.row<const int64_t>(0)), numbers.data());
    Sampler sampler(static_cast<size_t>(row_size(*call.input(0))));
    for (int64_t r = begin; r < end; ++r)
        *indices.row<int64_t>(r) =
            sampler.draw(logits.row<const T>(r), k ? *k.row<const int32_t>(r) : 0, p ? *p.row<const float>(r) : 1.0f,
                         numbers[static_cast<size_t>(r - begin)]);
}

opdock::Status sample(const opdock::Call &call) {
    const DLTensor &logits = *call.input(0);
    in_chunks(row_count(logits), 8 * row_size(logits) * element_bytes(logits), Knobs::of(call),
              [&](int64_t begin, int64_t end) {
                  opdock::visit_floating(logits.dtype,
                                         [&](auto t) { sample_rows<typename decltype(t)::type>(call, begin, end); });
              });
    return {};
}

} // namespace

void add_sampling(Plugin &plugin) {
    plugin.add(opdock::ops::sample_top_k_top_p, any_float,
               {opdock::kernel<&sample>, opdock::supports<&check_sampling>});
}

} // namespace cpu
#endif
