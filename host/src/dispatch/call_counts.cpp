#include "dispatch/call_counts.hpp"

#include <bit>
#include <map>
#include <memory>
#include <tuple>

#include "load/registration.hpp"

namespace opdock::core {

std::string_view count_name(Count count) {
    static constexpr std::array<std::string_view, n_counts> names = {"served", "declined", "failed",      "declined",
                                                                     "failed", "running",  "all_dropped", "all_failed"};
    return names.at(static_cast<size_t>(count));
}

CallCounts::CallCounts(const Implementation &of, CallCounts *older) : implementation_(of), older_(older) {
    blocks_[0] = new CountRow[n_first];
}

CallCounts::~CallCounts() {
    for (const auto &block : blocks_) {
        delete[] block.load(std::memory_order_relaxed);
    }
}

CountRow &CallCounts::row(uint32_t thread) {
    const auto number = static_cast<uint32_t>(std::bit_width((thread / n_first + 1) | 1u)) - 1; // index of the block
    const uint32_t before = n_first * ((1u << number) - 1);
    std::atomic<CountRow *> &block = blocks_.at(number);
    CountRow *rows = block.load(std::memory_order_acquire);
    if (rows == nullptr) {
        auto made = std::make_unique<CountRow[]>(size_t{n_first} << number);
        if (block.compare_exchange_strong(rows, made.get(), std::memory_order_acq_rel)) {
            rows = made.release();
        }
    }
    return rows[thread - before];
}

template<class Visit>
void CallCounts::each_row(Visit visit) const {
    for (size_t block = 0; block < blocks_.size(); ++block) {
        if (CountRow *const rows = blocks_.at(block).load(std::memory_order_acquire)) {
            for (size_t i = 0; i < size_t{n_first} << block; ++i) {
                visit(rows[i]);
            }
        }
    }
    visit(shared_);
}

std::array<uint64_t, n_counts> CallCounts::sums() const {
    std::array<uint64_t, n_counts> sums{};
    each_row([&](const CountRow &row) {
        for (size_t i = 0; i < n_counts; ++i) {
            sums.at(i) += row.counts.at(i).load(std::memory_order_relaxed);
        }
    });
    return sums;
}

std::array<uint64_t, n_shadow_counts> CallCounts::shadows() const {
    std::array<uint64_t, n_shadow_counts> counts{};
    for (size_t i = 0; i < n_shadow_counts; ++i) {
        counts.at(i) = shadows_.at(i).load(std::memory_order_relaxed);
    }
    return counts;
}

void CallCounts::start_over_in_child() {
    for (auto &count : shadows_) {
        count.store(0, std::memory_order_relaxed);
    }
    each_row([](CountRow &row) {
        for (auto &count : row.counts) {
            count.store(0, std::memory_order_relaxed);
        }
    });
}

AllCallCounts::~AllCallCounts() {
    for (CallCounts *one = newest_.load(); one != nullptr;) {
        const std::unique_ptr<CallCounts> owned(one);
        one = one->older();
    }
}

CallCounts &AllCallCounts::of(const Implementation &implementation) {
    CallCounts *const newest = newest_.load(std::memory_order_acquire);
    for (CallCounts *one = newest; one != nullptr; one = one->older()) {
        if (&one->implementation() == &implementation) {
            return *one;
        }
    }
    auto made = std::make_unique<CallCounts>(implementation, newest);
    newest_.store(made.get(), std::memory_order_release);
    return *made.release();
}

std::vector<CountedImplementation> AllCallCounts::all() const {
    std::map<std::tuple<std::string, std::string, std::string>, CountedImplementation> sorted;
    for (const CallCounts *one = newest_.load(std::memory_order_acquire); one != nullptr; one = one->older()) {
        const Implementation &its = one->implementation();
        CountedImplementation &counted = sorted[{its.op, its.impl_id, its.plugin}];
        if (counted.op.empty()) {
            counted = {its.op, its.impl_id, its.plugin, its.vendor, {}, {}};
        }
        const std::array<uint64_t, n_counts> sums = one->sums();
        for (size_t i = 0; i < n_counts; ++i) {
            counted.counts.at(i) += sums.at(i);
        }
        const std::array<uint64_t, n_shadow_counts> shadows = one->shadows();
        for (size_t i = 0; i < n_shadow_counts; ++i) {
            counted.shadows.at(i) += shadows.at(i);
        }
    }
    std::vector<CountedImplementation> all;
    all.reserve(sorted.size());
    for (auto &[key, counted] : sorted) {
        all.push_back(std::move(counted));
    }
    return all;
}

void AllCallCounts::start_over_in_child() {
    for (CallCounts *one = newest_.load(std::memory_order_acquire); one != nullptr; one = one->older()) {
        one->start_over_in_child();
    }
}

} // namespace opdock::core
