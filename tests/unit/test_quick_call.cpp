// A remembered call is served as the slow path would serve it, and refused if the slow path would refuse it.
#include "dispatch/quick_call.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "call_arguments.hpp"
#include "dispatch/call_thread.hpp"
#include "dispatch/memo.hpp"
#include "made_host.hpp"
#include "signature/dtype.hpp"

using namespace opdock;
using namespace opdock::test;

namespace {

// A host whose only module declares one op.
struct OneOp {
    explicit OneOp(const char *signature) : text(signature), name(text.substr(0, text.find('('))) {}

    // `known`: the form of the signature that the implementation knows, if it differs.
    Made &add(std::string impl_id, uint32_t kind, const char *known = nullptr) {
        Made &added = *made.emplace_back(std::make_unique<Made>(std::move(impl_id), kind));
        added.op = name;
        added.work = [](const auto &, const auto &) { return OPDOCK_OK; };
        host.module("module-" + std::to_string(made.size()), [&](opdock_registry *registry) {
            declare(registry, known != nullptr ? known : text.c_str());
            register_made(registry, added);
            return OPDOCK_OK;
        });
        return added;
    }
    opdock_status call(const opdock_args &args) { return opdock_call_op(&host->op(name), &args); }

    std::string text;
    std::string name;
    std::deque<std::unique_ptr<Made>> made;
    MadeHost host;
};

} // namespace

TEST_CASE("a call whose tensors are all in host memory goes where its arguments say, each time") {
    OneOp op("test.host(host input: T[n]) -> (host output: T[n])");
    Made &made = op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    opdock_args &args = call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1}).args();
    args.device = test::cpu;
    CHECK(op.call(args) == OPDOCK_OK);
    CHECK(op.call(args) == OPDOCK_OK);
    args.device = {kDLCUDA, 1};
    CHECK(op.call(args) == OPDOCK_ALL_DROPPED);
    args.device = {};
    CHECK(op.call(args) == OPDOCK_INVALID_ARGUMENT);
    CHECK(made.calls == 2);
}

TEST_CASE("after an implementation that knows fewer attributes declined, the next one gets all of them") {
    OneOp op("test.grow(input: T[n], *, k: int = 7, l: int = 8) -> (output: T[n])");
    Made &shorter = op.add("default.shorter", OPDOCK_KIND_DEFAULT, "test.grow(input: T[n]) -> (output: T[n])");
    Made &longer = op.add("reference.longer", OPDOCK_KIND_REFERENCE);
    std::vector<int64_t> seen;
    longer.work = [&](const opdock_problem &problem, const opdock_call &) {
        for (uint32_t i = 0; i < problem.n_attributes; ++i) {
            seen.push_back(problem.attributes[i].as.i);
        }
        return OPDOCK_OK;
    };
    CallArguments call;
    call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1}).attribute(value(7)).attribute(value(8));
    CHECK(op.call(call.args()) == OPDOCK_OK);
    CHECK(op.call(call.args()) == OPDOCK_OK);
    CHECK(shorter.calls == 2);
    shorter.work = [](const auto &, const auto &) { return OPDOCK_UNSUPPORTED; };
    CHECK(op.call(call.args()) == OPDOCK_OK);
    CHECK(seen == std::vector<int64_t>{7, 8});
}

TEST_CASE("an attribute that no call may have is refused also when the call looks like the one before") {
    OneOp op("test.many(input: T[n], *, b: bool = true, s: string = \"ab\", l: int[] = [1]) -> (output: T[n])");
    Made &made = op.add("default.one", OPDOCK_KIND_DEFAULT);
    const std::vector<int64_t> numbers = {1, 2};
    CallArguments call;
    call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1});
    std::vector<opdock_attribute> attributes = {
        {nullptr, value(true)}, {nullptr, value("")}, {nullptr, value(numbers)}};
    opdock_args &args = call.args();
    args.attributes = attributes.data();
    args.n_attributes = 3;
    const auto refused = [&](size_t which, opdock_value wrong) {
        const opdock_value right = attributes[which].value;
        const opdock_status before = op.call(args);
        attributes[which].value = wrong;
        const opdock_status status = op.call(args);
        attributes[which].value = right;
        return before == OPDOCK_OK && status == OPDOCK_INVALID_ARGUMENT;
    };
    for (int round = 0; round < 2; ++round) {
        CHECK(refused(0, value(int64_t{7}, OPDOCK_VALUE_BOOL)));
        opdock_value null = value("");
        null.as.s = nullptr;
        CHECK(refused(1, null));
        null = value(numbers);
        null.as.ints = nullptr;
        CHECK(refused(2, null));
    }
    attributes[1].value = value("ab");
    const char endless[] = {'a', 'b', 'c'};
    opdock_value unended = value("ab");
    unended.as.s = endless;
    CHECK_FALSE(refused(1, unended)); // kernels get a copy of that length
    CHECK(made.calls == 8);
}

TEST_CASE("a bool that changes from call to call reaches the kernel") {
    OneOp op("test.flag(input: T[n], *, b: bool = true) -> (output: T[n])");
    std::vector<int64_t> seen;
    op.add("default.one", OPDOCK_KIND_DEFAULT).work = [&](const opdock_problem &problem, const opdock_call &) {
        seen.push_back(problem.attributes[0].as.i);
        return OPDOCK_OK;
    };
    for (const bool flag : {true, false, true, true, false}) {
        CallArguments call;
        call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1}).attribute(value(flag));
        CHECK(op.call(call.args()) == OPDOCK_OK);
    }
    CHECK(seen == std::vector<int64_t>{1, 0, 1, 1, 0});
}

TEST_CASE("a zeroed descriptor does not pass for a tensor that was absent") {
    OneOp op("test.pair(a: T[n], b: T[n]?) -> (output: T[n])");
    Made &made = op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    opdock_args &args = call.in(OPDOCK_F32, {3}, {1}).in_absent().out(OPDOCK_F32, {3}, {1}).args();
    CHECK(op.call(args) == OPDOCK_OK);
    CHECK(op.call(args) == OPDOCK_OK);
    int64_t something = 0;
    DLTensor zeroed = {};
    zeroed.data = &something;
    zeroed.strides = &something;
    const DLTensor *inputs[] = {args.inputs[0], &zeroed};
    args.inputs = inputs;
    CHECK(op.call(args) == OPDOCK_INVALID_ARGUMENT);
    CHECK(made.calls == 2);
}

TEST_CASE("a byte offset that leaves the address space is refused also when the call looks like the one before") {
    OneOp op("test.copy(input: T[n]) -> (output: T[n])");
    op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    opdock_args &args = call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1}).args();
    CHECK(op.call(args) == OPDOCK_OK);
    DLTensor moved = *args.inputs[0];
    moved.byte_offset = uint64_t{0} - 64;
    const DLTensor *inputs[] = {&moved};
    args.inputs = inputs;
    CHECK(op.call(args) == OPDOCK_INVALID_ARGUMENT);
}

TEST_CASE("each output that overlaps is refused also when the call looks like the one before") {
    OneOp op("test.two(input: T[n]) -> (first: T[n], second: T[n])");
    op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    call.in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {3}, {1});
    opdock_args &args = call.args();
    for (const size_t which : {0, 1}) {
        for (int round = 0; round < 3; ++round) {
            CHECK(op.call(args) == OPDOCK_OK);
        }
        DLTensor moved = *args.outputs[which];
        moved.data = args.inputs[0]->data;
        const DLTensor *outputs[] = {args.outputs[0], args.outputs[1]};
        outputs[which] = &moved;
        opdock_args overlapping = args;
        overlapping.outputs = outputs;
        CHECK(op.call(overlapping) == OPDOCK_INVALID_ARGUMENT);
    }
}

TEST_CASE("an output that shares one byte is refused also when the call looks like the one before") {
    OneOp op("test.copy(input: u8[n]) -> (output: u8[n])");
    op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    opdock_args &args = call.in(OPDOCK_U8, {3}, {1}).out(OPDOCK_U8, {3}, {1}).args();
    for (int round = 0; round < 3; ++round) {
        CHECK(op.call(args) == OPDOCK_OK);
    }
    uint8_t bytes[8] = {};
    DLTensor input = *args.inputs[0];
    DLTensor output = *args.outputs[0];
    const DLTensor *inputs[] = {&input}, *outputs[] = {&output};
    args.inputs = inputs;
    args.outputs = outputs;
    input.data = bytes + 3;
    for (const auto &[first, status] :
         {std::pair{0, OPDOCK_OK}, {1, OPDOCK_INVALID_ARGUMENT}, {5, OPDOCK_INVALID_ARGUMENT}}) {
        output.data = bytes + first;
        CHECK(op.call(args) == status);
    }
}

namespace {

// True if, after two identical calls, the next one goes straight to the kernel.
bool takes_the_short_way(const char *signature, const std::function<void(CallArguments &)> &describe) {
    OneOp op(signature);
    op.add("default.one", OPDOCK_KIND_DEFAULT);
    CallArguments call;
    describe(call);
    opdock_args &args = call.args();
    REQUIRE_MESSAGE(op.call(args) == OPDOCK_OK, last_error());
    REQUIRE(op.call(args) == OPDOCK_OK);
    core::Memo &memo = *core::call_thread().slot(op.host->op(op.name).index).ways.front().memo;
    opdock_status status = OPDOCK_FAILED;
    return memo.quick.attempt(memo, args, &status) && status == OPDOCK_OK;
}

} // namespace

TEST_CASE(
    "a call of whole tensors that is made again goes straight to the kernel, and others are looked at each time") {
    constexpr const char *copy = "test.copy(input: T[..., n]) -> (output: T[..., n])";
    const auto both = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
        return [=](CallArguments &call) { call.in(OPDOCK_F32, shape, strides).out(OPDOCK_F32, shape, strides); };
    };
    CHECK(takes_the_short_way(copy, both({2, 3}, {3, 1})));
    CHECK(takes_the_short_way(copy, both({2, 3}, {8, 1})));
    CHECK(takes_the_short_way(copy, both({2, 3, 4}, {12, 4, 1})));
    CHECK_FALSE(takes_the_short_way(copy, both({2, 3}, {})));
    CHECK_FALSE(takes_the_short_way(copy, both({0, 3}, {3, 1})));
    CHECK_FALSE(takes_the_short_way(copy, both({2, 3}, {-3, 1})));

    constexpr const char *pair = "test.pair(a: T[n], b: T[n]?) -> (output: T[n])";
    const auto one = [](CallArguments &call) -> CallArguments & { return call.in(OPDOCK_F32, {3}, {1}); };
    CHECK(takes_the_short_way(pair, [&](CallArguments &call) { one(call).in_absent().out(OPDOCK_F32, {3}, {1}); }));
    CHECK_FALSE(takes_the_short_way(pair, [&](CallArguments &call) { one(call).out(OPDOCK_F32, {3}, {1}); }));

    CHECK_FALSE(takes_the_short_way("test.lists(xs: T[n]*, x: T[k]) -> (output: T[k])",
                                    [&](CallArguments &call) { one(one(call)).out(OPDOCK_F32, {3}, {1}).lists({1}); }));
    for (const int inputs : {11, 12}) { // plus one output
        std::string signature = "test.many(";
        for (int i = 0; i < inputs; ++i) {
            signature += fmt::format("{}x{}: T[n]", i == 0 ? "" : ", ", i);
        }
        signature += ") -> (output: T[n])";
        CHECK(takes_the_short_way(signature.c_str(), [&](CallArguments &call) {
                  for (int i = 0; i < inputs; ++i) {
                      one(call);
                  }
                  call.out(OPDOCK_F32, {3}, {1});
              }) == (inputs + 1 <= static_cast<int>(core::Memo::max_tensors)));
    }
}

TEST_CASE("an attribute has the value of before when kernels could not tell the two") {
    const auto same = [](const opdock_value &expected, const opdock_value &given) {
        return core::same_attribute_value(expected, given);
    };
    CHECK(same(value("text"), value("text")));
    CHECK(same(value(""), value("")));
    CHECK_FALSE(same(value("text"), value("texs")));
    CHECK_FALSE(same(value("text"), value("texts")));
    CHECK_FALSE(same(value("text"), value("tex")));
    opdock_value null = value("");
    null.as.s = nullptr;
    CHECK_FALSE(same(value(""), null));
    opdock_value cut = value("text"); // the byte after its content is not NUL
    cut.count = 3;
    CHECK_FALSE(same(value("tex"), cut));

    const std::vector<int64_t> none, one = {1}, other = {2}, two = {1, 2};
    CHECK(same(value(one), value(one)));
    CHECK(same(value(two), value(two)));
    CHECK_FALSE(same(value(one), value(other)));
    CHECK_FALSE(same(value(one), value(two)));
    CHECK_FALSE(same(value(two), value(one)));
    null = value(one);
    null.as.ints = nullptr;
    CHECK_FALSE(same(value(one), null));
    null.count = 0;
    CHECK(same(value(none), null)); // no value equals no value, wherever it is stored

    const std::vector<opdock_text> texts = {{"one", 3}, {"two", 3}}, others = {{"one", 3}, {"ten", 3}};
    CHECK(same(value(texts), value(texts)));
    CHECK_FALSE(same(value(texts), value(others)));

    CHECK(same(value(1.5), value(1.5)));
    CHECK(same(value(NAN), value(NAN)));
    CHECK_FALSE(same(value(1.5), value(2.5)));
    CHECK_FALSE(same(value(0.0), value(-0.0)));
    CHECK(same(value(3.0), value(3))); // an int is accepted where a float is expected
    CHECK_FALSE(same(value(3.5), value(3)));
    CHECK(same(value(3), value(3)));
    CHECK_FALSE(same(value(3), value(4)));
    CHECK(same(value(true), value(true)));
    CHECK_FALSE(same(value(true), value(false)));
    CHECK(same(value(3), {}));
}

TEST_CASE("an attribute is taken when its type, its name and what the memo holds for are those of before") {
    const std::vector<opdock_value> values = {value(2.0), value("text")};
    const auto taken = [&](const core::Memo::GivenAttribute &expected, const char *name, opdock_value given) {
        opdock_value into = value(-1.0);
        return core::take_attribute(expected, values, {name, given}, into) ? into.as.f : -2.0;
    };
    core::Memo::GivenAttribute by_position{OPDOCK_VALUE_FLOAT, 0, false, false, false, false, ""};
    CHECK(taken(by_position, nullptr, value(7.5)) == 7.5);
    CHECK(taken(by_position, "eps", value(7.5)) == -2);
    CHECK(taken(by_position, nullptr, value(7)) == -2);
    core::Memo::GivenAttribute by_name{OPDOCK_VALUE_FLOAT, 0, false, true, false, true, "eps"};
    CHECK(taken(by_name, "eps", value(7.5)) == 7.5);
    for (const char *name : {"epr", "ept", "ep", "epsi", "aps", "zps", ""}) {
        CAPTURE(name);
        CHECK(taken(by_name, name, value(7.5)) == -2);
    }
    CHECK(taken(by_name, nullptr, value(7.5)) == -2);
    core::Memo::GivenAttribute promoted{OPDOCK_VALUE_INT, 0, false, false, true, true, ""};
    CHECK(taken(promoted, nullptr, value(7)) == 7.0);
    core::Memo::GivenAttribute fixed{OPDOCK_VALUE_STRING, 1, true, false, false, true, ""};
    CHECK(taken(fixed, nullptr, value("text")) == -1); // the memo already has its own
    CHECK(taken(fixed, nullptr, value("else")) == -2);
}

namespace {

// A call that is modified in place, one field at a time, as by a program that reuses its descriptors.
class ChangingCall {
  public:
    static constexpr const char *signature =
        "test.any(a: T[..., n], b: U[n]?, *, scale: float = 1.0, flag: bool = false, k: int = 3, name: string = \"\", "
        "list: int[] = [1]) -> (o ~ a: T[..., n], p: U[n]?)";

    explicit ChangingCall(uint64_t seed) : random_(seed) { reset(); }

    const opdock_args &args() {
        for (size_t t = 0; t < tensors_.size(); ++t) {
            tensors_[t].tensor.shape = tensors_[t].shape.data();
            tensors_[t].tensor.strides = tensors_[t].has_strides ? tensors_[t].strides.data() : nullptr;
            pointers_[t] = tensors_[t].present ? &tensors_[t].tensor : nullptr;
        }
        args_.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
        args_.inputs = pointers_.data();
        args_.outputs = pointers_.data() + 2;
        args_.attributes = attributes_.data();
        return args_;
    }

    void change() {
        if (one_of(8) == 0) {
            reset();
        }
        Given &tensor = tensors_[one_of(4)];
        switch (one_of(14)) {
        case 0:
            tensor.tensor.dtype = opdock_dtype_unpack(pick({OPDOCK_F32, OPDOCK_F16, OPDOCK_I32}));
            break;
        case 1:
            tensor.tensor.device = pick<DLDevice>({test::cpu, {kDLCPU, 1}, {kDLCUDA, 0}});
            break;
        case 2:
            tensor.strides[one_of(3)] = pick<int64_t>({0, 1, 3, 4, 12, -1, INT64_MAX, INT64_MIN});
            break;
        case 3:
            tensor.shape[one_of(3)] = pick<int64_t>({0, 1, 2, 3, 4, -1, INT64_MAX});
            break;
        case 4:
            tensor.tensor.ndim = pick({0, 1, 2, 3, -1, 9});
            break;
        case 5:
            tensor.tensor.byte_offset = pick<uint64_t>({0, 4, 16, 2, 64, uint64_t{0} - 4});
            break;
        case 6:
            tensor.tensor.data = pick<void *>({memory_, memory_ + 16, memory_ + 4096, memory_ + 8192, nullptr});
            break;
        case 7:
            tensor.has_strides = !tensor.has_strides;
            break;
        case 8:
            tensor.present = !tensor.present;
            break;
        case 9:
            tensors_[2] = tensors_[0]; // the output is the input
            break;
        case 10:
            args_.n_inputs = pick<uint32_t>({1, 2});
            break;
        case 11:
            args_.n_outputs = pick<uint32_t>({1, 2});
            break;
        case 12:
            args_.n_attributes = static_cast<uint32_t>(one_of(attributes_.size() + 1));
            break;
        default:
            change_attribute();
            break;
        }
    }

    uint64_t one_of(uint64_t count) { return random_() % count; }

  private:
    struct Given {
        DLTensor tensor{};
        std::array<int64_t, 9> shape{};
        std::array<int64_t, 9> strides{};
        bool has_strides = true;
        bool present = true;
    };

    template<class T>
    T pick(std::initializer_list<T> choices) {
        return *(choices.begin() + one_of(choices.size()));
    }

    void change_attribute() {
        static constexpr const char *names[] = {"scale", "flag", "k", "name", "list"};
        static const std::vector<int64_t> numbers = {1, 2};
        const size_t which = one_of(attributes_.size());
        opdock_attribute &attribute = attributes_[which];
        attribute.name = pick<const char *>({nullptr, nullptr, names[which], names[one_of(5)]});
        attribute.value = pick<opdock_value>({value(1.5),
                                              value(-0.0),
                                              value(true),
                                              value(int64_t{2}, OPDOCK_VALUE_BOOL),
                                              value(4),
                                              value(5),
                                              value("x"),
                                              value("yz"),
                                              value(numbers),
                                              {}});
    }

    void reset() {
        static constexpr uint64_t offsets[] = {0, 4096, 8192, 12288};
        for (size_t t = 0; t < tensors_.size(); ++t) {
            Given &given = tensors_[t];
            given = {};
            given.shape = {3, 4, 1};
            given.strides = {4, 1, 1};
            given.tensor = {memory_ + offsets[t], test::cpu, 2, {kDLFloat, 32, 1}, nullptr, nullptr, 0};
            if (t % 2 == 1) {
                given.shape = {4, 1, 1};
                given.strides = {1, 1, 1};
                given.tensor.ndim = 1;
                given.present = one_of(2) == 0;
            }
        }
        args_ = {};
        args_.n_inputs = args_.n_outputs = 2;
        const opdock_value usual[] = {value(2.0), value(false), value(3), value("x"), {}};
        for (size_t i = 0; i < attributes_.size(); ++i) {
            attributes_[i] = {nullptr, usual[i]};
        }
        args_.n_attributes = static_cast<uint32_t>(one_of(6));
    }

    alignas(64) char memory_[16384] = {};
    std::mt19937_64 random_;
    std::array<Given, 4> tensors_;
    std::array<const DLTensor *, 4> pointers_{};
    std::array<opdock_attribute, 5> attributes_{};
    opdock_args args_{};
};

// Everything that a kernel is told.
std::string seen_by(const std::string &impl_id, const opdock_problem &problem, const opdock_call &call) {
    std::string text = impl_id;
    for (uint32_t t = 0; t < problem.n_tensors; ++t) {
        text += fmt::format("\n{}", call.data[t]);
        if (const DLTensor *tensor = problem.tensors[t]) {
            text += " " + core::dtype_name(opdock_dtype_pack(tensor->dtype));
            for (int32_t d = 0; d < tensor->ndim; ++d) {
                text += fmt::format(" {}:{}", tensor->shape[d], tensor->strides[d]);
            }
        }
    }
    const opdock_value *values = problem.attributes;
    text += fmt::format("\n{} {} {} '{}'", values[0].as.f, values[1].as.i, values[2].as.i, values[3].as.s);
    for (uint32_t i = 0; i < values[4].count; ++i) {
        text += fmt::format(" {}", values[4].as.ints[i]);
    }
    return text;
}

} // namespace

TEST_CASE("calls on a thread that remembers come out as on a thread that remembers nothing") {
    OneOp op(ChangingCall::signature);
    std::string seen;
    const auto add = [&](const char *impl_id, uint32_t kind, const std::function<void(Made &)> &adjust) {
        Made &made = op.add(impl_id, kind);
        made.work = [&seen, id = made.impl_id](const opdock_problem &problem, const opdock_call &call) {
            seen += seen_by(id, problem, call);
            const int64_t k = problem.attributes[2].as.i;
            return k == 5 ? OPDOCK_UNSUPPORTED : k == 6 ? OPDOCK_INVALID_ARGUMENT : OPDOCK_OK;
        };
        adjust(made);
    };
    add("default.one", OPDOCK_KIND_DEFAULT, [](Made &) {});
    add("reference.two", OPDOCK_KIND_REFERENCE, [](Made &) {});
    const core::PolicyPtr other = op.host.policy("prefer", "reference");

    const uint64_t seed = 20;
    CAPTURE(seed);
    ChangingCall call(seed);
    int served = 0;
    for (int step = 0; step < 4000; ++step) {
        CAPTURE(step);
        call.change();
        const bool scoped = call.one_of(4) == 0;
        if (call.one_of(64) == 0) {
            op.host->set_program_policy(call.one_of(2) == 0 ? other : nullptr);
        }
        const auto outcome = [&] {
            if (scoped) {
                op.host->push_scope(other);
            }
            seen.clear();
            const opdock_status status = op.call(call.args());
            std::string text = fmt::format("{} ", status) + seen;
            if (status != OPDOCK_OK) {
                text += last_error();
            }
            if (scoped) {
                op.host->pop_scope();
            }
            return text;
        };
        const std::string here = outcome();
        std::string there;
        std::thread([&] { there = outcome(); }).join();
        REQUIRE(here == there);
        REQUIRE(outcome() == there);
        served += here.starts_with("0 ") ? 1 : 0;
    }
    CHECK(served > 400);
}

TEST_CASE("a call that looks like the one before is served by what is remembered, of any rank and number of tensors") {
    for (const char *signature :
         {"test.one(a: f32[...]) -> (x: f32[...])", "test.four(a: f32[...], b: f32[...]) -> (x: f32[...], y: f32[...])",
          "test.most(a: f32[...], b: f32[...], c: f32[...], d: f32[...]) -> (x: f32[...], y: f32[...], z: f32[...])",
          "test.five(a: f32[...], b: f32[...], c: f32[...], d: f32[...], e: f32[...]) -> (x: f32[...])"}) {
        CAPTURE(signature);
        const core::Signature parsed = core::parse_signature(signature);
        for (size_t rank = 0; rank < 5; ++rank) {
            CAPTURE(rank);
            OneOp op(signature);
            Made &made = op.add("default.one", OPDOCK_KIND_DEFAULT);
            const auto call_of = [&](CallArguments &call, int64_t size) -> opdock_args & {
                std::vector<int64_t> shape(rank, size), strides(rank, 1);
                for (size_t axis = rank; axis-- > 1;) {
                    strides[axis - 1] = strides[axis] * size;
                }
                for (size_t i = 0; i < parsed.n_params(); ++i) {
                    (void)(i < parsed.inputs.size() ? call.in(OPDOCK_F32, shape, strides)
                                                    : call.out(OPDOCK_F32, shape, strides));
                }
                return call.args();
            };
            CallArguments call;
            const opdock_args &args = call_of(call, 2);
            REQUIRE(op.call(args) == OPDOCK_OK);
            const auto &entry = op.host->op(op.name);
            core::Memo *const memo = core::call_thread().latest[entry.index % core::CallThread::n_latest].memo;
            REQUIRE(memo != nullptr);
            const auto is_served = [&](const opdock_args &given) {
                const int before = made.calls;
                opdock_status status = OPDOCK_FAILED;
                const bool served = memo->quick.attempt(*memo, given, &status);
                CHECK(made.calls - before == (served ? 1 : 0));
                CHECK(status == (served ? OPDOCK_OK : OPDOCK_FAILED));
                return served;
            };
            CHECK(is_served(args) == (rank != 0)); // a scalar has no strides to compare
            const std::function<void(MadeTensor &)> changes[] = {
                [](MadeTensor &tensor) { tensor.dtype = OPDOCK_I32; },
                [](MadeTensor &tensor) { tensor.device.device_id = 1; },
                [](MadeTensor &tensor) { tensor.device.device_type = kDLCUDAHost; },
                [](MadeTensor &tensor) { tensor.shape.empty() ? tensor.shape.push_back(1) : tensor.shape.pop_back(); },
                [&](MadeTensor &tensor) { tensor.shape.at(rank - 1) = 1; },
                [&](MadeTensor &tensor) { tensor.strides.at(rank - 1) = 2; },
                [](MadeTensor &tensor) { tensor.shape.at(0) = 1; },
                [](MadeTensor &tensor) { tensor.strides.at(0) = 32; },
            };
            for (size_t change = 0; change < (rank == 0 ? 4 : std::size(changes)); ++change) {
                CAPTURE(change);
                CallArguments first, last;
                call_of(first, 2);
                changes[change](first.input(0));
                CHECK_FALSE(is_served(first.args()));
                call_of(last, 2);
                changes[change](last.output(parsed.outputs.size() - 1));
                CHECK_FALSE(is_served(last.args()));
            }
        }
    }
}

TEST_CASE("a call that is made again has its plan from the first time, and a call that differs anywhere has its own") {
    static std::atomic<int> plans{0};
    OneOp op("test.many(xs: T[m, n]*, x: T[k, l], *, i: int = 1, s: string = \"a\", j: int[] = [1], f: float = 2.0) -> "
             "(output: T[k, l])");
    Made &made = *op.made.emplace_back(std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT));
    made.op = op.name;
    made.work = [](const auto &, const auto &) { return OPDOCK_OK; };
    made.adjust = [](opdock_impl &impl) {
        impl.plan_create = [](const opdock_problem *, void **plan) -> opdock_status {
            ++plans;
            *plan = &plans;
            return OPDOCK_OK;
        };
        impl.plan_destroy = [](const opdock_host_api *, void *, DLDevice, void *) {};
    };
    op.host.module("module", [&](opdock_registry *registry) {
        declare(registry, op.text.c_str());
        register_made(registry, made);
        return OPDOCK_OK;
    });
    const std::vector<int64_t> numbers = {1, 2}, others = {1, 3};
    const auto plans_of = [&](const std::function<void(CallArguments &)> &change) {
        CallArguments call;
        call.in(OPDOCK_F32, {2, 3}, {3, 1}).in(OPDOCK_F32, {2, 3}, {3, 1}).in(OPDOCK_F32, {2, 3}, {3, 1});
        call.out(OPDOCK_F32, {2, 3}, {3, 1}).lists({2});
        change(call);
        const int before = plans;
        for (int round = 0; round < 3; ++round) {
            REQUIRE(op.call(call.args()) == OPDOCK_OK);
        }
        return plans - before;
    };
    CHECK(plans_of([](CallArguments &) {}) == 1);
    CHECK(plans_of([](CallArguments &) {}) == 0);
    CHECK(plans_of([](CallArguments &call) { call.input(1).strides.clear(); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.input(1).strides = {6, 2}; }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.output(0).strides = {6, 2}; }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.input(1).shape[0] = 4; }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.input(1).shape[0] = 5; }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute(value(7)); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute("s", value("text")); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute("s", value("texts")); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute("s", value("text")); }) == 0);
    CHECK(plans_of([&](CallArguments &call) { call.attribute("j", value(numbers)); }) == 1);
    CHECK(plans_of([&](CallArguments &call) { call.attribute("j", value(others)); }) == 1);
    CHECK(plans_of([&](CallArguments &call) { call.attribute("j", value(numbers)); }) == 0);
    CHECK(plans_of([](CallArguments &call) { call.attribute("f", value(2.5)); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute("f", value(3)); }) == 1);
    CHECK(plans_of([](CallArguments &call) { call.attribute("f", value(2.5)); }) == 0);
}

TEST_CASE("a call whose tensors are shared out to its lists in another way is another call") {
    OneOp op("test.shared(xs: T[n]*, x: T[m]?) -> (output: f32[1])");
    Made &made = op.add("default.one", OPDOCK_KIND_DEFAULT);
    uint32_t in_list = 0;
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        in_list = problem.tensor_offsets[1];
        return OPDOCK_OK;
    };
    for (int round = 0; round < 3; ++round) {
        for (const uint32_t size : {2u, 1u}) {
            CallArguments call;
            call.in(OPDOCK_F32, {3}, {1}).in(OPDOCK_F32, {3}, {1}).out(OPDOCK_F32, {1}, {1}).lists({size});
            REQUIRE(op.call(call.args()) == OPDOCK_OK);
            CHECK(in_list == size);
        }
    }
}
