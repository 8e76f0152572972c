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

// A word that says what a tool is to do, where it has several.
template<class Action>
struct Command {
    const char *name;
    Action action;
    const char *subject; // what it is about, "the NAME of the key"; null: nothing
    std::vector<const char *> options;
    bool can_find_subject = false; // where it is not given
};

// Holds references to the request, which has to live as long.
class CommandLine {
  public:
    using Texts = std::vector<std::string>;

    // `narrowest`: columns that help leaves for its texts.
    explicit CommandLine(unsigned narrowest);

    // Options, in the order of help. `name` may have a letter behind it, "verbose,v"; `value` is what help calls the
    // value. A value that is empty is a usage error, but for those of options that may be repeated.
    void flag(const char *name, bool &into, const char *help);
    void flag(const char *name, std::function<void()> given, const char *help);
    void text(const char *name, const char *value, std::string &into, const char *help);
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

    // Values without an option. `name` is what they are.
    void words(const char *name);

    // Reads the command line; nothing is in the request yet. `prose` as parse_arguments() has it. Throws UsageError.
    Asked parse(const std::vector<std::string> &arguments, const std::string &prose = "");
    // Puts the values where they belong, in the order in which the options stand here. Throws UsageError.
    void store() const;

    bool given(const std::string &name) const { return values_.count(name) != 0; }
    Texts texts_of(const std::string &name) const; // as it was given
    Texts words() const { return texts_of(words_); }
    std::string as_given(const std::string &name) const; // "--out", "--format json"

    // Throw UsageError. Two options that do not go together; `why` follows them.
    void refuse_both(const char *one, const char *other, const char *why = "contradict each other") const;
    // Options that are not among these of a command; `where` is "with export". Without hints none is suggested instead.
    void refuse_others(const std::string &where, const std::vector<const char *> &options, bool hints = true) const;

    const boost::program_options::options_description &description() const { return description_; }

  private:
    boost::program_options::options_description description_;
    boost::program_options::positional_options_description positional_;
    std::string words_;
    boost::program_options::variables_map values_;
    std::vector<std::pair<std::string, std::function<void(const Texts &)>>> takes_;
};

} // namespace opdock::cli
