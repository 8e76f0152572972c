#include "cases.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "compare.hpp"
#include "inputs.hpp"
#include "op-call/element.hpp"
#include "op-call/tests/signatures.hpp"
#include "opdock/plugin.h"
#include "placed_tensor.hpp"
#include "rows.hpp"

using namespace opdock::plugin_check;
using opdock::op_call::HostTensor;
using opdock::op_call::Signature;
using opdock::op_call::Tensors;

namespace {

// rmsnorm_fwd, with an output that may share its input's memory.
Signature norm() {
    return parsed("acme.norm(input: T[..., n], weight: U[n], *, eps: float = 1e-5) -> "
                  "(output ~ input: T[..., n], rsigma: f32[...]?)");
}

Subject subject() {
    Subject subject;
    subject.op = "acme.norm";
    subject.impl_id = "vendor.acme";
    subject.device = "cpu";
    subject.tuples = {"f32,f32", "bf16,f32"};
    return subject;
}

bool everything(const Shapes & /*shapes*/) {
    return true;
}

size_t count(const std::vector<Case> &cases, Exercise exercise) {
    return static_cast<size_t>(
        std::count_if(cases.begin(), cases.end(), [&](const Case &one) { return one.exercise == exercise; }));
}

size_t count(const std::vector<Case> &cases, Layout layout) {
    return static_cast<size_t>(
        std::count_if(cases.begin(), cases.end(), [&](const Case &one) { return one.layout == layout; }));
}

} // namespace

TEST_CASE("cases follow from the seed") {
    const Signature signature = norm();
    const auto labels = [&](uint64_t seed) {
        std::vector<std::string> list;
        for (const Case &one : cases_for(subject(), signature, seed, everything)) {
            list.push_back(std::to_string(one.index) + " " + label_of(one, signature) + std::to_string(one.seed));
        }
        return list;
    };
    CHECK(labels(7) == labels(7));
    CHECK(labels(7) != labels(8));
}

TEST_CASE("cases cover sizes, values, layouts, attributes and threads for each tuple of dtypes") {
    const Signature signature = norm();
    const std::vector<Case> cases = cases_for(subject(), signature, 1, everything);
    std::set<std::string> tuples;
    std::set<std::string> attributes;
    std::set<Values> values;
    for (const Case &one : cases) {
        tuples.insert(one.tuple);
        attributes.insert(one.attributes_text);
        values.insert(one.values);
    }
    CHECK(tuples == std::set<std::string>{"f32,f32", "bf16,f32"});
    CHECK(attributes == std::set<std::string>{"", ", eps=0.01", ", eps=0", ", eps=0.5"});
    CHECK(std::any_of(cases.begin(), cases.end(), [&](const Case &one) {
        return dims_in({"...", "n"}, one.shapes.front()).size() > 3;
    }));
    CHECK(count(cases, Layout::mixed) == 10);
    CHECK(values.size() == 9);
    CHECK(count(cases, Exercise::threads) == 8);
    CHECK(count(cases, Exercise::in_place) == 20);
    CHECK(count(cases, Exercise::same) == 0); // its inputs differ in shape
    CHECK(count(cases, Exercise::configs) == 0);
    CHECK(count(cases, Layout::distant) == 4); // half of them in place
    CHECK(std::any_of(cases.begin(), cases.end(), [](const Case &one) { return !one.without.empty(); }));
    CHECK(std::any_of(cases.begin(), cases.end(), [&](const Case &one) {
        return dims_in({"...", "n"}, one.shapes.front()).back() == 0;
    }));
}

TEST_CASE("calls of round sizes have no optional inputs, and optional outputs both ways") {
    Signature signature = norm();
    signature.inputs.push_back({"bias", "T", {"n"}, true});
    size_t bare = 0;
    size_t without_output = 0;
    for (const Case &one : cases_for(subject(), signature, 1, everything, {}, everything)) {
        const std::vector<int64_t> dims = dims_in({"...", "n"}, one.shapes.front());
        const bool is_round =
            std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim % 8 == 0 && dim != 0; });
        const bool has_bias = std::find(one.without.begin(), one.without.end(), "bias") == one.without.end();
        const bool has_rsigma = std::find(one.without.begin(), one.without.end(), "rsigma") == one.without.end();
        bare += is_round && !has_bias && has_rsigma ? 1 : 0;
        without_output += is_round && !has_bias && !has_rsigma ? 1 : 0;
    }
    CHECK(bare >= 4 * 8 * subject().tuples.size());
    CHECK(without_output >= 4 * subject().tuples.size());
    CHECK(cases_for(subject(), norm(), 1, everything, {}, everything).size() ==
          cases_for(subject(), norm(), 1, everything).size()); // it has no optional inputs
}

TEST_CASE("wide rows are tried with all that is optional, and beside narrow ones on other threads") {
    const Signature signature = norm();
    std::set<int64_t> wide;
    std::set<int64_t> at_once;
    const auto last = [](const Shapes &shapes) { return dims_in({"...", "n"}, shapes.front()).back(); };
    for (const Case &one : cases_for(subject(), signature, 1, everything)) {
        if (one.without.empty() && one.tuple == "f32,f32") {
            wide.insert(last(one.shapes));
        }
        for (const Shapes &shapes : one.beside) {
            CHECK(last(one.shapes) == 64);
            at_once.insert(last(shapes));
        }
    }
    CHECK(wide.contains(8196));
    CHECK(wide.contains(16384));
    CHECK(wide.contains(16392));
    CHECK(at_once == std::set<int64_t>{16384, 65536});
}

TEST_CASE("each dim alone is left without a size, also in place") {
    const Signature signature = parsed("acme.turn(input: T[b, n], angles: f32[r]) -> (output ~ input: T[b, n])");
    Subject turn = subject();
    turn.tuples = {"f32"};
    std::set<std::pair<std::string, Exercise>> without;
    for (const Case &one : cases_for(turn, signature, 1, everything)) {
        std::vector<std::string> names;
        for (const auto &[name, size] : one.shapes.front().names) {
            if (size == 0) {
                names.push_back(name);
            }
        }
        if (names.size() == 1) {
            without.insert({names.front(), one.exercise});
        }
    }
    for (const Exercise exercise : {Exercise::call, Exercise::in_place}) {
        for (const char *name : {"b", "n", "r"}) {
            CHECK(without.contains({name, exercise}));
        }
    }
}

TEST_CASE("tensors have no dims, and as many as they may have, where the signature leaves that open") {
    const Signature signature = parsed("acme.scale(input: T[...]) -> (output ~ input: T[...])");
    Subject scale = subject();
    scale.tuples = {"f32"};
    std::set<std::pair<uint64_t, Exercise>> tried;
    for (const Case &one : cases_for(scale, signature, 1, everything)) {
        tried.insert({extent_of(one, signature).dims, one.exercise});
    }
    for (uint64_t dims = 0; dims <= 8; ++dims) {
        CAPTURE(dims);
        CHECK(tried.contains({dims, Exercise::call}));
    }
    CHECK(tried.contains({0, Exercise::in_place}));
    CHECK(tried.contains({8, Exercise::in_place}));
}

TEST_CASE("each input of numbers is NaN in some rows while the others are not, and no mask is") {
    const Signature signature =
        parsed("acme.choose(a: T[..., n], b: T[..., n], mask: u8[..., n]) -> (output: T[..., n])");
    CHECK(inputs_of_numbers(signature, {{"T", OPDOCK_F16}}) == std::vector<std::string>{"a", "b"});
    Case one;
    one.dtypes = {{"T", OPDOCK_F16}};
    one.shapes = {{{{"n", 40}}, {50}}};
    one.values = Values::not_a_number;
    one.values_of = "b";
    one.seed = 3;
    const std::vector<Tensors> inputs = draw_inputs(one, signature, {});
    const auto rows_with_nan = [&](const HostTensor &tensor) {
        const std::vector<double> values =
            opdock::op_call::load_elements(tensor.dtype, tensor.memory.get(), tensor.values);
        std::vector<int> counts(50);
        for (size_t i = 0; i < values.size(); ++i) {
            counts[i / 40] += std::isnan(values[i]) ? 1 : 0;
        }
        return counts;
    };
    const std::vector<int> of_a = rows_with_nan(inputs[0].front());
    const std::vector<int> of_b = rows_with_nan(inputs[1].front());
    CHECK(std::count(of_a.begin(), of_a.end(), 0) == 50);
    CHECK(of_b.front() > 0);
    for (const int count : {0, 1}) {
        CHECK(std::count(of_b.begin(), of_b.end(), count) > 5);
    }
    CHECK(*std::max_element(of_b.begin(), of_b.end()) > 3);

    // The same with numbers instead of NaN.
    one.nan_as = 2;
    const std::vector<Tensors> numbers = draw_inputs(one, signature, {});
    const auto value_at = [](const HostTensor &tensor, size_t i) {
        return opdock::op_call::load_element(tensor.dtype, tensor.memory.get(), i);
    };
    for (size_t i = 0; i < inputs[1].front().values; ++i) {
        const double value = value_at(inputs[1].front(), i);
        const double number = value_at(numbers[1].front(), i);
        CHECK((std::isnan(value) ? number >= 2 : number == value));
    }
}

TEST_CASE("denormal values are below the smallest normal number of their dtype") {
    Case one;
    one.shapes = {{{{"n", 100}}, {}}};
    one.values = Values::denormal;
    for (const uint32_t dtype : {OPDOCK_F32, OPDOCK_F16, OPDOCK_BF16, OPDOCK_E4M3, OPDOCK_E5M2}) {
        CAPTURE(dtype);
        const HostTensor tensor = draw_input(one, norm(), norm().inputs.front(), dtype, {100});
        size_t numbers = 0;
        for (const double value : opdock::op_call::load_elements(dtype, tensor.memory.get(), tensor.values)) {
            CHECK(std::fabs(value) <= smallest_normal(dtype));
            numbers += value == 0 ? 0 : 1;
        }
        CHECK(numbers > 50);
    }
}

TEST_CASE("inputs of one shape are one tensor for once, but for those that are written, or choose") {
    const Signature signature = parsed("acme.product(a: T[m, k], b: T[k, n], mut sum: T[m, n], mask: u8[m, n]) -> ()");
    Subject product = subject();
    product.tuples = {"f32"};
    size_t squares = 0;
    for (const Case &one : cases_for(product, signature, 1, everything)) {
        if (one.exercise != Exercise::same) {
            continue;
        }
        ++squares;
        const std::vector<Tensors> inputs = draw_inputs(one, signature, {});
        const std::vector<Twin> twins = twins_of(signature, inputs);
        REQUIRE(twins.size() == 1);
        CHECK(twins.front().parameter == 1);
        CHECK(twins.front().of_parameter == 0);
        const HostTensor &a = inputs[0].front();
        CHECK(std::equal(a.memory.get(), a.memory.get() + a.bytes, inputs[1].front().memory.get()));
    }
    CHECK(squares > 0);
}

TEST_CASE("rows of each magnitude stand beside rows of every other") {
    const Signature signature = parsed("acme.softmax(scores: T[..., n]) -> (output: T[..., n])");
    Case one;
    one.dtypes = {{"T", OPDOCK_F32}};
    one.shapes = {{{{"n", 64}}, {33}}};
    one.values = Values::rows;
    one.values_of = "scores";
    one.seed = 3;
    const std::vector<Magnitude> magnitudes = magnitudes_of(one, signature);
    REQUIRE(magnitudes.size() == 33);
    std::set<std::pair<Magnitude, Magnitude>> neighbours;
    for (size_t r = 1; r < magnitudes.size(); ++r) {
        neighbours.insert({magnitudes[r - 1], magnitudes[r]});
    }
    CHECK(neighbours.size() == 25);

    // Rows that kernels compute like all others stay the same when the others change.
    const auto values_of = [&] {
        const std::vector<Tensors> inputs = draw_inputs(one, signature, {});
        return opdock::op_call::load_elements(OPDOCK_F32, inputs.front().front().memory.get(), 33 * 64);
    };
    const std::vector<double> all = values_of();
    one.only_usual = true;
    const std::vector<double> usual = values_of();
    for (size_t i = 0; i < all.size(); ++i) {
        CHECK((all[i] == usual[i]) == is_usual(magnitudes[i / 64]));
    }

    // Next to an input of other numbers, an infinity often becomes NaN.
    const Signature weighted = parsed("acme.softmax(scores: T[..., n], weight: T[n]) -> (output: T[..., n])");
    const std::vector<Magnitude> finite = magnitudes_of(one, weighted);
    CHECK(std::count(finite.begin(), finite.end(), Magnitude::hidden) == 0);
    CHECK(inputs_with_rows(weighted, one.dtypes, one.shapes) == std::vector<std::string>{"scores"});
}

TEST_CASE("optional tensors are left out all together, one at a time, and all but one") {
    Signature signature = norm();
    signature.inputs.push_back({"bias", "U", {"n"}, true});
    signature.outputs.push_back({"mu", "f32", {"..."}, true});
    std::set<std::vector<std::string>> left_out;
    for (const Case &one : cases_for(subject(), signature, 1, everything)) {
        left_out.insert(one.without);
        if (one.without.size() == 2) {
            CHECK(label_of(one, signature).find(", without " + one.without[0] + " and " + one.without[1]) !=
                  std::string::npos);
        }
    }
    CHECK(left_out == std::set<std::vector<std::string>>{{},
                                                         {"bias"},
                                                         {"rsigma"},
                                                         {"mu"},
                                                         {"bias", "rsigma"},
                                                         {"bias", "mu"},
                                                         {"rsigma", "mu"},
                                                         {"bias", "rsigma", "mu"}});
}

TEST_CASE("attributes have other values one at a time, and all together") {
    Signature signature = norm();
    signature.attributes.push_back({"shift", "int", 0, false, ""});
    std::set<std::string> attributes;
    for (const Case &one : cases_for(subject(), signature, 1, everything)) {
        attributes.insert(one.attributes_text);
    }
    for (const char *const text : {"", ", eps=0.01", ", shift=1", ", eps=0.01, shift=1"}) {
        CAPTURE(text);
        CHECK(attributes.contains(text));
    }
}

TEST_CASE("an attribute of whole numbers has the values at which the sizes of a call end, and others") {
    Signature signature = norm();
    signature.attributes = {{"k", "int", nullptr, false, ""}};
    std::set<std::string> relations;
    std::set<int64_t> values;
    for (const Case &one : cases_for(subject(), signature, 1, everything)) {
        const int64_t k = std::get<int64_t>(one.attributes.at(0).value);
        const int64_t n = dims_in({"...", "n"}, one.shapes.front()).back();
        values.insert(k);
        relations.insert(k == n ? "n" : (k == n - 1 ? "n-1" : (k > n ? "more" : "less")));
        CHECK((k == 1 || one.is_doubtful)); // 1 is the value of a required one elsewhere
    }
    CHECK(values.contains(0));
    CHECK(values.contains(8196));
    CHECK(values.size() > 10);
    for (const char *const relation : {"n", "n-1", "less"}) {
        CAPTURE(relation);
        CHECK(relations.contains(relation));
    }
}

TEST_CASE("other lengths are tried with another seed") {
    std::set<int64_t> lengths;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        Random random(seed);
        for (const Shapes &shapes : plain_shapes(norm(), random, everything)) {
            lengths.insert(dims_in({"...", "n"}, shapes.front()).back());
        }
    }
    CHECK(lengths.size() > 80);
    CHECK(lengths.contains(4096));
}

TEST_CASE("what an implementation does not take is not tried") {
    Subject narrow = subject();
    narrow.needs_contiguous = true;
    narrow.alignment = 16;
    const std::vector<Case> cases = cases_for(narrow, norm(), 1, everything);
    for (const Layout layout : {Layout::misaligned, Layout::padded, Layout::transposed, Layout::distant}) {
        CHECK(count(cases, layout) == 0);
    }
}

TEST_CASE("the plain shapes go from small to large") {
    Random random(3);
    const std::vector<Shapes> shapes = plain_shapes(norm(), random, everything);
    REQUIRE(shapes.size() > 10);
    CHECK(std::is_sorted(shapes.begin(), shapes.end(),
                         [](const Shapes &a, const Shapes &b) { return work_of(a.front()) < work_of(b.front()); }));
}

TEST_CASE("an attribute that gives a dtype variable its value has the variable's dtype") {
    const Signature signature =
        parsed("acme.cast(input: T[...], *, dtype: F) -> (output: F[...]) where F in e4m3|e5m2");
    Subject cast = subject();
    cast.tuples = {"f32,e5m2"};
    const std::vector<Case> cases = cases_for(cast, signature, 1, everything);
    REQUIRE_FALSE(cases.empty());
    CHECK(cases.front().attributes_text == ", dtype=e5m2");
}

TEST_CASE("layouts have the strides that their names say") {
    CHECK(strides_for({2, 3, 4}, Layout::contiguous) == std::vector<int64_t>{12, 4, 1});
    CHECK(strides_for({2, 3, 4}, Layout::padded) == std::vector<int64_t>{21, 7, 1});
    CHECK(strides_for({2, 3, 4}, Layout::transposed) == std::vector<int64_t>{12, 1, 3});
    CHECK(strides_for({2, 3, 4}, Layout::scattered) == std::vector<int64_t>{36, 12, 3});
    const std::vector<int64_t> distant = strides_for({1, 3, 4}, Layout::distant);
    CHECK(2 * distant[1] > int64_t{1} << 31);
}

TEST_CASE("what is written beside the elements of a tensor shows, and they are put where they belong") {
    const Where host{nullptr, opdock::cpu};
    for (const bool at_end : {true, false}) {
        for (const Layout layout : {Layout::contiguous, Layout::misaligned, Layout::padded, Layout::transposed}) {
            PlacedTensor tensor(host, "x", OPDOCK_F32, {3, 5}, {at_end, layout, 0});
            std::vector<float> values(15);
            for (size_t i = 0; i < values.size(); ++i) {
                values[i] = static_cast<float>(i);
            }
            tensor.put(reinterpret_cast<const std::byte *>(values.data()), std::byte{0x11});
            const auto operand = tensor.operand();
            auto *data = static_cast<float *>(operand.data);
            CHECK(data[operand.strides[0] * 2 + operand.strides[1] * 3] == 13);
            CHECK(tensor.rest_is(std::byte{0x11}));
            data[operand.strides[0] * 2 + operand.strides[1] * 4] = -1;
            CHECK(tensor.rest_is(std::byte{0x11}));
            if (layout == Layout::padded) {
                data[5] = 0;
                CHECK_FALSE(tensor.rest_is(std::byte{0x11}));
            }
            const GuardHit hit = find_guard(reinterpret_cast<std::byte *>(data) - 1);
            CHECK(std::string(hit.name) == "x");
            CHECK(hit.is_before);
            CHECK(hit.distance == 1);
        }
    }
    CHECK(find_guard(&host).name == nullptr);
}

TEST_CASE("inputs have values that mean something to the standard ops") {
    const Signature loss =
        parsed("cross_entropy_fwd(logits: T[b, v], target: i64[b], *, ignore_index: int = -100) -> (loss: f32[b])");
    Case one;
    one.dtypes = {{"T", OPDOCK_F32}};
    one.shapes = {{{{"b", 200}, {"v", 7}}, {}}};
    one.seed = 5;
    const std::vector<Tensors> inputs = draw_inputs(one, loss, {});
    std::set<double> targets;
    for (size_t i = 0; i < 200; ++i) {
        targets.insert(opdock::op_call::load_element(OPDOCK_I64, inputs[1].front().memory.get(), i));
    }
    CHECK(targets == std::set<double>{-100, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("positions name the rows of the tables, and a sample is taken from up to all logits") {
    const auto values_of = [](const std::string &text, size_t input) {
        const Signature signature = parsed(text);
        Case one;
        one.shapes = {{{{"t", 200}, {"m", 5}, {"r", 1}, {"v", 3}}, {}}};
        one.seed = 6;
        const HostTensor tensor = draw_input(one, signature, signature.inputs.at(input), OPDOCK_I32, {200});
        const std::vector<double> values =
            opdock::op_call::load_elements(OPDOCK_I32, tensor.memory.get(), tensor.values);
        return std::set<double>(values.begin(), values.end());
    };
    CHECK(values_of("rope_positions(cos: f32[m, r], positions: i32[t]) -> ()", 1) == std::set<double>{0, 1, 2, 3, 4});
    CHECK(values_of("sample_top_k_top_p(logits: f32[t, v], k: i32[t]) -> ()", 1) == std::set<double>{0, 1, 2, 3});
}

TEST_CASE("rounding moves numbers and what a forward op saved of them, and nothing that counts or chooses") {
    constexpr double bf16_half_unit = 0x1p-8;
    constexpr double f32_half_unit = 0x1p-24;
    const Signature signature = parsed("cross_entropy_bwd(logits: T[b, v], target: i64[b], lse: f32[b]) -> ()");
    const auto rounding = [&](size_t input, uint32_t dtype, double half_unit) {
        return rounding_of(signature, signature.inputs.at(input), dtype, half_unit);
    };
    CHECK(rounding(0, OPDOCK_BF16, bf16_half_unit) == bf16_half_unit);
    CHECK(rounding(2, OPDOCK_F32, bf16_half_unit) == f32_half_unit);
    CHECK(rounding(1, OPDOCK_I64, bf16_half_unit) == 0);
    CHECK(rounding(0, OPDOCK_BF16, 0) == 0);
}

TEST_CASE("a call's rows are what '...' stands for, or the first name that all outputs have") {
    const auto dim = [](const std::string &text) { return row_dim(parsed(text)); };
    CHECK(dim("f(a: T[..., n], b: U[n]) -> (c: T[..., n], d: f32[...])") == "...");
    CHECK(dim("f(a: T[..., n]) -> (b: T[..., n], c: f32[n])") == "...");
    CHECK(dim("f(a: T[m, k], b: T[k, n]) -> (c: T[m, n])") == "m");
    CHECK(dim("f(a: T[m, k], b: T[k, n]) -> (c: T[n, m])") == "n");
    CHECK(dim("f(a: T[m, k]) -> (b: T[2*m, k])") == "k");
    CHECK(dim("f(a: T[b, s, s]) -> (c: T[b, s, s])") == "b");
    CHECK(dim("f(a: T[..., n]) -> (b: f32[1])").empty());
    CHECK(dim("f(a: T[n]) -> (b: T[1])").empty());
}

TEST_CASE("rows are picked wherever their dim stands") {
    const Signature signature = parsed("f(input: u8[2, ..., 3], weight: u8[3]) -> (output: u8[..., 3])");
    const Shapes shapes = {{{}, {4}}};
    std::vector<opdock::op_call::Tensors> inputs(2);
    inputs[0].emplace_back(OPDOCK_U8, std::vector<int64_t>{2, 4, 3});
    inputs[1].emplace_back(OPDOCK_U8, std::vector<int64_t>{3});
    for (size_t i = 0; i < 24; ++i) {
        inputs[0][0].memory.get()[i] = static_cast<std::byte>(i);
    }
    const std::vector<opdock::op_call::Tensors> picked = pick_rows(inputs, shapes, signature, {3, 0});
    CHECK(picked[0][0].shape == std::vector<int64_t>{2, 2, 3});
    std::vector<int> values;
    for (size_t i = 0; i < picked[0][0].values; ++i) {
        values.push_back(static_cast<int>(picked[0][0].memory.get()[i]));
    }
    CHECK(values == std::vector<int>{9, 10, 11, 0, 1, 2, 21, 22, 23, 12, 13, 14});
    CHECK(picked[1][0].shape == std::vector<int64_t>{3});
    CHECK(pick_rows(inputs, shapes, signature, {3, 0}, 1)[0][0].shape == std::vector<int64_t>{2, 2, 1, 3});
    CHECK(pick_rows(inputs, shapes, signature, {3, 0, 1, 2}, 2)[0][0].shape == std::vector<int64_t>{2, 2, 2, 3});
    CHECK(pick_rows(inputs, shapes, signature, {3, 0, 1}, 2)[0][0].shape == std::vector<int64_t>{2, 3, 3});
}

TEST_CASE("what promises to be batch invariant is tried with batches of rows") {
    Subject invariant = subject();
    CHECK(count(cases_for(invariant, norm(), 1, everything), Exercise::batches) == 0);
    invariant.batch_invariant = true;
    const std::vector<Case> cases = cases_for(invariant, norm(), 1, everything);
    CHECK(count(cases, Exercise::batches) == 8);
    std::set<int64_t> rows;
    for (const Case &one : cases) {
        if (one.exercise == Exercise::batches) {
            rows.insert(rows_of(one.shapes.front(), "..."));
        }
    }
    CHECK(*rows.rbegin() == 4096);
    CHECK(*rows.begin() >= 64);
}
