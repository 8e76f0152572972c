#include "schedule.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

namespace cpu::detail {

void run_chunks(int64_t items, int64_t grain, void (*body)(const void *context, int64_t begin, int64_t end),
                const void *context) {
    using Range = oneapi::tbb::blocked_range<int64_t>;
    oneapi::tbb::parallel_for(Range(0, items, static_cast<size_t>(grain)),
                              [=](const Range &chunk) { body(context, chunk.begin(), chunk.end()); });
}

} // namespace cpu::detail
