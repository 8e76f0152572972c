#include "inflate.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace opdock::triton {
namespace {

constexpr unsigned longest = 15; // bits in the longest code

[[noreturn]] void damaged() {
    throw std::runtime_error("packed data of the plugin is damaged");
}

// The bits of `packed` in order, the lowest of each byte first. Zeros follow the end; taking any of them is an error.
class Bits {
  public:
    explicit Bits(std::string_view packed) : packed_(packed) {}

    // Returns the next `longest` bits without consuming them.
    std::uint32_t peek() {
        while (count_ < longest) {
            const std::uint64_t byte = at_ < packed_.size() ? static_cast<unsigned char>(packed_[at_]) : 0;
            bits_ |= byte << count_;
            count_ += 8;
            ++at_;
        }
        return static_cast<std::uint32_t>(bits_ & ((1U << longest) - 1));
    }

    void drop(unsigned count) {
        bits_ >>= count;
        count_ -= count;
        if (at_ - count_ / 8 > packed_.size()) {
            damaged();
        }
    }

    std::uint32_t take(unsigned count) { // at most `longest`
        const std::uint32_t value = peek() & ((1U << count) - 1);
        drop(count);
        return value;
    }

    // Takes whole bytes, starting at the next byte boundary.
    std::string_view bytes(std::size_t count) {
        at_ -= count_ / 8;
        bits_ = 0;
        count_ = 0;
        if (at_ > packed_.size() || count > packed_.size() - at_) {
            damaged();
        }
        at_ += count;
        return packed_.substr(at_ - count, count);
    }

  private:
    std::string_view packed_;
    std::size_t at_ = 0;
    std::uint64_t bits_ = 0;
    unsigned count_ = 0;
};

// A prefix code as a table over the next `longest` bits: symbol * 16 + length, or 0 if no code starts with these bits.
class Codes {
  public:
    Codes(const std::uint8_t *lengths, std::size_t symbols) : table_(1U << longest) {
        std::array<std::uint32_t, longest + 2> first = {};
        for (std::size_t i = 0; i < symbols; ++i) {
            ++first[lengths[i] + 1U];
        }
        first[1] = 0; // symbols without a code have length 0
        for (unsigned length = 1; length <= longest; ++length) {
            first[length + 1] = (first[length] + first[length + 1]) << 1;
            if (first[length + 1] > 2U << length) {
                damaged(); // more codes than the code space has room for
            }
        }
        // first[length] is now the first code of that length.
        for (std::size_t i = 0; i < symbols; ++i) {
            if (const unsigned length = lengths[i]; length != 0) {
                const std::uint32_t step = 1U << length;
                for (std::uint32_t at = reversed(first[length]++, length); at < table_.size(); at += step) {
                    table_[at] = static_cast<std::uint16_t>(i * 16 + length);
                }
            }
        }
    }

    unsigned read(Bits &bits) const {
        const unsigned found = table_[bits.peek()];
        if (found == 0) {
            damaged();
        }
        bits.drop(found % 16);
        return found / 16;
    }

  private:
    static std::uint32_t reversed(std::uint32_t code, unsigned length) {
        std::uint32_t result = 0;
        for (unsigned i = 0; i < length; ++i) {
            result |= ((code >> i) & 1U) << (length - 1 - i);
        }
        return result;
    }

    std::vector<std::uint16_t> table_;
};

// A length or distance: a base and the number of extra bits.
struct Extra {
    std::uint16_t base;
    std::uint8_t bits;
};
constexpr std::array<Extra, 29> lengths = {{{3, 0},   {4, 0},   {5, 0},   {6, 0},   {7, 0},  {8, 0},  {9, 0},  {10, 0},
                                            {11, 1},  {13, 1},  {15, 1},  {17, 1},  {19, 2}, {23, 2}, {27, 2}, {31, 2},
                                            {35, 3},  {43, 3},  {51, 3},  {59, 3},  {67, 4}, {83, 4}, {99, 4}, {115, 4},
                                            {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};
constexpr std::array<Extra, 30> distances = {
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},     {9, 2},     {13, 2},
     {17, 3},    {25, 3},    {33, 4},    {49, 4},     {65, 5},     {97, 5},    {129, 6},   {193, 6},
     {257, 7},   {385, 7},   {513, 8},   {769, 8},    {1025, 9},   {1537, 9},  {2049, 10}, {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};

void unpack_block(Bits &bits, const Codes &symbols, const Codes &distance_codes, std::string &to, std::size_t size) {
    while (true) {
        const unsigned symbol = symbols.read(bits);
        if (symbol < 256) {
            if (to.size() == size) {
                damaged();
            }
            to += static_cast<char>(symbol);
        } else if (symbol == 256) {
            return;
        } else {
            if (symbol - 257 >= lengths.size()) {
                damaged();
            }
            const Extra length = lengths[symbol - 257];
            const std::size_t count = length.base + bits.take(length.bits);
            const unsigned code = distance_codes.read(bits);
            if (code >= distances.size()) {
                damaged();
            }
            const std::size_t distance = distances[code].base + bits.take(distances[code].bits);
            if (distance > to.size() || count > size - to.size()) {
                damaged();
            }
            for (std::size_t i = 0; i < count; ++i) { // source and destination may overlap
                to += to[to.size() - distance];
            }
        }
    }
}

void unpack_fixed(Bits &bits, std::string &to, std::size_t size) {
    std::array<std::uint8_t, 288> of_symbols = {};
    std::fill(of_symbols.begin(), of_symbols.begin() + 144, std::uint8_t{8});
    std::fill(of_symbols.begin() + 144, of_symbols.begin() + 256, std::uint8_t{9});
    std::fill(of_symbols.begin() + 256, of_symbols.begin() + 280, std::uint8_t{7});
    std::fill(of_symbols.begin() + 280, of_symbols.end(), std::uint8_t{8});
    std::array<std::uint8_t, 30> of_distances = {};
    of_distances.fill(5);
    unpack_block(bits, Codes(of_symbols.data(), of_symbols.size()), Codes(of_distances.data(), of_distances.size()), to,
                 size);
}

void unpack_dynamic(Bits &bits, std::string &to, std::size_t size) {
    constexpr std::array<std::uint8_t, 19> order = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const std::size_t symbols = bits.take(5) + 257;
    const std::size_t all = symbols + bits.take(5) + 1;
    const std::size_t described = bits.take(4) + 4;
    std::array<std::uint8_t, 19> of_lengths = {};
    for (std::size_t i = 0; i < described; ++i) {
        of_lengths[order[i]] = static_cast<std::uint8_t>(bits.take(3));
    }
    const Codes codes(of_lengths.data(), of_lengths.size());
    std::vector<std::uint8_t> found;
    while (found.size() < all) {
        const unsigned code = codes.read(bits);
        if (code < 16) {
            found.push_back(static_cast<std::uint8_t>(code));
            continue;
        }
        if (code == 16 && found.empty()) {
            damaged();
        }
        const std::uint8_t value = code == 16 ? found.back() : std::uint8_t{0};
        const std::size_t count = code == 16 ? 3 + bits.take(2) : code == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
        found.insert(found.end(), count, value);
    }
    if (found.size() != all) {
        damaged();
    }
    unpack_block(bits, Codes(found.data(), symbols), Codes(found.data() + symbols, all - symbols), to, size);
}

} // namespace

std::string inflate(std::string_view packed, std::size_t size) {
    std::string result;
    result.reserve(size);
    Bits bits(packed);
    for (bool is_last = false; !is_last;) {
        is_last = bits.take(1) != 0;
        switch (bits.take(2)) {
        case 0: {
            const std::string_view header = bits.bytes(4);
            const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(header[i]); };
            const std::size_t count = byte(0) + byte(1) * 256U;
            if (count > size - result.size()) {
                damaged();
            }
            result += bits.bytes(count);
            break;
        }
        case 1:
            unpack_fixed(bits, result, size);
            break;
        case 2:
            unpack_dynamic(bits, result, size);
            break;
        default:
            damaged();
        }
    }
    if (result.size() != size) {
        damaged();
    }
    return result;
}

} // namespace opdock::triton
