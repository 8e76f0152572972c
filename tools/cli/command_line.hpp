// The options of a tool, one record each: the name, the help text, and the member of the tool's request that receives
// the value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>

#include "cli/arguments.hpp"

namespace opdock::cli {

enum class Asked { work, help, version };

// Holds references to the request, which must outlive it.
class CommandLine {
  public:
    using Texts = std::vector<std::string>;
    using Names = std::vector<const char *>; // of options

    // `narrowest`: minimum number of columns for the texts of help.
    explicit CommandLine(unsigned narrowest);

    // Options, in the order of help. `name` may be followed by a letter, "verbose,v"; `value` is the placeholder in
    // help. An empty value is a usage error, except for options that may be repeated.
    void flag(const char *name, bool &into, const char *help);
    void flag(const char *name, std::function<void()> given, const char *help);
    void text(const char *name, const char *value, std::string &into, const char *help);
    // Values of a certain form: if `is_right` rejects one, the usage error says what was `expected`.
    void text(const char *name, const char *value, std::string &into, bool (*is_right)(const std::string &),
              const char *expected, const char *help);
    // Values from a list, such as "fast"; a choice is stored as its index.
    void choice(const char *name, const char *value, uint32_t &into, const Texts &values, const char *help);
    void choices(const char *name, const char *value, Texts &into, const Texts &values, const char *help);
    void prose(const char *name, const char *value, std::string &into, const char *help); // may have several lines
    void texts(const char *name, const char *value, Texts &into, const char *help);
    void path(const char *name, const char *value, std::string &into, const char *help); // made an absolute path
    void paths(const char *name, const char *value, Texts &into, const char *help);
    void duration(const char *name, const char *value, double &into, const char *help); // seconds
    template<class Number>
    void number(const char *name, Number &into, uint64_t minimum, uint64_t maximum, const char *help) {
        const auto take = [=, &into](const std::string &text) {
            into = static_cast<Number>(parse_number(text, std::string("--") + name, minimum, maximum));
        };
        one(name, "N", take, help);
    }
    // Other values: of an option that may be given once, and of one that may be repeated.
    void one(const char *name, const char *value, std::function<void(const std::string &)> take, const char *help);
    void each(const char *name, const char *value, std::function<void(const Texts &)> take, const char *help);

    // Options shared by several tools.
    void modules(Texts &into, const char *help = "search this plugin file or directory first");
    void prefix();
    // --format and --json; for `keys` and `commands` see add_format().
    void format(bool &json, const char *keys, const char *commands = "");
    // --version and --help, listed last; only --help for a tool that handles --version itself.
    static constexpr const char *version_help = "the version of this tool and its ABI";
    void ends(const char *version = version_help, const char *help = "this text");
    void help(const char *help = "this text");

    // Positional values. `name` says what they are. If they name the subject of the request, only the last one does.
    void words(const char *name, Texts &into);
    void words(const char *name, std::string &into);

    // Options that contradict each other: one of `some` and one of `others`. A message that begins with a blank follows
    // the given option of `some`; "" stands for "--this and --that contradict each other".
    void conflict(Names some, Names others, const char *message = "");
    // Options that require one of `others`; `message` is as for conflict().
    void need(Names some, Names others, const char *message);

    // Parses the command line; leaves the request unchanged. Throws UsageError.
    Asked parse(const std::vector<std::string> &arguments);
    // Stores `words` and the values in the request, in the order of the declarations above. Throws UsageError.
    void store(const Texts &words) const;

    bool given(const std::string &name) const { return values_.contains(name); }
    Texts texts_of(const std::string &name) const; // as the user gave it
    Texts words() const { return texts_of(words_); }
    std::string as_given(const std::string &name) const; // "--out", "--format json"

    // Throws UsageError for options other than those of a command; `where` is "with export". Without hints, the message
    // suggests no other option.
    void refuse_others(const std::string &where, const Names &options, bool hints = true) const;

    const boost::program_options::options_description &description() const { return description_; }

  private:
    struct Rule {
        Names some;
        Names others;
        bool are_needed;
        const char *message;
    };
    void enforce(const Rule &rule) const;
    const char *first_given(const Names &names) const; // null if none is given

    boost::program_options::options_description description_;
    boost::program_options::positional_options_description positional_;
    std::string words_;
    std::string prose_;
    boost::program_options::variables_map values_;
    std::vector<std::pair<std::string, std::function<void(const Texts &)>>> takes_;
    std::function<void(const Texts &)> takes_words_;
    std::vector<Rule> rules_;
};

} // namespace opdock::cli
