// Files of calls with the contents of their tensors (the variable CALL_FILES), as .safetensors, which plugin-run and
// plugin-check replay.
//
// Tensors are row-major without gaps. Those of the inputs, as they were before the call, have the names of their
// parameters; further ones of a list "NAME.1", "NAME.2". What the program got is "program.NAME", what a shadow computed
// "shadow.NAME". The metadata of the file says the rest, in texts: "format" (opdock.call/1), "opdock" (its version),
// "op", "device", "implementation", "config", "shadow" and "difference" (where there was a shadow); and in JSON
// "attributes" ({name: text as --attr takes it}, those that are not at their default), "outputs" (a list of the
// optional ones that are there) and "strides" ({tensor: list}, of those that were not row-major without gaps).
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

// Calls of an op that are written because of their numbers.
struct CallNumbers {
    std::string op; // empty: every op
    uint64_t first = 1;
    uint64_t last = 1;
};

// Safe to use from any thread, and in a forked child.
class CallFiles {
  public:
    // Bounds of a process: a wrong implementation is wrong in each call.
    static constexpr uint32_t most_files = 3; // of one implementation of one op on one device
    static constexpr uint64_t most_bytes = uint64_t{1} << 30;

    // "FOLDER" or "FOLDER;gelu@1;all@1..3": an absolute path, whose folder is made where it is missing, and the calls
    // to write of each implementation. Throws Error(OPDOCK_INVALID_POLICY).
    CallFiles(std::string_view value, const Place &place, uint64_t bytes = most_bytes);

    // The op's own, or those for all; null: none.
    const CallNumbers *numbers_for(std::string_view op) const;
    // Whether there is to be another file of calls that differ; `count` is how many there were of the implementation.
    bool takes(const std::atomic<uint32_t> &count) const {
        return !has_failed_.load(std::memory_order_relaxed) && count.load(std::memory_order_relaxed) < most_files;
    }
    // Takes so many bytes from those that are left; false where there are fewer. `told` is what the log says of that,
    // once.
    bool reserve(uint64_t bytes, std::string *told);
    // Returns what the log says of it: where the file is, or why there is none; empty where that was told.
    std::string write(const CallFile &call, std::atomic<uint32_t> &count);
    // The same of a call that is written because of its number.
    std::string write(const CallFile &call, uint64_t number);

  private:
    std::string path_of(const CallFile &call, const std::string &which) const;
    std::string free_path(const CallFile &call, std::atomic<uint32_t> &count) const;
    // Empty, or why it was not.
    std::string write_to(const std::string &path, const CallFile &call);

    std::string folder_;
    std::vector<CallNumbers> numbers_;
    std::atomic<uint64_t> left_; // bytes
    std::atomic<bool> is_full_told_{false};
    std::atomic<bool> has_failed_{false};
};

} // namespace opdock::core
