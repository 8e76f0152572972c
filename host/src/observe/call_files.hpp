// Files of calls with the contents of their tensors (the variable CALL_FILES), as .safetensors, which plugin-run and
// plugin-check replay.
//
// Tensors are row-major and contiguous. Inputs, as they were before the call, have the names of their parameters;
// further tensors of a list are "NAME.1", "NAME.2". The program's results are "program.NAME", a shadow's results
// "shadow.NAME". The file's metadata holds the rest, as texts: "format" (opdock.call/1), "opdock" (its version), "op",
// "device", "implementation", "config", "shadow" and "difference" (if there was a shadow); and as JSON "attributes"
// ({name: text as --attr takes it}, for non-default values), "outputs" (a list of the optional ones present) and
// "strides" ({tensor: list}, for tensors that were not row-major and contiguous).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "observe/call_text.hpp"
#include "text/setting_text.hpp"

namespace opdock::core {

struct CallFile {
    struct Tensor {
        std::string name; // in the file
        uint32_t dtype;   // packed
        std::vector<int64_t> shape;
        std::vector<std::byte> bytes;
    };
    struct Strides {
        std::string name;
        std::vector<int64_t> strides; // in elements
    };

    CallText text;
    std::string shadow; // impl_id
    std::string difference;
    std::vector<Strides> strides;
    std::vector<Tensor> tensors;
};

// Numbers of the calls of an op that are to be written.
struct CallNumbers {
    std::string op; // empty: every op
    uint64_t first = 1;
    uint64_t last = 1;
};

// Safe to use from any thread and in a forked child.
class CallFiles {
  public:
    // Limits per process: a wrong implementation is wrong in every call.
    static constexpr uint32_t most_files = 3; // per implementation of an op on a device
    static constexpr uint64_t most_bytes = uint64_t{1} << 30;

    // Parses "FOLDER" or "FOLDER;gelu@1;all@1..3": an absolute path, whose folder is created if
    // missing, and the calls of each implementation to write. Throws Error(OPDOCK_INVALID_POLICY).
    CallFiles(std::string_view value, const Place &place, uint64_t bytes = most_bytes);

    // The op's own numbers, else those for all ops, else null.
    const CallNumbers *numbers_for(std::string_view op) const;
    // True if another file of a call that differs is wanted; `count`: number of such files of the implementation.
    bool takes(const std::atomic<uint32_t> &count) const {
        return !has_failed_.load(std::memory_order_relaxed) && count.load(std::memory_order_relaxed) < most_files;
    }
    // Takes `bytes` from the remaining budget; returns false if there are fewer. `told` receives the
    // log message about that, once.
    bool reserve(uint64_t bytes, std::string *told);
    // Returns the log message: the path of the file, or why there is none; empty if that was logged before.
    std::string write(const CallFile &call, std::atomic<uint32_t> &count);
    // The same for a call that is written by its number.
    std::string write(const CallFile &call, uint64_t number);

  private:
    std::string path_of(const CallFile &call, const std::string &which) const;
    std::string free_path(const CallFile &call, std::atomic<uint32_t> &count) const;
    // Returns why it was not written, or an empty text.
    std::string write_to(const std::string &path, const CallFile &call);

    std::string folder_;
    std::vector<CallNumbers> numbers_;
    std::atomic<uint64_t> left_; // bytes
    std::atomic<bool> is_full_told_{false};
    std::atomic<bool> has_failed_{false};
};

} // namespace opdock::core
