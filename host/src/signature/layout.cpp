#include "signature/layout.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "opdock/abi/version.h"
#include "signature/solve.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

// Sizes of the lists, and the size that all present lists share.
class ListSizes {
  public:
    ListSizes(const Signature &signature, const opdock_args &args) : signature_(signature), args_(args) {
        if (args.n_lists > signature.n_lists) {
            fail(signature, fmt::format("n_lists is {}, expected {}", args.n_lists, signature.n_lists));
        }
    }

    uint32_t next(const Parameter &parameter) {
        const uint32_t number = seen_++;
        if (number >= args_.n_lists && !parameter.optional) {
            fail(signature_, fmt::format("n_lists is {}, expected {}: list '{}' has no size", args_.n_lists,
                                         signature_.n_lists, parameter.name));
        }
        const uint32_t size = number < args_.n_lists ? args_.list_sizes[number] : 0;
        if (parameter.optional && size == 0) {
            return 0;
        }
        if (first_ == nullptr) {
            first_ = &parameter;
            elements_ = size;
        } else if (size != elements_) {
            fail(signature_, fmt::format("list '{}' has {}, expected {} as in list '{}'", parameter.name,
                                         counted(size, "element"), elements_, first_->name));
        }
        return size;
    }

    uint32_t elements() const { return elements_; }

  private:
    const Signature &signature_;
    const opdock_args &args_;
    const Parameter *first_ = nullptr;
    uint32_t seen_ = 0;
    uint32_t elements_ = 0;
};

struct Given {
    const DLTensor *const *tensors;
    uint32_t count;
    const char *what;
};

[[noreturn, gnu::cold]] void fail_missing(const Signature &signature, ArgumentPlace place, const Given &given,
                                          uint32_t at) {
    fail(signature, place,
         at < given.count ? std::string("is missing: it is null and not optional")
                          : fmt::format("is missing: the call has {} {}", given.count, given.what));
}

[[noreturn, gnu::cold]] void fail_extra(const Signature &signature, const Given &given, uint32_t taken) {
    fail(signature, fmt::format("got {} {}, expected at most {}: {}", given.count, given.what, taken, signature.text));
}

} // namespace

opdock_args full_args(const opdock_args &given) {
    constexpr uint32_t smallest = OPDOCK_STRUCT_SIZE(opdock_args, stream);
    if (given.struct_size < smallest) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("opdock_args.struct_size is {}, expected at least {}; set it with OPDOCK_STRUCT_SIZE",
                                given.struct_size, smallest));
    }
    opdock_args full = {};
    std::memcpy(&full, &given, std::min<size_t>(given.struct_size, sizeof full));
    full.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
    return full;
}

void check_args(const Signature &signature, const opdock_args &args) {
    if (args.flags != 0) {
        fail(signature, fmt::format("opdock_args.flags is {:#x}, expected 0", args.flags));
    }
    const auto check = [&signature](const void *pointer, uint32_t count, const char *name) {
        if (pointer == nullptr && count != 0) {
            fail(signature, fmt::format("opdock_args.n_{0} is {1} and its array is null", name, count));
        }
    };
    check(args.inputs, args.n_inputs, "inputs");
    check(args.outputs, args.n_outputs, "outputs");
    check(args.attributes, args.n_attributes, "attributes");
    check(args.list_sizes, args.n_lists, "lists");
}

namespace {

// Places one section (inputs or outputs) of an op without lists: each parameter gets one tensor.
size_t place_plain(const Signature &signature, const std::vector<Parameter> &parameters, uint32_t offset,
                   const Given &given, const DLTensor **tensors) {
    const auto count = static_cast<uint32_t>(parameters.size());
    if (given.count > count) {
        fail_extra(signature, given, count);
    }
    size_t used = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const DLTensor *tensor = i < given.count ? given.tensors[i] : nullptr;
        if (tensor != nullptr) {
            used = i + 1;
        } else if (!parameters[i].optional) {
            fail_missing(signature, {offset + i, 0}, given, i);
        }
        tensors[offset + i] = tensor;
    }
    return used;
}

// Places one section of an op with lists: a list takes as many tensors as its size says.
class Placement {
  public:
    Placement(const Signature &signature, const opdock_args &args, std::vector<const DLTensor *> &tensors,
              std::vector<uint32_t> &first)
        : signature_(signature), sizes_(signature, args), tensors_(tensors), first_(first) {
        tensors_.clear();
        first_.assign(1, 0);
    }

    size_t place(const std::vector<Parameter> &parameters, uint32_t offset, const Given &given) {
        uint32_t taken = 0;
        size_t used = 0;
        for (uint32_t i = 0; i < parameters.size(); ++i) {
            const Parameter &parameter = parameters[i];
            const uint32_t wanted = parameter.list ? sizes_.next(parameter) : 1;
            bool present = !parameter.optional;
            for (uint32_t element = 0; element < wanted; ++element, ++taken) {
                const DLTensor *tensor = taken < given.count ? given.tensors[taken] : nullptr;
                if (tensor == nullptr && (parameter.list || !parameter.optional)) {
                    fail_missing(signature_, {offset + i, element}, given, taken);
                }
                present |= tensor != nullptr;
                tensors_.push_back(tensor);
            }
            first_.push_back(static_cast<uint32_t>(tensors_.size()));
            used = present ? i + 1 : used;
        }
        if (given.count > taken) {
            fail_extra(signature_, given, taken);
        }
        return used;
    }

    uint32_t elements() const { return sizes_.elements(); }

  private:
    const Signature &signature_;
    ListSizes sizes_;
    std::vector<const DLTensor *> &tensors_;
    std::vector<uint32_t> &first_;
};

} // namespace

Layout lay_out(const Signature &signature, const opdock_args &args, bool with_outputs,
               std::vector<const DLTensor *> &tensors, std::vector<uint32_t> &first) {
    const auto n_inputs = static_cast<uint32_t>(signature.inputs.size());
    const Given inputs{args.inputs, args.n_inputs, "inputs"};
    const Given outputs{args.outputs, args.n_outputs, "outputs"};
    Layout layout;
    if (signature.has_lists()) {
        Placement placement(signature, args, tensors, first);
        layout.used_inputs = placement.place(signature.inputs, 0, inputs);
        layout.used_outputs = with_outputs ? placement.place(signature.outputs, n_inputs, outputs) : 0;
        layout.elements = placement.elements();
        return layout;
    }
    if (args.n_lists != 0) {
        fail(signature, fmt::format("n_lists is {}, expected 0: it has no lists", args.n_lists));
    }
    tensors.resize(with_outputs ? signature.n_params() : n_inputs);
    first.resize(tensors.size() + 1);
    std::iota(first.begin(), first.end(), 0u);
    layout.used_inputs = place_plain(signature, signature.inputs, 0, inputs, tensors.data());
    if (with_outputs) {
        layout.used_outputs = place_plain(signature, signature.outputs, n_inputs, outputs, tensors.data());
    }
    return layout;
}

} // namespace opdock::core
