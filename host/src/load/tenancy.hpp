// Code that may go while the host is open: the implementations of a module that its program may take away again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace opdock::core {

struct Attempt;

// One of each module: functions of its implementations are called inside a Visit alone.
class Tenancy {
  public:
    static constexpr const char *gone = "its module was unregistered";

    class Visit {
      public:
        // `tenancy` may be null: of code that stays.
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

        // Its code is gone, or about to go.
        bool is_refused() const { return is_refused_; }

      private:
        void leave() noexcept {
            // One that the process was forked in is not counted in the child.
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

    // From here on no visit begins; returns when none is left.
    void end() noexcept {
        over_.store(true);
        for (uint32_t inside = inside_.load(); inside != 0; inside = inside_.load()) {
            inside_.wait(inside);
        }
    }

    // Those that hold a plan.
    struct Plans {
        std::recursive_mutex mutex; // a plan may have a part of the same module
        std::set<Attempt *> held;
        const Plans *of_parent = nullptr;
    };
    Plans &plans() { return *plans_; }

    // In a forked child, where the threads of those inside are not. One of them may have been changing the plans: these
    // are abandoned, and what the parent planned is not given back here.
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
