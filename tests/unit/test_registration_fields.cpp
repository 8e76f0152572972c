// Each field of a registration, at the limits of what is allowed.
#include "load/registration_fields.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "opdock/opdock.h"
#include "signature/signature.hpp"

using namespace opdock::core;

namespace {

template<class Work>
std::string rejected_for(Work work) {
    try {
        work();
    } catch (const Rejected &rejected) {
        return rejected.what();
    }
    return "";
}

struct KnobRange {
    int64_t minimum;
    int64_t maximum;
    int64_t default_value;
};

std::string fault_of_knob(uint32_t type, KnobRange range, const char *choices = nullptr) {
    const opdock_knob knob = {OPDOCK_STRUCT_SIZE(opdock_knob, choices),
                              type,
                              "k",
                              range.minimum,
                              range.maximum,
                              range.default_value,
                              nullptr,
                              choices};
    return rejected_for([&] { copy_knob(&knob); });
}

} // namespace

TEST_CASE("a text of a plugin has at most 4096 bytes, and a name 128") {
    CHECK(copy_text("field", std::string(4096, 'x').c_str()).size() == 4096);
    CHECK(rejected_for([] { copy_text("field", std::string(4097, 'x').c_str()); }) ==
          "field is longer than 4096 bytes");
    CHECK(copy_name("field", std::string(128, 'x').c_str()).size() == 128);
    CHECK(rejected_for([] { copy_name("field", std::string(129, 'x').c_str()); }) ==
          "field 'xxxxxxxxxxxxxxxxxxxxxxxx...' has 129 bytes; at most 128 are allowed");
    CHECK(rejected_for([] { copy_name("field", nullptr); }) == "field is null");
    CHECK(rejected_for([] { copy_name("field", ""); }) == "field is empty");
}

TEST_CASE("a name of a plugin has characters from the space to the tilde, and an identifier no space") {
    CHECK(copy_name("field", " ~") == " ~");
    CHECK(rejected_for([] { copy_name("field", "a\x1f~"); }) ==
          "field 'a\\x1f~' has characters other than printable ASCII");
    CHECK(rejected_for([] { copy_name("field", " \x7f"); }) ==
          "field ' \\x7f' has characters other than printable ASCII");
    CHECK(copy_identifier("field", "a~") == "a~");
    CHECK(rejected_for([] { copy_identifier("field", "a b"); }).find("holds a space or one of") != std::string::npos);
}

TEST_CASE("lists of a plugin have an element before each separator and behind the last") {
    using Texts = std::vector<std::string>;
    CHECK(opdock::core::split("", ',') == Texts{""});
    CHECK(opdock::core::split(",", ',') == Texts{"", ""});
    CHECK(opdock::core::split("a,b", ',') == Texts{"a", "b"});
    CHECK(opdock::core::split("a,,b,", ',') == Texts{"a", "", "b", ""});
}

TEST_CASE("a knob's default lies within its range, whose ends count") {
    for (const int64_t value : {-3, 0, 4}) {
        CAPTURE(value);
        CHECK(fault_of_knob(OPDOCK_KNOB_INT, {-3, 4, value}).empty());
    }
    CHECK(fault_of_knob(OPDOCK_KNOB_INT, {7, 7, 7}).empty());
    const std::string outside = "knob 'k' has default ";
    CHECK(fault_of_knob(OPDOCK_KNOB_INT, {-3, 4, -4}) == outside + "-4 outside its range -3 to 4");
    CHECK(fault_of_knob(OPDOCK_KNOB_INT, {-3, 4, 5}) == outside + "5 outside its range -3 to 4");
    CHECK(fault_of_knob(OPDOCK_KNOB_INT, {5, 4, 5}) == outside + "5 outside its range 5 to 4");
}

TEST_CASE("a knob that is a bool ranges within 0 and 1, one of choices within their numbers") {
    CHECK(fault_of_knob(OPDOCK_KNOB_BOOL, {0, 1, 1}).empty());
    CHECK(fault_of_knob(OPDOCK_KNOB_BOOL, {-1, 1, 0}) == "knob 'k' is a bool but ranges from -1 to 1");
    CHECK(fault_of_knob(OPDOCK_KNOB_BOOL, {0, 2, 0}) == "knob 'k' is a bool but ranges from 0 to 2");
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 2, 2}, "a,b,c").empty());
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {1, 2, 1}, "a,b,c").empty());
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 1, 0}, ",unroll").empty());
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {-1, 2, 0}, "a,b,c") == "knob 'k' has 3 choices but ranges from -1 to 2");
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 3, 0}, "a,b,c") == "knob 'k' has 3 choices but ranges from 0 to 3");
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 2, 0}, "a,b,a") == "knob 'k' has choice 'a' twice");
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 1, 0}, "a,17") ==
          "knob 'k': tune files would read its choice '17' as a number");
    CHECK(fault_of_knob(OPDOCK_KNOB_CHOICE, {0, 0, 0}, "").find("is empty") != std::string::npos);
    CHECK(fault_of_knob(99, {0, 1, 0}) == "knob 'k' has type 99; expected OPDOCK_KNOB_INT, _BOOL or _CHOICE");
    CHECK(rejected_for([] { copy_knob(nullptr); }) == "a knob is null");
}

TEST_CASE("a struct of a plugin has the fields that are needed, and ends behind one") {
    opdock_knob knob = {};
    const uint32_t needed = OPDOCK_STRUCT_SIZE(opdock_knob, default_value);
    const auto fault = [&](uint32_t size) {
        knob.struct_size = size;
        return rejected_for([&] { known_fields("opdock_knob", knob, needed); });
    };
    CHECK(fault(needed).empty());
    CHECK(fault(needed - 1).find("this ABI needs at least") != std::string::npos);
    CHECK(fault(needed + 1).find("ends inside a field") != std::string::npos);
    CHECK(fault(needed + sizeof(void *)).empty());
    CHECK(fault(sizeof knob).empty());
    CHECK(fault(sizeof knob + 1).empty()); // of a newer header, whose fields this host does not read
    knob.doc = "d";
    knob.struct_size = needed;
    CHECK(known_fields("opdock_knob", knob, needed).doc == nullptr); // beyond its end
    knob.struct_size = needed + sizeof(void *);
    CHECK(known_fields("opdock_knob", knob, needed).doc == knob.doc);
}

TEST_CASE("what is wrong with each tuple of dtypes is told, in one sentence") {
    const Signature signature = parse_signature("f(x: T[n], y: U[n]) -> (z: T[n]) where T in f32|f16");
    bool dtypes_are_told = false;
    CHECK(parse_dtypes("f32,f32|f16,bf16", signature, dtypes_are_told).size() == 2);
    const std::string several = rejected_for([&] { parse_dtypes("f32|f32,f32|bf16,f32", signature, dtypes_are_told); });
    CHECK(several.find("dtypes 'f32|f32,f32|bf16,f32': 'f32' has 1 dtype, but the signature has 2 dtype variables") ==
          0);
    CHECK(several.find("; T of 'f' is never bf16, so 'bf16,f32' would never be chosen; remove it") !=
          std::string::npos);
}

TEST_CASE("the dtypes that there are stand once in what is wrong with a registration") {
    const Signature signature = parse_signature("f(x: T[n]) -> (y: T[n])");
    bool dtypes_are_told = false;
    CHECK(rejected_for([&] { parse_dtypes("f31|f32|f30", signature, dtypes_are_told); }) ==
          "dtypes 'f31|f32|f30': 'f31' is not a dtype; expected " OPDOCK_DTYPE_NAMES "; 'f30' is not a dtype");
    CHECK(rejected_for([&] { parse_dtypes("f29", signature, dtypes_are_told); }) ==
          "dtypes 'f29': 'f29' is not a dtype");
}
