#include "blas.hpp"

#include <mutex>

#include <cblas.h>
#include <pthread.h>

// The serial OpenBLAS hands out its packing buffers without a lock: threads that call at the same moment may get the
// same buffer and compute garbage (in 1 of 200 products of 64 x 64 on four threads). The linker replaces its two
// functions by these.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,readability-identifier-naming): the linker makes these names
extern "C" {
void *__real_blas_memory_alloc(int position);
void __real_blas_memory_free(void *buffer);
void *__wrap_blas_memory_alloc(int position);
void __wrap_blas_memory_free(void *buffer);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,readability-identifier-naming)

namespace {

std::mutex &buffers() {
    static std::mutex mutex;
    return mutex;
}

} // namespace

void *__wrap_blas_memory_alloc(int position) {
    const std::lock_guard lock(buffers());
    return __real_blas_memory_alloc(position);
}

void __wrap_blas_memory_free(void *buffer) {
    const std::lock_guard lock(buffers());
    __real_blas_memory_free(buffer);
}

namespace cpu {
namespace {

// OpenBLAS holds that lock for a moment in each call. A child forked at that moment would find it locked forever, so
// forks wait until no thread is in a call. Forks take precedence, or a steady stream of calls would starve them.
pthread_rwlock_t calling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void before_fork() {
    pthread_rwlock_wrlock(&calling);
}

void after_fork() {
    pthread_rwlock_unlock(&calling);
}

// Calls that other threads were waiting to make at the fork do not exist in the child.
void after_fork_in_child() {
    calling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

class Calling {
  public:
    Calling() {
        static const int registered = pthread_atfork(before_fork, after_fork, after_fork_in_child);
        (void)registered;
        pthread_rwlock_rdlock(&calling);
    }
    ~Calling() { pthread_rwlock_unlock(&calling); }
    Calling(const Calling &) = delete;
    Calling &operator=(const Calling &) = delete;
};

} // namespace

void multiply(const Matrix &x, int64_t rows, const Matrix &w, int64_t columns, int64_t depth, bool first, float *sums,
              int step) {
    const Calling this_call;
    cblas_sgemm(CblasRowMajor, x.down ? CblasTrans : CblasNoTrans, w.down ? CblasNoTrans : CblasTrans,
                static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(depth), 1.0f, x.data, x.step,
                w.data, w.step, first ? 0.0f : 1.0f, sums, step);
}

} // namespace cpu
