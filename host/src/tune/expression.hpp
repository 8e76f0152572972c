// Arithmetic in tune files: "min(1024, next_pow2(n))", "block * vec <= n". Evaluated by muParser, on doubles.
//
// + - * / % ^, < <= > >= == != && ||, CONDITION ? A : B, abs floor ceil log2 sqrt, min and max of two or more, and the
// functions
//   next_pow2(x)   the smallest power of two that is not less than x (1 for x <= 1)
//   prev_pow2(x)   the largest power of two that is not more than x (1 for x < 2)
//   ceil_div(a, b) the number of times b is needed to cover a
//   round_up(a, b) the smallest multiple of b that is not less than a
// Division is not rounded.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace opdock::core {

class TuneExpression {
  public:
    // The error, and its position in the text (from 0).
    struct Fault {
        std::string message;
        size_t at;
    };

    static constexpr size_t most_bytes = 2048;
    static constexpr size_t most_depth = 32; // of nested parentheses

    // The number of expressions that a text counts as under a limit: longer texts take longer to read and evaluate.
    static size_t count_of(std::string_view text) { return text.empty() ? 1 : (text.size() + 511) / 512; }

    // `names`: the variables whose values are passed to evaluate(), in the same order.
    static std::variant<TuneExpression, Fault> parse(const std::string &text, std::span<const std::string> names);

    TuneExpression(TuneExpression &&) noexcept;
    TuneExpression &operator=(TuneExpression &&) noexcept;
    ~TuneExpression();

    const std::string &text() const;
    // Indices of the names that it reads, ascending.
    const std::vector<size_t> &reads() const;
    // `values`: one for each name. Nothing if the result is not finite. Only one thread at a time evaluates it.
    std::optional<double> evaluate(std::span<const double> values) const;

  private:
    struct Parsed;
    explicit TuneExpression(std::unique_ptr<Parsed> parsed);
    std::unique_ptr<Parsed> parsed_;
};

} // namespace opdock::core
