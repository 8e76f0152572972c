// Code that may be unloaded while the host is open: implementations of a module that its program may unregister.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace opdock::core {

struct Attempt;

// One per module: functions of its implementations are called only inside a Visit.
class Tenancy {
  public:
    static constexpr const char *gone = "its module was unregistered";

    class Visit {
      public:
        // `tenancy` may be null, for code that stays.
        explicit Visit(Tenancy *tenancy) noexcept : tenancy_(tenancy) {
            if (tenancy_ != nullptr) {
                forks_ = tenancy_->forks_.load(std::memory_order_relaxed);
                tenancy_->inside_.fetch_add(1);
                if (tenancy_->over_.load()) {
                    leave();
                    is_refused_ = true;
                }
            }
        }
        Visit(const Visit &) = delete;
        Visit &operator=(const Visit &) = delete;
        ~Visit() { leave(); }

        // True if the code is unloaded, or about to be.
        bool is_refused() const { return is_refused_; }

      private:
        void leave() noexcept {
            // A visit that was in progress when the process forked is not counted in the child.
            if (tenancy_ != nullptr && forks_ == tenancy_->forks_.load(std::memory_order_relaxed) &&
                tenancy_->inside_.fetch_sub(1) == 1) {
                tenancy_->inside_.notify_all();
            }
            tenancy_ = nullptr;
        }

        Tenancy *tenancy_;
        uint32_t forks_ = 0;
        bool is_refused_ = false;
    };

    // Refuses new visits and returns when none is left.
    void end() noexcept {
        over_.store(true);
        for (uint32_t inside = inside_.load(); inside != 0; inside = inside_.load()) {
            inside_.wait(inside);
        }
    }

    // Attempts that hold a plan.
    struct Plans {
        std::recursive_mutex mutex; // a plan may contain a plan of the same module
        std::set<Attempt *> held;
        const Plans *of_parent = nullptr;
    };
    Plans &plans() { return *plans_; }

    // In a forked child, where the visiting threads do not exist. One of them may have been changing the plans, so
    // these are abandoned; the parent's plans are not released here.
    void start_over_in_child() {
        forks_.fetch_add(1, std::memory_order_relaxed);
        inside_.store(0);
        auto fresh = std::make_unique<Plans>();
        fresh->of_parent = plans_.release();
        plans_ = std::move(fresh);
    }

  private:
    std::unique_ptr<Plans> plans_ = std::make_unique<Plans>();
    std::atomic<uint32_t> inside_{0};
    std::atomic<uint32_t> forks_{0};
    std::atomic<bool> over_{false};
};

} // namespace opdock::core
