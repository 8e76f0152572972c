// Data that a plugin made by `plugin-pack tvm-ffi` holds beside the code shared by all such plugins. The library is
// built with room for it, which plugin-pack fills in a copy. So a plugin's registration, its signature and the data
// that hosts remember of it all refer to a single file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "text/byte_codec.hpp"

namespace tvm_ffi {

// Layout in the file: the mark, the number of bytes that are filled, and the room.
inline constexpr char mark[] = "opdock tvm-ffi contents";
inline constexpr std::size_t room_bytes = std::size_t{64} * 1024;
// The GNU build id of a file that has not been filled yet.
inline constexpr std::string_view empty_build_id = "opdock tvm-ffi build";
inline constexpr std::size_t most_arguments = 64;

// One argument of the module's function.
struct Argument {
    enum class Source : std::uint8_t { tensor, attribute, knob, none, integer, boolean, real, text };
    Source source = Source::none;
    // tensor: parameter of the signature, outputs after inputs. attribute, knob: its index.
    std::uint32_t index = 0;
    // tensor: pass the dims that `...` stands for as one, with `before` dims before and `after` dims after it.
    bool flatten = false;
    std::uint32_t before = 0, after = 0;
    std::int64_t integer = 0; // also for a boolean; knob: 1 if it is a bool
    double real = 0;
    std::string text;
};

// A parameter or attribute that the function does not receive: calls that need it are declined.
struct Left {
    Argument::Source source = Argument::Source::tensor; // or attribute
    std::uint32_t index = 0;
    std::string name;
    // attribute: the only value that the function supports, as in opdock_value; 0 for lists, which are empty.
    std::uint32_t type = 0;
    std::int64_t integer = 0;
    double real = 0;
    std::string text;
};

// Arithmetic on dims in postfix order, and a comparison of two such expressions, or of one with several.
struct Term {
    enum class Kind : std::uint8_t { number, dim, add, subtract, multiply, divide, remainder };
    Kind kind = Kind::number;
    std::int64_t number = 0;
    std::string dim;
};
struct Limit {
    enum class Kind : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal, in };
    std::string text; // "n%8 == 0"
    Kind kind = Kind::equal;
    std::vector<Term> left;
    std::vector<std::vector<Term>> right;
};

struct Knob {
    std::string name;
    bool is_bool = false;
    std::int64_t minimum = 0, maximum = 0, standard = 0;
};

struct Implementation {
    std::string signature, id, device, dtypes, architectures;
    std::string module, function;
    std::int32_t priority = 0;
    std::uint32_t alignment = 0, flags = 0, required_flags = 0; // OPDOCK_IMPL_
    std::vector<std::uint32_t> written;                         // parameters: outputs and `mut` inputs
    std::vector<Knob> knobs;
    std::vector<Argument> arguments;
    std::vector<Left> left;
    std::vector<Limit> limits; // conditions on the calls that it serves
};

struct Contents {
    std::string library; // path of libtvm_ffi.so, or ""
    std::vector<Implementation> implementations;
};

// Visits every field in order, for writing and reading alike.
template<class Stream>
void each_field(Stream &stream, Argument &argument) {
    stream(argument.source);
    stream(argument.index);
    stream(argument.flatten);
    stream(argument.before);
    stream(argument.after);
    stream(argument.integer);
    stream(argument.real);
    stream(argument.text);
}

template<class Stream>
void each_field(Stream &stream, Left &left) {
    stream(left.source);
    stream(left.index);
    stream(left.name);
    stream(left.type);
    stream(left.integer);
    stream(left.real);
    stream(left.text);
}

template<class Stream>
void each_field(Stream &stream, Term &term) {
    stream(term.kind);
    stream(term.number);
    stream(term.dim);
}

template<class Stream>
void each_field(Stream &stream, Limit &limit) {
    stream(limit.text);
    stream(limit.kind);
    stream(limit.left);
    stream(limit.right);
}

template<class Stream>
void each_field(Stream &stream, Knob &knob) {
    stream(knob.name);
    stream(knob.is_bool);
    stream(knob.minimum);
    stream(knob.maximum);
    stream(knob.standard);
}

template<class Stream>
void each_field(Stream &stream, Implementation &implementation) {
    for (std::string *text :
         {&implementation.signature, &implementation.id, &implementation.device, &implementation.dtypes,
          &implementation.architectures, &implementation.module, &implementation.function}) {
        stream(*text);
    }
    stream(implementation.priority);
    stream(implementation.alignment);
    stream(implementation.flags);
    stream(implementation.required_flags);
    stream(implementation.written);
    stream(implementation.knobs);
    stream(implementation.arguments);
    stream(implementation.left);
    stream(implementation.limits);
}

template<class Stream>
void each_field(Stream &stream, Contents &contents) {
    stream(contents.library);
    stream(contents.implementations);
}

class ContentsWriter {
  public:
    template<class T>
    void operator()(T &field) {
        if constexpr (std::is_enum_v<T>) {
            writer_.value(static_cast<std::underlying_type_t<T>>(field));
        } else if constexpr (std::is_arithmetic_v<T>) {
            writer_.value(field);
        } else {
            each_field(*this, field);
        }
    }
    void operator()(std::string &field) { writer_.text(field); }
    template<class T>
    void operator()(std::vector<T> &fields) {
        writer_.value(static_cast<std::uint32_t>(fields.size()));
        for (T &field : fields) {
            (*this)(field);
        }
    }
    std::vector<std::byte> take() { return writer_.take(); }

  private:
    opdock::core::ByteWriter writer_;
};

// Throws ShortBytes.
class ContentsReader {
  public:
    explicit ContentsReader(std::span<const std::byte> bytes) : reader_(bytes) {}

    template<class T>
    void operator()(T &field) {
        if constexpr (std::is_enum_v<T>) {
            field = static_cast<T>(reader_.value<std::underlying_type_t<T>>());
        } else if constexpr (std::is_same_v<T, bool>) {
            field = reader_.value<std::uint8_t>() != 0;
        } else if constexpr (std::is_arithmetic_v<T>) {
            field = reader_.value<T>();
        } else {
            each_field(*this, field);
        }
    }
    void operator()(std::string &field) { field = reader_.text(); }
    template<class T>
    void operator()(std::vector<T> &fields) {
        const auto count = reader_.value<std::uint32_t>();
        if (count > reader_.left()) {
            throw opdock::core::ShortBytes();
        }
        fields.resize(count);
        for (T &field : fields) {
            (*this)(field);
        }
    }

  private:
    opdock::core::ByteReader reader_;
};

} // namespace tvm_ffi
