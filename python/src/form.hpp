// The form of an op's signature, as the host describes it.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "opdock/opdock.hpp"

namespace opdock::python {

namespace nb = nanobind;

struct Parameter {
    std::string name;
    bool optional;
    bool list;
    bool mut;
    bool host;      // its data is on the CPU
    nb::object key; // the name as a keyword argument
};

struct AttributeForm {
    std::string name;
    std::string type; // "float", "int[]", ...
    bool optional;
    nb::object key;
};

struct Form {
    std::string op;
    std::string signature;
    std::vector<Parameter> inputs;
    std::vector<Parameter> outputs;
    std::vector<AttributeForm> attributes;
};

Form form_of(const Op &op);

// An interned string, which Python compares by address.
nb::object interned(const char *text);

} // namespace opdock::python
