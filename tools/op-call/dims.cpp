#include "op-call/dims.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace opdock::op_call {
namespace {

bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// A recursive descent parser for the grammar in docs/signatures.md. The host has checked the signature; anything not
// understood here is just left out.
class Evaluator {
  public:
    Evaluator(std::string_view text, const Sizes &sizes) : text_(text), sizes_(sizes) {}

    std::optional<int64_t> whole() {
        const std::optional<int64_t> value = sum();
        return at_end() ? value : std::nullopt;
    }

  private:
    bool at_end() {
        text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
        return text_.empty();
    }

    bool take(char c) {
        if (at_end() || text_.front() != c) {
            return false;
        }
        text_.remove_prefix(1);
        return true;
    }

    std::optional<int64_t> sum() {
        std::optional<int64_t> value = product();
        while (value) {
            const bool adds = take('+');
            if (!adds && !take('-')) {
                break;
            }
            const std::optional<int64_t> next = product();
            value = next ? std::optional(adds ? *value + *next : *value - *next) : std::nullopt;
        }
        return value;
    }

    std::optional<int64_t> product() {
        std::optional<int64_t> value = factor();
        while (value) {
            const char symbol = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : '\0';
            if (symbol == '\0') {
                break;
            }
            const std::optional<int64_t> next = factor();
            if (!next || (symbol != '*' && *next == 0)) {
                return std::nullopt;
            }
            value = symbol == '*' ? *value * *next : symbol == '/' ? *value / *next : *value % *next;
        }
        return value;
    }

    std::optional<int64_t> factor() {
        if (take('(')) {
            const std::optional<int64_t> value = sum();
            return take(')') ? value : std::nullopt;
        }
        const auto length =
            static_cast<size_t>(std::find_if_not(text_.begin(), text_.end(), is_name_character) - text_.begin());
        const std::string word(text_.substr(0, length));
        text_.remove_prefix(length);
        int64_t number = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (error == std::errc() && end == word.data() + word.size()) {
            return number;
        }
        const auto found = sizes_.find(word);
        return found == sizes_.end() ? std::nullopt : std::optional(found->second);
    }

    std::string_view text_;
    const Sizes &sizes_;
};

} // namespace

std::vector<std::string> names_in(std::string_view dim) {
    if (dim == "...") {
        return {"..."};
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < dim.size();) {
        size_t end = i;
        while (end < dim.size() && is_name_character(dim[end])) {
            ++end;
        }
        if (end > i && std::isdigit(static_cast<unsigned char>(dim[i])) == 0) {
            const std::string name(dim.substr(i, end - i));
            if (std::find(names.begin(), names.end(), name) == names.end()) {
                names.push_back(name);
            }
        }
        i = std::max(end, i + 1);
    }
    return names;
}

std::optional<int64_t> evaluate(std::string_view dim, const Sizes &sizes) {
    if (dim == "...") {
        const auto found = sizes.find("...");
        return found == sizes.end() ? std::nullopt : std::optional(found->second);
    }
    return Evaluator(dim, sizes).whole();
}

} // namespace opdock::op_call
