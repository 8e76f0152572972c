#include "cli/command_line.hpp"

#include <algorithm>

#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/variables.hpp"

namespace opdock::cli {

namespace po = boost::program_options;

namespace {

constexpr unsigned width = 80;

std::string long_name(const std::string &name) {
    return name.substr(0, name.find(','));
}

std::string not_empty(const std::string &text, const std::string &name) {
    if (text.empty()) {
        throw UsageError("the value of --" + name + " is empty");
    }
    return text;
}

} // namespace

CommandLine::CommandLine(unsigned narrowest) : description_("Options", width, narrowest) {}

void CommandLine::flag(const char *name, std::function<void()> given, const char *help) {
    description_.add_options()(name, help);
    takes_.emplace_back(long_name(name), [given = std::move(given)](const Texts & /*none*/) { given(); });
}

void CommandLine::flag(const char *name, bool &into, const char *help) {
    flag(
        name, [&into] { into = true; }, help);
}

void CommandLine::one(const char *name, const char *value, std::function<void(const std::string &)> take,
                      const char *help) {
    description_.add_options()(name, po::value<std::string>()->value_name(value), help);
    takes_.emplace_back(name, [name = std::string(name), take = std::move(take)](const Texts &texts) {
        take(not_empty(texts.front(), name));
    });
}

void CommandLine::each(const char *name, const char *value, std::function<void(const Texts &)> take, const char *help) {
    description_.add_options()(name, po::value<Texts>()->composing()->value_name(value), help);
    takes_.emplace_back(name, std::move(take));
}

void CommandLine::text(const char *name, const char *value, std::string &into, const char *help) {
    one(
        name, value, [&into](const std::string &text) { into = text; }, help);
}

void CommandLine::text(const char *name, const char *value, std::string &into, bool (*is_right)(const std::string &),
                       const char *expected, const char *help) {
    const auto take = [=, name = std::string(name), &into](const std::string &text) {
        if (!is_right(text)) {
            throw UsageError("--" + name + " '" + text + "': expected " + expected);
        }
        into = text;
    };
    one(name, value, take, help);
}

void CommandLine::choice(const char *name, const char *value, uint32_t &into, const Texts &values, const char *help) {
    const auto take = [=, name = std::string("--") + name, &into](const std::string &text) {
        into = static_cast<uint32_t>(parse_choice(text, name, values));
    };
    one(name, value, take, help);
}

void CommandLine::choices(const char *name, const char *value, Texts &into, const Texts &values, const char *help) {
    const auto take = [=, name = std::string("--") + name, &into](const Texts &texts) {
        for (const std::string &text : texts) {
            (void)parse_choice(text, name, values);
        }
        into = texts;
    };
    each(name, value, take, help);
}

void CommandLine::prose(const char *name, const char *value, std::string &into, const char *help) {
    prose_ = name;
    text(name, value, into, help);
}

void CommandLine::texts(const char *name, const char *value, Texts &into, const char *help) {
    each(
        name, value, [&into](const Texts &texts) { into = texts; }, help);
}

void CommandLine::path(const char *name, const char *value, std::string &into, const char *help) {
    one(
        name, value, [&into](const std::string &text) { into = absolute_path(text); }, help);
}

void CommandLine::paths(const char *name, const char *value, Texts &into, const char *help) {
    const auto take = [&into](const Texts &texts) {
        for (const std::string &text : texts) {
            into.push_back(absolute_path(text));
        }
    };
    each(name, value, take, help);
}

void CommandLine::duration(const char *name, const char *value, double &into, const char *help) {
    const auto take = [name = std::string("--") + name, &into](const std::string &text) {
        into = parse_duration(text, name);
    };
    one(name, value, take, help);
}

void CommandLine::modules(Texts &into, const char *help) {
    paths("modules", "PATH", into, help);
}

void CommandLine::prefix() {
    one("prefix", "PREFIX", use_variable_prefix,
        "prefix of environment variables, as the program chose it: \"TE_FL_\"");
}

void CommandLine::format(bool &json, const char *keys, const char *commands) {
    add_format(description_, keys, commands);
    takes_.emplace_back("json", [&json](const Texts & /*none*/) { json = true; });
}

void CommandLine::ends(const char *version, const char *help) {
    description_.add_options()("version", version);
    this->help(help);
}

void CommandLine::help(const char *help) {
    description_.add_options()("help,h", help);
}

void CommandLine::words(const char *name, Texts &into) {
    words_ = name;
    positional_.add(name, -1);
    takes_words_ = [&into](const Texts &words) { into = words; };
}

void CommandLine::words(const char *name, std::string &into) {
    words_ = name;
    positional_.add(name, -1);
    takes_words_ = [&into](const Texts &words) { into = words.empty() ? "" : words.back(); };
}

void CommandLine::conflict(Names some, Names others, const char *message) {
    rules_.push_back({std::move(some), std::move(others), false, message});
}

void CommandLine::need(Names some, Names others, const char *message) {
    rules_.push_back({std::move(some), std::move(others), true, message});
}

Asked CommandLine::parse(const std::vector<std::string> &arguments) {
    po::options_description all = description_; // its help does not list positional words
    if (!words_.empty()) {
        all.add_options()(words_.c_str(), po::value<Texts>());
    }
    values_ = parse_arguments(arguments, all, positional_, prose_);
    return given("help") ? Asked::help : given("version") ? Asked::version : Asked::work;
}

void CommandLine::store(const Texts &words) const {
    if (takes_words_) {
        takes_words_(words);
    }
    for (const auto &[name, take] : takes_) {
        if (given(name)) {
            take(texts_of(name));
        }
    }
    for (const Rule &rule : rules_) {
        enforce(rule);
    }
}

const char *CommandLine::first_given(const Names &names) const {
    const auto found = std::find_if(names.begin(), names.end(), [&](const char *name) { return given(name); });
    return found == names.end() ? nullptr : *found;
}

void CommandLine::enforce(const Rule &rule) const {
    const char *one = first_given(rule.some);
    const char *other = first_given(rule.others);
    if (one == nullptr || (other == nullptr) != rule.are_needed) {
        return;
    }
    const std::string message = rule.message;
    throw UsageError(message.empty()            ? as_given(one) + " and " + as_given(other) + " contradict each other"
                     : message.starts_with(' ') ? as_given(one) + message
                                                : message);
}

CommandLine::Texts CommandLine::texts_of(const std::string &name) const {
    if (!given(name)) {
        return {};
    }
    const boost::any &value = values_[name].value();
    const auto *texts = boost::any_cast<Texts>(&value);
    const auto *text = boost::any_cast<std::string>(&value);
    return texts != nullptr ? *texts : text != nullptr ? Texts{*text} : Texts();
}

std::string CommandLine::as_given(const std::string &name) const {
    return cli::as_given(values_, name);
}

void CommandLine::refuse_others(const std::string &where, const Names &options, bool hints) const {
    for (const auto &[option, value] : values_) {
        if (option != words_ && !takes(options, option)) {
            throw UsageError(as_given(option) + " has no meaning " + where +
                             (hints ? same_among(options, option) : ""));
        }
    }
}

} // namespace opdock::cli
