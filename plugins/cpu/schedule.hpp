// Distribution of a call over threads: knobs, and loops that obey them. The threads come from the program's thread pool
// if it lends one, else from oneTBB. A child forked while there were oneTBB threads uses the calling thread alone.
//
// Chunks are independent and each row is computed in one place, so results depend neither on the number of threads nor
// on the assignment of chunks to them.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"

namespace cpu {

// The knobs of every implementation here, in the order of their declaration.
struct Knobs {
    int64_t grain_kib; // KiB of tensor data per task; a call with no more than this runs on the calling thread
    bool stream;       // write outputs past the caches
    const opdock_host_api *host;

    static Knobs of(const opdock::Problem &problem) {
        return {problem.knob(0), problem.knob(1) != 0, problem.c().host};
    }
};

namespace detail {

void run_chunks(const opdock_host_api &host, int64_t items, int64_t grain,
                void (*body)(const void *context, int64_t begin, int64_t end), const void *context);

} // namespace detail

// Calls body(begin, end) for chunks that cover 0 .. items.
template<class Body>
void in_chunks(int64_t items, int64_t bytes_per_item, const Knobs &knobs, const Body &body) {
    const int64_t grain = bytes_per_item > 0 ? knobs.grain_kib * 1024 / bytes_per_item : items;
    if (items <= grain || items <= 1) {
        if (items > 0)
            body(0, items);
        return;
    }
    detail::run_chunks(
        *knobs.host, items, grain > 1 ? grain : 1,
        [](const void *context, int64_t begin, int64_t end) { (*static_cast<const Body *>(context))(begin, end); },
        &body);
}

// Calls rows(arguments, begin, end) for such chunks, where `rows` is the result of HWY_DYNAMIC_DISPATCH.
template<class Arguments>
void in_chunks(int64_t items, int64_t bytes_per_item, const Knobs &knobs,
               void (*rows)(const Arguments &arguments, int64_t begin, int64_t end), const Arguments &arguments) {
    in_chunks(items, bytes_per_item, knobs, [&](int64_t begin, int64_t end) { rows(arguments, begin, end); });
}

} // namespace cpu
