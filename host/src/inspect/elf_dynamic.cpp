#include "inspect/elf_dynamic.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace opdock::core {
namespace {

// Far above real numbers; they bound the time that a hostile file can take.
constexpr std::size_t most_entries = 4096;
constexpr std::size_t most_versions = 4096;
constexpr std::size_t most_symbols = std::size_t{1} << 22;
constexpr std::size_t longest_text = 4096;
constexpr std::size_t most_text = std::size_t{16} << 20; // total length of names, which may share the same bytes

// The loader's default for a file without PT_GNU_STACK.
#if defined(__x86_64__)
constexpr bool stack_is_executable_unless_told = true;
#else
constexpr bool stack_is_executable_unless_told = false;
#endif

// Entries of the dynamic section by tag, the last one of each. Tags that name libraries may be repeated and are kept
// separately.
struct Tags {
    std::map<std::int64_t, std::uint64_t> values;
    std::vector<std::uint64_t> needed;

    std::uint64_t value(std::int64_t tag) const {
        const auto found = values.find(tag);
        return found != values.end() ? found->second : 0;
    }
};

Tags read_tags(const ElfImage &image) {
    const auto &segments = image.segments();
    const auto dynamic =
        std::find_if(segments.begin(), segments.end(), [](const auto &one) { return one.p_type == PT_DYNAMIC; });
    if (dynamic == segments.end()) {
        image.reject("it has no dynamic section");
    }
    if (std::count_if(dynamic, segments.end(), [](const auto &one) { return one.p_type == PT_DYNAMIC; }) > 1) {
        image.reject("it has more than one dynamic section");
    }
    std::vector<Elf64_Dyn> entries(std::min<std::uint64_t>(dynamic->p_filesz / sizeof(Elf64_Dyn), most_entries));
    image.read(dynamic->p_vaddr, std::as_writable_bytes(std::span(entries)));
    Tags tags;
    for (const Elf64_Dyn &entry : entries) {
        if (entry.d_tag == DT_NULL) {
            return tags;
        }
        if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_AUXILIARY || entry.d_tag == DT_FILTER) {
            tags.needed.push_back(entry.d_un.d_val);
        } else {
            tags.values[entry.d_tag] = entry.d_un.d_val;
        }
    }
    image.reject("its dynamic section is not terminated");
}

class Strings {
  public:
    Strings(const ElfImage &image, const Tags &tags)
        : image_(image), address_(tags.value(DT_STRTAB)), size_(tags.value(DT_STRSZ)) {}

    std::string at(std::uint64_t offset) const {
        std::string text;
        // Read in pieces, because most names are short and none may be longer than the table.
        std::array<char, 64> piece{};
        for (;;) {
            if (offset >= size_ || text.size() > longest_text) {
                image_.reject("a name in it is not terminated");
            }
            const std::size_t count = std::min<std::uint64_t>(piece.size(), size_ - offset);
            image_.read(address_ + offset, std::as_writable_bytes(std::span(piece.data(), count)));
            const auto end = std::find(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count), '\0');
            text.append(piece.begin(), end);
            if (end != piece.begin() + static_cast<std::ptrdiff_t>(count)) {
                return text;
            }
            offset += count;
        }
    }

    // True if the name at this offset is `name`; reads no more than needed for the comparison.
    bool is_at(std::uint64_t offset, std::string_view name) const {
        if (offset >= size_) {
            image_.reject("a name in it is not terminated");
        }
        if (name.size() >= size_ - offset) {
            return false;
        }
        std::string text(name.size() + 1, '\0');
        image_.read(address_ + offset, std::as_writable_bytes(std::span(text)));
        return text.back() == '\0' && text.starts_with(name);
    }

  private:
    const ElfImage &image_;
    std::uint64_t address_;
    std::uint64_t size_;
};

std::vector<VersionNeed> read_version_needs(const ElfImage &image, const Tags &tags, const Strings &strings) {
    std::vector<VersionNeed> needs;
    // Libraries and weak versions count too: they take as long to read, and a few bytes can claim millions of
    // them.
    std::size_t entries = 0;
    const auto count_entry = [&] {
        if (++entries > most_versions) {
            image.reject(fmt::format("it needs more than {} versions", most_versions));
        }
    };
    std::uint64_t at = tags.value(DT_VERNEED);
    for (std::uint64_t file = 0; at != 0 && file < tags.value(DT_VERNEEDNUM); ++file) {
        count_entry();
        const auto from = image.read<Elf64_Verneed>(at);
        const std::string library = strings.at(from.vn_file);
        std::uint64_t version_at = at + from.vn_aux;
        for (std::uint16_t i = 0; i < from.vn_cnt; ++i) {
            count_entry();
            const auto version = image.read<Elf64_Vernaux>(version_at);
            if ((version.vna_flags & VER_FLG_WEAK) == 0) {
                needs.push_back({library, strings.at(version.vna_name)});
            }
            version_at += version.vna_next;
        }
        at = from.vn_next != 0 ? at + from.vn_next : 0;
    }
    return needs;
}

std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char c : name) {
        hash = hash * 33 + static_cast<unsigned char>(c);
    }
    return hash;
}

std::uint32_t system_v_hash(std::string_view name) {
    std::uint32_t hash = 0;
    for (const char c : name) {
        hash = (hash << 4) + static_cast<unsigned char>(c);
        const std::uint32_t high = hash & 0xf0000000;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

// Looks up symbols through the hash tables, as the loader does.
class Symbols {
  public:
    Symbols(const ElfImage &image, const Tags &tags, const Strings &strings)
        : image_(image), tags_(tags), strings_(strings) {}

    // The type of a symbol visible to other files; nullopt if the file does not define it.
    std::optional<unsigned> type_of(std::string_view name) const {
        std::optional<unsigned> type;
        if (const std::uint64_t gnu_table = tags_.value(DT_GNU_HASH)) {
            find_in_gnu_table(gnu_table, name, type);
        } else if (const std::uint64_t table = tags_.value(DT_HASH)) {
            find_in_system_v_table(table, name, type);
        } else {
            image_.reject("it has symbols, but no hash table of symbols");
        }
        return type;
    }

    // Symbols that the file uses and other files must define.
    std::vector<std::string> undefined() const {
        std::vector<std::string> names;
        std::size_t text = 0;
        const std::uint64_t count = undefined_end();
        for (std::uint64_t index = 1; index < count; ++index) {
            const Elf64_Sym symbol = at(index);
            if (symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL) {
                names.push_back(strings_.at(symbol.st_name));
                text += names.back().size();
            }
            if (text > most_text) {
                image_.reject(fmt::format("the names of the symbols that it uses are longer than {} bytes", most_text));
            }
        }
        return names;
    }

    // Symbols visible to others: from the first symbol in the hash table to the end of the last bucket's chain.
    // `is_wanted`: filter for a symbol.
    template<class Wanted>
    std::vector<std::string> defined(std::size_t most, std::size_t most_looked_at, Wanted is_wanted) const {
        const std::uint64_t table = tags_.value(DT_GNU_HASH);
        if (table == 0) {
            return {};
        }
        const auto [n_buckets, first, n_filter, shift] = image_.read<std::array<std::uint32_t, 4>>(table);
        const std::uint64_t buckets = table + 16 + std::uint64_t{n_filter} * 8;
        const std::uint64_t hashes = buckets + std::uint64_t{n_buckets} * 4;
        std::vector<std::string> names;
        for (std::uint64_t bucket = 0; bucket < std::min<std::uint64_t>(n_buckets, symbols_that_fit()); ++bucket) {
            std::uint64_t index = image_.read<std::uint32_t>(buckets + bucket * 4);
            for (bool is_last = index < first; !is_last; ++index) {
                if (names.size() == most || most_looked_at-- == 0) {
                    return names;
                }
                const Elf64_Sym symbol = at(index);
                if (symbol.st_shndx != SHN_UNDEF && is_wanted(symbol)) {
                    names.push_back(strings_.at(symbol.st_name));
                }
                if (index > symbols_that_fit()) {
                    image_.reject("its symbol table is not terminated");
                }
                is_last = (image_.read<std::uint32_t>(hashes + (index - first) * 4) & 1) != 0;
            }
        }
        return names;
    }

  private:
    // Upper bound, whatever the tables claim.
    std::uint64_t symbols_that_fit() const {
        return std::min<std::uint64_t>(image_.file().size() / sizeof(Elf64_Sym), most_symbols);
    }

    Elf64_Sym at(std::uint64_t index) const {
        return image_.read<Elf64_Sym>(tags_.value(DT_SYMTAB) + index * sizeof(Elf64_Sym));
    }

    bool is_definition_of(std::string_view name, std::uint64_t index, std::optional<unsigned> &type) const {
        const Elf64_Sym symbol = at(index);
        if (symbol.st_shndx == SHN_UNDEF || !strings_.is_at(symbol.st_name, name)) {
            return false;
        }
        type = ELF64_ST_TYPE(symbol.st_info);
        return true;
    }

    // With the newer table, undefined symbols come first; with the older one, they are mixed with all others.
    std::uint64_t undefined_end() const {
        std::uint64_t end = 0;
        if (const std::uint64_t gnu_table = tags_.value(DT_GNU_HASH)) {
            end = image_.read<std::array<std::uint32_t, 4>>(gnu_table)[1];
        } else if (const std::uint64_t table = tags_.value(DT_HASH)) {
            end = image_.read<std::array<std::uint32_t, 2>>(table)[1];
        }
        return std::min(end, symbols_that_fit());
    }

    // Layout: n buckets, first symbol, n Bloom filter words, shift; the filter; the buckets; the hashes.
    void find_in_gnu_table(std::uint64_t table, std::string_view name, std::optional<unsigned> &type) const {
        const auto head = image_.read<std::array<std::uint32_t, 4>>(table);
        const auto [n_buckets, first, n_filter, shift] = head;
        if (n_buckets == 0) {
            return;
        }
        const std::uint32_t hash = gnu_hash(name);
        const std::uint64_t buckets = table + sizeof head + std::uint64_t{n_filter} * 8;
        const std::uint64_t hashes = buckets + std::uint64_t{n_buckets} * 4;
        const auto start = image_.read<std::uint32_t>(buckets + std::uint64_t{hash % n_buckets} * 4);
        if (start < first) {
            return;
        }
        for (std::uint64_t index = start; index - start < symbols_that_fit(); ++index) {
            const auto of_symbol = image_.read<std::uint32_t>(hashes + (index - first) * 4);
            if ((of_symbol | 1) == (hash | 1) && is_definition_of(name, index, type)) {
                return;
            }
            if ((of_symbol & 1) != 0) { // the end of the chain
                return;
            }
        }
        image_.reject("its symbol table is not terminated");
    }

    // Layout: n buckets, n symbols; the buckets; for each symbol the next symbol of its chain.
    void find_in_system_v_table(std::uint64_t table, std::string_view name, std::optional<unsigned> &type) const {
        const auto [n_buckets, n_symbols] = image_.read<std::array<std::uint32_t, 2>>(table);
        if (n_buckets == 0) {
            return;
        }
        const std::uint64_t next = table + 8 + std::uint64_t{n_buckets} * 4;
        auto index = image_.read<std::uint32_t>(table + 8 + std::uint64_t{system_v_hash(name) % n_buckets} * 4);
        for (std::uint32_t steps = 0; index != STN_UNDEF; ++steps) {
            if (steps == n_symbols || steps == symbols_that_fit()) {
                image_.reject("its symbol table is not terminated");
            }
            if (is_definition_of(name, index, type)) {
                return;
            }
            index = image_.read<std::uint32_t>(next + std::uint64_t{index} * 4);
        }
    }

    const ElfImage &image_;
    const Tags &tags_;
    const Strings &strings_;
};

} // namespace

ElfDynamic read_dynamic(const ElfImage &image) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    ElfDynamic dynamic;
    for (const std::uint64_t name : tags.needed) {
        dynamic.libraries.names.push_back(strings.at(name));
    }
    dynamic.versions = read_version_needs(image, tags, strings);
    const auto text_of = [&](std::int64_t tag) {
        const auto found = tags.values.find(tag);
        return found != tags.values.end() ? std::optional(strings.at(found->second)) : std::nullopt;
    };
    dynamic.libraries.soname = text_of(DT_SONAME).value_or("");
    dynamic.libraries.rpath = text_of(DT_RPATH);
    dynamic.libraries.runpath = text_of(DT_RUNPATH);
    dynamic.relocates_text = tags.values.contains(DT_TEXTREL) || (tags.value(DT_FLAGS) & DF_TEXTREL) != 0;
    dynamic.uses_static_tls = (tags.value(DT_FLAGS) & DF_STATIC_TLS) != 0;
    dynamic.names_auditors = tags.values.contains(DT_AUDIT) || tags.values.contains(DT_DEPAUDIT);
    dynamic.has_executable_stack = stack_is_executable_unless_told;
    for (const Elf64_Phdr &segment : image.segments()) {
        const bool executable = (segment.p_flags & PF_X) != 0;
        if (segment.p_type == PT_TLS) {
            dynamic.tls_bytes = segment.p_memsz;
        } else if (segment.p_type == PT_GNU_STACK) {
            dynamic.has_executable_stack = executable;
        } else if (segment.p_type == PT_LOAD) {
            dynamic.has_writable_code |= executable && (segment.p_flags & PF_W) != 0;
        }
    }
    return dynamic;
}

bool exports_function(const ElfImage &image, std::string_view name) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    switch (Symbols(image, tags, strings).type_of(name).value_or(STT_NOTYPE)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
        return true;
    default:
        return false;
    }
}

std::vector<std::string> undefined_symbols(const ElfImage &image) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    return Symbols(image, tags, strings).undefined();
}

bool defines_symbol(const ElfImage &image, std::string_view name) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    return Symbols(image, tags, strings).type_of(name).has_value();
}

std::vector<std::string> defined_symbols(const ElfImage &image, std::size_t most) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    return Symbols(image, tags, strings).defined(most, most_symbols, [](const Elf64_Sym &) { return true; });
}

std::vector<std::string> unique_symbols(const ElfImage &image, std::size_t most) {
    constexpr std::size_t most_looked_at = 4096; // each one needs a file read
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    return Symbols(image, tags, strings).defined(most, most_looked_at, [](const Elf64_Sym &symbol) {
        return ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE;
    });
}

std::vector<std::string> versions_defined(const ElfImage &image) {
    const Tags tags = read_tags(image);
    const Strings strings(image, tags);
    std::vector<std::string> versions;
    std::uint64_t at = tags.value(DT_VERDEF);
    for (std::uint64_t i = 0; at != 0 && i < tags.value(DT_VERDEFNUM); ++i) {
        if (versions.size() == most_versions) {
            image.reject(fmt::format("it defines more than {} versions", most_versions));
        }
        const auto definition = image.read<Elf64_Verdef>(at);
        versions.push_back(strings.at(image.read<Elf64_Verdaux>(at + definition.vd_aux).vda_name));
        at = definition.vd_next != 0 ? at + definition.vd_next : 0;
    }
    return versions;
}

} // namespace opdock::core
