#include "block.hpp"

#include <csetjmp>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace emulated {

Index thread_index, block_index, block_size, grid_size;
int warp_size = 64;

namespace {

constexpr std::size_t stack_bytes = std::size_t(128) << 10;
constexpr int most_lanes = 64;

enum class Wait : std::uint8_t { none, block, any_of_block, warp, any_of_warp, ballot, shuffle };

const char *name_of(Wait wait) {
    constexpr const char *names[] = {
        "no wait",  "a barrier", "a barrier with a vote", "a barrier of the warp", "a vote of the warp",
        "a ballot", "a shuffle"};
    return names[static_cast<int>(wait)];
}

// Threads that wait for each other: a block or a warp.
struct Group {
    int size = 0, arrived = 0;
    Wait wait = Wait::none; // of the threads that have arrived
    unsigned round = 0;
};

struct Warp : Group {
    std::uint64_t values[2][most_lanes]; // this round's, and the previous round's, which other threads may still read
};

struct Stack {
    std::jmp_buf idle; // where the stack takes its next thread
};

struct Thread {
    std::jmp_buf next; // where the thread continues
    Wait wait = Wait::none;
};

void begin_stack();

// Runs the threads of one block after another.
class Threads {
  public:
    std::string run(int count, bool descends, const std::function<void()> &kernel);

    // Returns the round, once all threads of the group have arrived.
    unsigned arrive(Group &group, Wait wait);
    Group &block() { return block_; }
    Warp &warp() { return warps_[thread_index.x / static_cast<unsigned>(warp_size)]; }
    bool any[2] = {false, false}; // for the block, by round

    // Main loop of a stack, entered with its first call.
    void serve(Stack &stack);
    Stack *starting = nullptr;

  private:
    void start_groups(int count);
    int thread_at(int number) const { return descends_ ? count_ - 1 - number : number; }
    void release(int first, int size);
    [[noreturn]] void switch_to_next();
    [[noreturn]] void leave_with(const std::string &why);
    void enter_new_stack();
    void set_current(int thread) { thread_index.x = static_cast<unsigned>(thread); }
    std::string what_is_left() const;

    const std::function<void()> *kernel_ = nullptr;
    int count_ = 0, started_ = 0, finished_ = 0;
    bool descends_ = false;
    std::string wrong_;
    Group block_;
    std::vector<Warp> warps_;
    std::vector<Thread> threads_;
    std::deque<int> ready_;
    std::vector<std::unique_ptr<Stack>> stacks_;
    std::vector<Stack *> idle_;
    std::jmp_buf caller_;
    ucontext_t entered_from_;
};

Threads &all_threads() {
    static auto *threads = new Threads; // lives as long as the program, like its stacks
    return *threads;
}

void Threads::start_groups(int count) {
    count_ = count;
    started_ = finished_ = 0;
    wrong_.clear();
    ready_.clear();
    threads_.assign(static_cast<std::size_t>(count), {});
    block_ = {};
    block_.size = count;
    any[0] = any[1] = false;
    warps_.resize(static_cast<std::size_t>((count + warp_size - 1) / warp_size));
    for (std::size_t i = 0; i < warps_.size(); ++i) {
        static_cast<Group &>(warps_[i]) = {};
        const int left = count - static_cast<int>(i) * warp_size;
        warps_[i].size = left < warp_size ? left : warp_size;
    }
    idle_.clear();
    for (const auto &stack : stacks_) {
        idle_.push_back(stack.get());
    }
}

std::string Threads::run(int count, bool descends, const std::function<void()> &kernel) {
    kernel_ = &kernel;
    descends_ = descends;
    start_groups(count);
    if (_setjmp(caller_) == 0) {
        switch_to_next();
    }
    return wrong_;
}

std::string Threads::what_is_left() const {
    std::string text = std::to_string(finished_) + " of " + std::to_string(count_) + " threads have returned, and";
    for (const Wait wait :
         {Wait::block, Wait::any_of_block, Wait::warp, Wait::any_of_warp, Wait::ballot, Wait::shuffle}) {
        int waiting = 0, first = 0;
        for (int i = count_ - 1; i >= 0; --i) {
            if (threads_[static_cast<std::size_t>(i)].wait == wait) {
                ++waiting;
                first = i;
            }
        }
        if (waiting != 0) {
            text += " " + std::to_string(waiting) + " wait at " + name_of(wait) + " (thread " + std::to_string(first) +
                    " first);";
        }
    }
    text.back() = '.';
    return text;
}

void Threads::leave_with(const std::string &why) {
    wrong_ = why;
    _longjmp(caller_, 1);
}

// Threads that were released run before those that have not begun.
void Threads::switch_to_next() {
    if (!ready_.empty()) {
        const int thread = ready_.front();
        ready_.pop_front();
        set_current(thread);
        _longjmp(threads_[static_cast<std::size_t>(thread)].next, 1);
    }
    if (started_ < count_) {
        if (idle_.empty()) {
            enter_new_stack();
        }
        Stack *stack = idle_.back();
        idle_.pop_back();
        _longjmp(stack->idle, 1);
    }
    if (finished_ != count_) {
        wrong_ = "a wait never ends: " + what_is_left();
    }
    _longjmp(caller_, 1);
}

// A guard page lies below the stack.
void Threads::enter_new_stack() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
        leave_with("no memory for the stack of a thread");
    }
    stacks_.push_back(std::make_unique<Stack>());
    starting = stacks_.back().get();
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = static_cast<std::byte *>(memory) + page;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, begin_stack, 0);
    swapcontext(&entered_from_, &context); // returns as soon as the stack is idle
    idle_.push_back(starting);
}

void Threads::serve(Stack &stack) {
    if (_setjmp(stack.idle) == 0) {
        setcontext(&entered_from_);
    }
    for (;;) {
        while (ready_.empty() && started_ < count_) {
            set_current(thread_at(started_++));
            (*kernel_)();
            ++finished_;
        }
        idle_.push_back(&stack);
        if (_setjmp(stack.idle) == 0) {
            switch_to_next();
        }
    }
}

void begin_stack() {
    all_threads().serve(*all_threads().starting);
}

void Threads::release(int first, int size) {
    for (int i = 0; i < size; ++i) {
        const int thread = descends_ ? first + size - 1 - i : first + i;
        Thread &one = threads_[static_cast<std::size_t>(thread)];
        if (one.wait != Wait::none) { // the last thread to arrive does not wait
            one.wait = Wait::none;
            ready_.push_back(thread);
        }
    }
}

unsigned Threads::arrive(Group &group, Wait wait) {
    const unsigned round = group.round;
    const auto own = static_cast<int>(thread_index.x);
    if (group.arrived != 0 && group.wait != wait) {
        leave_with("threads wait for each other in different ways: thread " + std::to_string(own) + " at " +
                   name_of(wait) + ", others at " + name_of(group.wait));
    }
    group.wait = wait;
    if (++group.arrived < group.size) {
        threads_[static_cast<std::size_t>(own)].wait = wait;
        if (_setjmp(threads_[static_cast<std::size_t>(own)].next) == 0) {
            switch_to_next();
        }
        return round;
    }
    group.arrived = 0;
    ++group.round;
    if (&group == &block_) {
        any[group.round % 2] = false;
        release(0, count_);
    } else {
        release(own / warp_size * warp_size, group.size);
    }
    return round;
}

} // namespace

std::string run_threads(int threads, int of_warp, bool descends, const std::function<void()> &kernel) {
    warp_size = of_warp;
    block_size = {static_cast<unsigned>(threads), 1, 1};
    return all_threads().run(threads, descends, kernel);
}

std::string run_block(int threads, int of_warp, std::size_t floats, const std::function<void(int, float *)> &kernel) {
    std::vector<float> shared(floats, std::numeric_limits<float>::quiet_NaN());
    grid_size = {1, 1, 1};
    block_index = {};
    return run_threads(threads, of_warp, false, [&] { kernel(static_cast<int>(thread_index.x), shared.data()); });
}

void wait_for_block() {
    all_threads().arrive(all_threads().block(), Wait::block);
}

bool any_of_block(bool holds) {
    Threads &threads = all_threads();
    bool &any = threads.any[threads.block().round % 2];
    any = any || holds;
    return threads.any[threads.arrive(threads.block(), Wait::any_of_block) % 2];
}

void wait_for_warp() {
    all_threads().arrive(all_threads().warp(), Wait::warp);
}

namespace {

// The values that all lanes of the warp passed.
const std::uint64_t *exchange(std::uint64_t mine, Wait wait) {
    Warp &warp = all_threads().warp();
    warp.values[warp.round % 2][thread_index.x % static_cast<unsigned>(warp_size)] = mine;
    return warp.values[all_threads().arrive(warp, wait) % 2];
}

} // namespace

std::uint64_t ballot(bool holds) {
    const std::uint64_t *values = exchange(holds ? 1 : 0, Wait::ballot);
    std::uint64_t bits = 0;
    for (int lane = 0; lane < all_threads().warp().size; ++lane) {
        bits |= values[lane] << lane;
    }
    return bits;
}

bool any_of_warp(bool holds) {
    const std::uint64_t *values = exchange(holds ? 1 : 0, Wait::any_of_warp);
    bool any = false;
    for (int lane = 0; lane < all_threads().warp().size; ++lane) {
        any = any || values[lane] != 0;
    }
    return any;
}

std::uint64_t value_of_lane(std::uint64_t mine, int lane) {
    const std::uint64_t *values = exchange(mine, Wait::shuffle);
    return lane < all_threads().warp().size ? values[lane] : ~std::uint64_t(0);
}

} // namespace emulated
