// The plugin's description, read once from the data that opdock/triton/_pack.py appended to this library.
//
//   data = u64 packed size, u64 size, the packed description, and the packed images
//
// A *kernel* is one compiled function. A *launch* is one step of an implementation. It runs one of its kernels, chosen
// by dtypes, architecture, the values of its keys, and its *variant*: the assumptions about the arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "expression.hpp"

namespace opdock::triton {

// Packed code: a cubin or an hsaco.
struct Image {
    std::uint64_t offset, packed_size, size;
};

struct Kernel {
    std::uint64_t image;
    std::string name;
    std::uint64_t threads, shared_bytes;
    // Global memory that each block needs for the kernel's own use; 0 if none.
    std::uint64_t scratch_bytes;
};

struct Architecture {
    std::string name;                // "sm_80"
    std::vector<std::string> serves; // architectures of devices that can run its code
    std::int64_t toolkit;            // major version of the CUDA toolkit that made the code; 0 for HIP
};

struct Variable {
    enum class Kind : std::uint8_t {
        dim,          // name
        attribute,    // first: its index
        knob,         // first: its index
        stride,       // first: parameter; second: dim from the left, or, negative, from the right
        row_stride,   // first: parameter; second: number of dims after the rows
        has,          // first: parameter
        element_size, // first: parameter
        memory,       // device memory, as are all that follow
        compute_units,
        warp_size,
        shared_memory,
        cache,
        end
    };
    Kind kind;
    std::string name;
    std::int64_t first, second;
};

struct Knob {
    std::string name;
    std::int64_t minimum, maximum;
};

struct Parameter {
    enum class Kind : std::uint8_t { tensor, workspace, number, end };
    enum class Type : std::uint8_t { pointer, i1, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, end };
    std::string name;
    Kind kind;
    Type type;
    std::int64_t index;     // op parameter or workspace
    std::int64_t otherwise; // workspace used if the tensor is absent, or -1
    Expression value;       // for a number
};

// The assumptions of a kernel's code, as indices of the launch's parameters.
struct Variant {
    std::vector<std::int64_t> aligned;   // pointers aligned to 16 bytes
    std::vector<std::int64_t> divisible; // by 16
    std::vector<std::int64_t> ones;      // equal to 1, and not passed
};

struct Launch {
    std::string function; // "pointwise:add", for messages
    Expression when;      // empty: always
    std::vector<Expression> grid;
    std::vector<Parameter> parameters;
    std::vector<Variant> variants;
    std::vector<std::string> key_names;
    std::vector<Expression> keys;
    std::vector<std::vector<double>> key_values;
    // [dtypes][architecture][variant][key]: a kernel's number, or -1
    std::vector<std::int64_t> kernels;
};

// A dtype variable of the signature, and where a call defines it.
struct DtypeSource {
    std::int64_t parameter; // -1: an attribute
    std::int64_t attribute;
};

struct Implementation {
    std::string op, signature, impl_id, device, dtypes, architectures;
    std::int64_t priority;
    bool is_deterministic, needs_contiguous;
    std::vector<Knob> knobs;
    std::vector<DtypeSource> dtype_sources;
    std::vector<std::vector<std::int64_t>> dtype_tuples; // packed
    std::vector<std::int64_t> architecture_numbers;      // indices into the plugin's architectures
    std::vector<Variable> variables;
    std::vector<Expression> where;
    std::vector<std::vector<std::int64_t>> configs; // one value per knob
    struct Heuristic {
        std::int64_t knob;
        Expression value;
    };
    std::vector<Heuristic> heuristics;
    std::vector<Expression> workspaces; // sizes in bytes
    std::vector<Launch> launches;
};

struct Description {
    std::int64_t tune_version;
    std::vector<Architecture> architectures;
    std::vector<Image> images;
    std::vector<Kernel> kernels;
    std::vector<Implementation> implementations;
};

// Throws std::runtime_error if the data is truncated or damaged.
Description read_description(std::string_view data);

// Unpacks the code of an image.
std::string unpack_image(std::string_view data, const Image &image);

} // namespace opdock::triton
