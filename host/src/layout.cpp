#include "layout.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "error.hpp"
#include "opdock/abi/version.h"
#include "solve.hpp"

namespace opdock::core {

namespace {

// The size of every list, and the one that all present ones share.
class ListSizes {
  public:
    ListSizes(const Signature &signature, const opdock_args &args) : signature_(signature), args_(args) {
        if (args.n_lists > signature.n_lists) {
            fail(signature, fmt::format("n_lists is {}, expected {}", args.n_lists, signature.n_lists));
        }
    }

    uint32_t next(const Parameter &parameter, ArgumentPlace place) {
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
            fail(signature_, fmt::format("list '{}' has {} elements, expected {} as in list '{}'",
                                         signature_.parameter(place.parameter).name, size, elements_, first_->name));
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

[[noreturn]] void fail_missing(const Signature &signature, ArgumentPlace place, const Given &given, uint32_t at) {
    fail(signature, place,
         at < given.count ? std::string("is missing: it is null and not optional")
                          : fmt::format("is missing: the call has {} {}", given.count, given.what));
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

Layout lay_out(const Signature &signature, const opdock_args &args, bool with_outputs,
               std::vector<const DLTensor *> &tensors, std::vector<uint32_t> &first) {
    const auto n_inputs = static_cast<uint32_t>(signature.inputs.size());
    const auto n_outputs = static_cast<uint32_t>(with_outputs ? signature.outputs.size() : 0);
    ListSizes sizes(signature, args);
    Layout layout;
    tensors.clear();
    first.clear();
    first.push_back(0);
    const auto place_section = [&](const std::vector<Parameter> &parameters, uint32_t offset, uint32_t count,
                                   const Given &given) {
        uint32_t taken = 0;
        size_t used = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const Parameter &parameter = parameters[i];
            const uint32_t wanted = parameter.list ? sizes.next(parameter, {offset + i, 0}) : 1;
            bool present = !parameter.optional;
            for (uint32_t element = 0; element < wanted; ++element) {
                const DLTensor *tensor = taken < given.count ? given.tensors[taken] : nullptr;
                if (tensor != nullptr) {
                    present = true;
                } else if (parameter.list || !parameter.optional) {
                    fail_missing(signature, {offset + i, element}, given, taken);
                }
                taken += taken < given.count ? 1 : 0;
                tensors.push_back(tensor);
            }
            first.push_back(static_cast<uint32_t>(tensors.size()));
            used = present ? i + 1 : used;
        }
        if (taken < given.count) {
            fail(signature,
                 fmt::format("got {} {}, expected at most {}: {}", given.count, given.what, taken, signature.text));
        }
        return used;
    };
    layout.used_inputs = place_section(signature.inputs, 0, n_inputs, {args.inputs, args.n_inputs, "inputs"});
    if (with_outputs) {
        layout.used_outputs =
            place_section(signature.outputs, n_inputs, n_outputs, {args.outputs, args.n_outputs, "outputs"});
    }
    layout.elements = sizes.elements();
    return layout;
}

} // namespace opdock::core
