// The options of a tool, one record each: its name, what help says of it, and where in the tool's request its value
// goes.
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

// Holds references to the request, which has to live as long.
class CommandLine {
  public:
    using Texts = std::vector<std::string>;
    using Names = std::vector<const char *>; // of options

    // `narrowest`: columns that help leaves for its texts.
    explicit CommandLine(unsigned narrowest);

    // Options, in the order of help. `name` may have a letter behind it, "verbose,v"; `value` is what help calls the
    // value. A value that is empty is a usage error, but for those of options that may be repeated.
    void flag(const char *name, bool &into, const char *help);
    void flag(const char *name, std::function<void()> given, const char *help);
    void text(const char *name, const char *value, std::string &into, const char *help);
    // Of a form: one that is not `is_right` is a usage error, which says what was `expected`.
    void text(const char *name, const char *value, std::string &into, bool (*is_right)(const std::string &),
              const char *expected, const char *help);
    // Some of these values, such as "fast"; a choice is stored as its index.
    void choice(const char *name, const char *value, uint32_t &into, const Texts &values, const char *help);
    void choices(const char *name, const char *value, Texts &into, const Texts &values, const char *help);
    void prose(const char *name, const char *value, std::string &into, const char *help); // of several lines
    void texts(const char *name, const char *value, Texts &into, const char *help);
    void path(const char *name, const char *value, std::string &into, const char *help); // as absolute_path() has it
    void paths(const char *name, const char *value, Texts &into, const char *help);
    void duration(const char *name, const char *value, double &into, const char *help); // seconds
    template<class Number>
    void number(const char *name, Number &into, uint64_t minimum, uint64_t maximum, const char *help) {
        const auto take = [=, &into](const std::string &text) {
            into = static_cast<Number>(parse_number(text, std::string("--") + name, minimum, maximum));
        };
        one(name, "N", take, help);
    }
    // Other values: one that may be given once, and one that may be repeated.
    void one(const char *name, const char *value, std::function<void(const std::string &)> take, const char *help);
    void each(const char *name, const char *value, std::function<void(const Texts &)> take, const char *help);

    // Options of several tools.
    void modules(Texts &into, const char *help = "search this plugin file or directory first");
    void prefix();
    // --format and --json; `keys` and `commands` as add_format() has them.
    void format(bool &json, const char *keys, const char *commands = "");
    // --version and --help, which stand last; for a tool with an answer of its own to --version, the latter alone.
    static constexpr const char *version_help = "the version of this tool and its ABI";
    void ends(const char *version = version_help, const char *help = "this text");
    void help(const char *help = "this text");

    // Values without an option. `name` is what they are. Where they are about one thing, the last one is that.
    void words(const char *name, Texts &into);
    void words(const char *name, std::string &into);

    // Options that do not go together: one of `some` and one of `others`. A message that begins with a blank follows
    // the one of `some`; "" is "--this and --that contradict each other".
    void conflict(Names some, Names others, const char *message = "");
    // Options that need one of `others`; the message likewise.
    void need(Names some, Names others, const char *message);

    // Reads the command line; nothing is in the request yet. Throws UsageError.
    Asked parse(const std::vector<std::string> &arguments);
    // Puts `words` and the values where they belong, in the order in which the options stand here. Throws UsageError.
    void store(const Texts &words) const;

    bool given(const std::string &name) const { return values_.contains(name); }
    Texts texts_of(const std::string &name) const; // as it was given
    Texts words() const { return texts_of(words_); }
    std::string as_given(const std::string &name) const; // "--out", "--format json"

    // Throws UsageError for options that are not among these of a command; `where` is "with export". Without hints none
    // is suggested instead.
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
    const char *first_given(const Names &names) const; // null: none is

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
