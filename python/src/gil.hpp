// Releases the interpreter's lock (GIL) while the host works.
#pragma once

#include <memory>
#include <utility>

#include <Python.h>
#include <unistd.h>

namespace opdock::python {

class ReleasedGil {
  public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil &) = delete;
    ReleasedGil &operator=(const ReleasedGil &) = delete;
    // The interpreter unwinds a thread that returns after its end (pthread_exit), which no frame above can handle: the
    // thread waits here for the end of the process.
    ~ReleasedGil() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) {
                pause();
            }
        }
    }

  private:
    PyThreadState *state_;
};

// Runs work that may wait, or that runs plugin code, without the GIL.
template<class Work>
auto without_gil(Work work) {
    const ReleasedGil released;
    return work();
}

// Shared ownership of an object of the host; the last owner releases it without the GIL.
template<class T>
class Held : public std::shared_ptr<T> {
  public:
    using std::shared_ptr<T>::shared_ptr;
    Held(std::shared_ptr<T> other) : std::shared_ptr<T>(std::move(other)) {}
    Held(const Held &) = default;
    Held(Held &&) noexcept = default;
    Held &operator=(const Held &) = default;
    Held &operator=(Held &&) noexcept = default;
    ~Held() {
        if (this->use_count() == 1) {
            without_gil([&] { this->reset(); });
        }
    }
};

} // namespace opdock::python
