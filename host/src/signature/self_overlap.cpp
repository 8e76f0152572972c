// Two indices meet if their difference, one number d for each axis with |d| < size and not all 0, satisfies sum of
// stride * d == 0. This is a bounded search for such numbers, starting with the widest strides: the range of the
// remaining axes and the greatest common divisor of their strides leave few numbers to try, and the last two axes are
// solved directly.
#include "signature/self_overlap.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace opdock::core {
namespace {

// For sums of products of 64-bit numbers.
__extension__ using Wide = __int128;

Wide floor_division(Wide a, Wide b) { // b > 0
    return a / b - (a % b < 0 ? 1 : 0);
}
Wide ceiling_division(Wide a, Wide b) {
    return -floor_division(-a, b);
}
Wide magnitude(Wide a) {
    return a < 0 ? -a : a;
}

// Returns x with a * x == 1 (mod m), between -m and m, for coprime numbers.
Wide inverse(Wide a, Wide m) {
    Wide before = 0, x = 1;
    for (Wide r_before = m, r = a % m; r != 0;) {
        const Wide quotient = r_before / r;
        before = std::exchange(x, before - quotient * x);
        r_before = std::exchange(r, r_before - quotient * r);
    }
    return before;
}

class Search {
  public:
    Search(const Axes &axes, uint64_t steps) : axes_(axes), steps_(steps) {
        std::sort(axes_.all.begin(), axes_.all.begin() + static_cast<std::ptrdiff_t>(axes_.count),
                  [](const Axis &a, const Axis &b) { return a.stride > b.stride; });
        for (size_t k = axes_.count; k-- > 0;) {
            reach_[k] = reach_[k + 1] + most(k) * stride(k);
            divisor_[k] = std::gcd(divisor_[k + 1], axes_.all[k].stride);
        }
    }

    SelfOverlap run() {
        for (size_t first = 0; first < axes_.count; ++first) { // first nonzero number, may be assumed positive
            if (begins_meeting(first)) {
                return SelfOverlap::some;
            }
        }
        return exhausted_ ? SelfOverlap::unknown : SelfOverlap::none;
    }

  private:
    Wide stride(size_t k) const { return static_cast<Wide>(axes_.all[k].stride); }
    Wide most(size_t k) const { return static_cast<Wide>(axes_.all[k].size - 1); }

    bool begins_meeting(size_t first) {
        const size_t next = first + 1;
        if (next == axes_.count) {
            return false; // one axis alone cannot reach 0
        }
        // The multiples that the remaining axes can cancel.
        const Wide every = divisor_[next] / std::gcd(divisor_[next], axes_.all[first].stride);
        for (Wide d = every; d <= most(first) && d * stride(first) <= reach_[next]; d += every) {
            if (reaches(next, d * stride(first))) {
                return true;
            }
            if (exhausted_) {
                return false;
            }
        }
        return false;
    }

    // True if the axes from `k` on can add up to `sum`.
    bool reaches(size_t k, Wide sum) {
        if (steps_ == 0) {
            exhausted_ = true;
            return false;
        }
        --steps_;
        if (magnitude(sum) > reach_[k] || sum % static_cast<Wide>(divisor_[k]) != 0) {
            return false;
        }
        const size_t next = k + 1;
        if (next == axes_.count) {
            return true; // the stride divides the sum, and the quotient is within the size
        }
        // stride * d == sum (mod divisor of the rest), and the remainder must be within the range of the rest.
        const Wide common = std::gcd(axes_.all[k].stride, divisor_[next]);
        const Wide every = static_cast<Wide>(divisor_[next]) / common;
        const Wide residue = ((sum / common) % every + every) % every;
        const Wide start = every == 1 ? 0 : residue * inverse(stride(k) / common, every) % every;
        const Wide low = std::max(-most(k), ceiling_division(sum - reach_[next], stride(k)));
        const Wide high = std::min(most(k), floor_division(sum + reach_[next], stride(k)));
        for (Wide d = start + ceiling_division(low - start, every) * every; d <= high && !exhausted_; d += every) {
            if (reaches(next, sum - d * stride(k))) {
                return true;
            }
        }
        return false;
    }

    Axes axes_; // widest stride first
    std::array<Wide, OPDOCK_MAX_RANK + 1> reach_{};
    std::array<uint64_t, OPDOCK_MAX_RANK + 1> divisor_{};
    uint64_t steps_;
    bool exhausted_ = false;
};

} // namespace

SelfOverlap self_overlap(const Axes &axes, uint64_t steps) {
    if (std::any_of(axes.begin(), axes.end(), [](const Axis &axis) { return axis.stride == 0; })) {
        return SelfOverlap::some;
    }
    // More indices than elements in the address range: two must meet.
    Wide indices = 1, elements = 1;
    for (const Axis &axis : axes) {
        indices *= axis.size;
        elements += static_cast<Wide>(axis.size - 1) * static_cast<Wide>(axis.stride);
    }
    if (indices > elements) {
        return SelfOverlap::some;
    }
    return Search(axes, steps).run();
}

} // namespace opdock::core
