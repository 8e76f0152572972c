// Validates the arguments of a call against the op's signature.
#pragma once

#include <cstdint>
#include <vector>

#include "opdock/abi/args.h"
#include "signature/overlap.hpp"
#include "signature/signature.hpp"

namespace opdock::core {

// A valid call. Borrows from the arguments and the signature.
struct Bound {
    // Inputs, then outputs, lists flattened; null for an optional parameter that is absent or omitted.
    std::vector<const DLTensor *> tensors;
    // n_params + 1 numbers: the tensors of parameter p are first[p] .. first[p + 1] - 1.
    std::vector<uint32_t> first;
    // In signature order, defaults filled in, ints promoted where a float is expected.
    std::vector<opdock_value> attributes;
    // For each dtype variable, packed; 0 if this call leaves it unbound.
    std::vector<uint32_t> dtypes;
    // The device of all tensors except those marked `host`; if there are none, the arguments' device.
    DLDevice device{};
    // True if a failed call may have changed inputs: a `mut` input is given, or an output is its `~` input.
    bool writes_inputs = false;
    // Number of leading parameters and attributes that the call uses; the rest is absent or at its default.
    size_t used_inputs = 0;
    size_t used_outputs = 0;
    size_t used_attributes = 0;

    std::vector<Extent> extents; // scratch
};

// Whether tensors must have data pointers: a prepared call is validated before there is any data.
enum class Pointing { required, optional };

// Throws Error(OPDOCK_INVALID_ARGUMENT) for the first error. With `reuse`, vectors keep their memory.
Bound bind(const Signature &signature, const opdock_args &args, Pointing pointing = Pointing::required);
void bind(const Signature &signature, const opdock_args &args, Bound &reuse, Pointing pointing = Pointing::required);

// True if a call uses nothing that `shorter`, a form that `full` extends, lacks.
bool fits_form(const Signature &shorter, const Signature &full, const Bound &bound);

} // namespace opdock::core
