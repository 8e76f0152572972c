// A prepared call of an op of the CPU plugin, with tensors of its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opdock/opdock.hpp"

namespace opdock::bench {

using Shape = std::vector<int64_t>;

// One tensor of a call. Inputs hold small positive numbers or, for i64, class indices.
struct Operand {
    Shape shape;
    std::optional<DLDataType> dtype = {}; // none: the dtype of the run
    bool absent = false;
};

struct Case {
    std::string op;
    std::vector<Operand> inputs, outputs;
    std::vector<Attribute> attributes = {};
    std::vector<uint32_t> list_sizes = {};
};

inline int64_t elements(const Shape &shape) {
    int64_t product = 1;
    for (const int64_t size : shape)
        product *= size;
    return product;
}

inline Host &host() {
    setenv("OPDOCK_BENCH_DEFAULT_PLUGINS", "cpu", 1); // as built, not installed beside the library
    static Host opened({.modules = {CPU_PLUGIN}, .prefix = "OPDOCK_BENCH_", .log = [](int32_t, std::string_view) {}});
    return opened;
}

// The tensors of a call, and the prepared call.
class Subject {
  public:
    Subject(const Case &of, DLDataType dtype) {
        for (const auto *operands : {&of.inputs, &of.outputs}) {
            for (const Operand &operand : *operands)
                add(operand, operand.dtype.value_or(dtype), operands == &of.inputs);
        }
        std::vector<TensorArg> arguments;
        for (const auto &tensor : tensors_)
            arguments.push_back(tensor.get());
        const std::span<const TensorArg> all(arguments);
        const Policy policy = host().policy({{"prefer", "default"}, {"strict", "1"}});
        Args args(all.first(of.inputs.size()), all.subspan(of.inputs.size()), of.attributes);
        if (!of.list_sizes.empty())
            args.lists(of.list_sizes);
        prepared_.emplace(host().op(of.op).prepare(args, policy));
        workspace_.resize(prepared_->workspace_size() + 256);
    }

    int64_t bytes() const { return bytes_; }

    opdock_status run() {
        void *workspace = workspace_.data();
        size_t space = workspace_.size();
        std::align(256, prepared_->workspace_size(), workspace, space);
        return prepared_->run(pointers_, nullptr, workspace);
    }

  private:
    void add(const Operand &operand, DLDataType dtype, bool is_input) {
        if (operand.absent) {
            tensors_.push_back(nullptr);
            pointers_.push_back(nullptr);
            return;
        }
        const int64_t size = elements(operand.shape) * dtype.bits / 8;
        bytes_ += size;
        const auto padded = static_cast<size_t>((size + 4095) / 4096 * 4096);
        memory_.emplace_back(static_cast<std::byte *>(std::aligned_alloc(4096, padded)), &std::free);
        // 0x3c3c is 1.06 in f16 and 0.0115 in bf16 and f32; classes are 0.
        std::memset(memory_.back().get(), is_input && dtype.code != kDLInt ? 0x3c : 0, padded);
        tensors_.push_back(std::make_unique<Tensor>(memory_.back().get(), dtype, operand.shape));
        pointers_.push_back(memory_.back().get());
    }

    std::vector<std::unique_ptr<std::byte, void (*)(void *)>> memory_;
    std::vector<std::unique_ptr<Tensor>> tensors_; // null where absent
    std::vector<void *> pointers_;
    std::vector<std::byte> workspace_;
    std::optional<Prepared> prepared_;
    int64_t bytes_ = 0;
};

} // namespace opdock::bench
