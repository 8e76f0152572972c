#include <doctest/doctest.h>

#include <string>

#include "call_arguments.hpp"
#include "signature.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;

TEST_CASE("every standard signature parses, and its canonical text is the one it was written in") {
    for (const OpDeclaration &op : test::standard_ops) {
        CAPTURE(std::string(op.signature));
        const Signature parsed = parse_signature(op.signature);
        CHECK(parsed.name == op.name);
        CHECK(parsed.text == op.signature);
    }
}

TEST_CASE("parsing the printed form gives the same signature") {
    for (const OpDeclaration &op : test::standard_ops) {
        CAPTURE(std::string(op.signature));
        const Signature once = parse_signature(op.signature);
        CHECK(parse_signature(print_signature(once)) == once);
    }
}
