#include "tune/expression.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <muParser.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr double largest = 9007199254740992; // 2^53: above it, doubles skip integers

double next_pow2(double x) {
    return std::isnan(x) ? x
           : x <= 1      ? 1
           : x > largest ? HUGE_VAL
                         : static_cast<double>(std::bit_ceil(static_cast<uint64_t>(std::ceil(x))));
}

double prev_pow2(double x) {
    return std::isnan(x) ? x
           : x < 2       ? 1
           : x > largest ? HUGE_VAL
                         : static_cast<double>(std::bit_floor(static_cast<uint64_t>(x)));
}

double ceil_div(double a, double b) {
    return std::ceil(a / b);
}

double round_up(double a, double b) {
    return std::ceil(a / b) * b;
}

double two(double a) {
    return std::log2(a);
}

double smallest(const double *values, int count) {
    return std::accumulate(values, values + count, static_cast<double>(NAN),
                           [](double a, double b) { return std::fmin(a, b); });
}

double greatest(const double *values, int count) {
    return std::accumulate(values, values + count, static_cast<double>(NAN),
                           [](double a, double b) { return std::fmax(a, b); });
}

constexpr std::array<std::string_view, 12> functions = {
    "min", "max", "abs", "floor", "ceil", "log2", "sqrt", "cdiv", "next_pow2", "prev_pow2", "ceil_div", "round_up"};

// Without muParser's own functions and constants: a file must mean the same under every version of it.
mu::Parser make_parser() {
    mu::Parser parser;
    parser.ClearFun();
    parser.ClearConst();
    parser.ClearPostfixOprt();
    parser.DefineNameChars("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.");
    parser.DefineOprt("%", static_cast<double (*)(double, double)>(std::fmod), mu::prMUL_DIV);
    parser.DefineFun("min", smallest);
    parser.DefineFun("max", greatest);
    parser.DefineFun("abs", static_cast<double (*)(double)>(std::fabs));
    parser.DefineFun("floor", static_cast<double (*)(double)>(std::floor));
    parser.DefineFun("ceil", static_cast<double (*)(double)>(std::ceil));
    parser.DefineFun("log2", two);
    parser.DefineFun("sqrt", static_cast<double (*)(double)>(std::sqrt));
    parser.DefineFun("next_pow2", next_pow2);
    parser.DefineFun("prev_pow2", prev_pow2);
    parser.DefineFun("ceil_div", ceil_div);
    parser.DefineFun("cdiv", ceil_div); // Triton's name
    parser.DefineFun("round_up", round_up);
    return parser;
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Indices of the `names` that occur in the text, ascending; or a fault at the first word that is
// neither one of them nor, before a parenthesis, a function.
std::variant<std::vector<size_t>, TuneExpression::Fault> find_names(std::string_view text,
                                                                    std::span<const std::string> names) {
    std::unordered_map<std::string_view, size_t> places; // both a text and a plugin may have hundreds
    for (size_t i = 0; i < names.size(); ++i) {
        places.try_emplace(names[i], i);
    }
    std::vector<size_t> found;
    for (size_t begin = 0; begin < text.size();) {
        size_t end = begin + 1;
        if (is_digit(text[begin])) { // a number, including 1e5
            end = std::min(text.find_first_not_of("0123456789.eE", begin), text.size());
        } else if (is_letter(text[begin])) {
            while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) {
                ++end;
            }
            const std::string_view name = text.substr(begin, end - begin);
            const size_t next = text.find_first_not_of(' ', end);
            const bool calls = next != std::string_view::npos && text[next] == '(';
            const auto place = places.find(name);
            if (!calls && place != places.end()) {
                found.push_back(place->second);
            } else if (!calls || std::find(functions.begin(), functions.end(), name) == functions.end()) {
                std::vector<std::string_view> known(functions.begin(), functions.end());
                if (!calls) {
                    known.assign(names.begin(), names.end());
                }
                return TuneExpression::Fault{std::string(calls ? "unknown function " : "unknown name ") + quote(name) +
                                                 did_you_mean(name, known),
                                             begin};
            }
        }
        begin = end;
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// The name that ends before text[end]: the function called there.
std::string_view name_before(std::string_view text, size_t end) {
    while (end > 0 && text[end - 1] == ' ') {
        --end;
    }
    size_t begin = end;
    while (begin > 0 && (is_letter(text[begin - 1]) || is_digit(text[begin - 1]))) {
        --begin;
    }
    return text.substr(begin, end - begin);
}

std::string explained(const mu::Parser::exception_type &error) {
    std::string message = error.GetMsg();
    while (!message.empty() && (message.back() == '.' || message.back() == '\n')) {
        message.pop_back();
    }
    return message;
}

} // namespace

struct TuneExpression::Parsed {
    mu::Parser parser;
    std::string text;
    std::vector<size_t> reads;
    std::vector<double> values; // read by the parser: one for each of `reads`
    std::mutex mutex;

    Parsed(std::string of, std::span<const std::string> names, std::vector<size_t> used)
        : parser(make_parser()), text(std::move(of)), reads(std::move(used)), values(reads.size()) {
        for (size_t i = 0; i < reads.size(); ++i) {
            parser.DefineVar(names[reads[i]], &values[i]);
        }
        parser.SetExpr(text);
        (void)parser.Eval();
    }
};

namespace {

// Faults that muParser would accept or explain badly.
std::optional<TuneExpression::Fault> find_fault(const std::string &text) {
    using Fault = TuneExpression::Fault;
    if (text.empty()) {
        return Fault{"expected an expression, found nothing", 0};
    }
    if (text.size() > TuneExpression::most_bytes) {
        return Fault{"the expression is longer than " + std::to_string(TuneExpression::most_bytes) + " bytes",
                     TuneExpression::most_bytes};
    }
    struct Open {
        size_t at;
        bool has_comma;
    };
    std::vector<Open> open; // open parentheses
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '(') {
            if (open.size() == TuneExpression::most_depth) {
                return Fault{
                    "parentheses are nested deeper than " + std::to_string(TuneExpression::most_depth) + " levels", i};
            }
            open.push_back({i, false});
        } else if (c == ')' && !open.empty()) {
            const std::string_view name = name_before(text, open.back().at);
            if (!open.back().has_comma && (name == "min" || name == "max")) {
                return Fault{std::string(name) + " expects two values or more", open.back().at};
            }
            open.pop_back();
        }
        if (c == '=' && (i + 1 == text.size() || text[i + 1] != '=') &&
            (i == 0 || std::string_view("=<>!").find(text[i - 1]) == std::string_view::npos)) {
            return Fault{"'=' assigns; a comparison is '=='", i};
        }
        if (c == '"' || c == '{' || c == '}' || c == ';') {
            return Fault{"unexpected " + quote(std::string_view(&c, 1)), i};
        }
        if (c == ',') {
            if (open.empty()) {
                return Fault{"unexpected ','", i};
            }
            open.back().has_comma = true;
        }
    }
    return {};
}

} // namespace

std::variant<TuneExpression, TuneExpression::Fault> TuneExpression::parse(const std::string &text,
                                                                          std::span<const std::string> names) {
    if (std::optional<Fault> fault = find_fault(text)) {
        return *std::move(fault);
    }
    auto found = find_names(text, names);
    if (auto *unknown = std::get_if<Fault>(&found)) {
        return std::move(*unknown);
    }
    try {
        return TuneExpression(std::make_unique<Parsed>(text, names, std::get<std::vector<size_t>>(std::move(found))));
    } catch (const mu::Parser::exception_type &error) {
        return Fault{explained(error), static_cast<size_t>(std::max(error.GetPos(), 0))};
    }
}

TuneExpression::TuneExpression(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
TuneExpression::TuneExpression(TuneExpression &&) noexcept = default;
TuneExpression &TuneExpression::operator=(TuneExpression &&) noexcept = default;
TuneExpression::~TuneExpression() = default;

const std::string &TuneExpression::text() const {
    return parsed_->text;
}

const std::vector<size_t> &TuneExpression::reads() const {
    return parsed_->reads;
}

std::optional<double> TuneExpression::evaluate(std::span<const double> values) const {
    const std::lock_guard lock(parsed_->mutex);
    for (size_t i = 0; i < parsed_->reads.size(); ++i) {
        parsed_->values[i] = values[parsed_->reads[i]];
    }
    const double result = parsed_->parser.Eval();
    return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

} // namespace opdock::core
