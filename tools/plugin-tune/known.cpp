#include "known.hpp"

#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/page.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/suggest.hpp"
#include "cli/table.hpp"
#include "cli/variables.hpp"
#include "files/database.hpp"
#include "text/environment.hpp"
#include "text/error.hpp"
#include "tune/tune_database.hpp"

namespace opdock::plugin_tune {
namespace {

using cli::Tint;
using core::TuneFilter;
using core::TuneRow;
using nlohmann::json;

std::optional<std::string> given(const std::string &text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

TuneFilter filter_of(const Request &request) {
    return {given(request.subject.op), given(request.subject.impl), given(request.model), given(request.dtypes),
            given(request.version)};
}

core::TuneDatabase database() {
    return core::TuneDatabase(core::capture_environment(cli::variable_prefix()).tune_database());
}

// Runs `work`, and turns exceptions of the host's parts into cli::Failure.
template<class Work>
auto with_database(Work work) {
    try {
        return work(database());
    } catch (const core::DatabaseError &error) {
        throw cli::Failure(error.what());
    } catch (const core::Error &error) {
        throw cli::Failure(error.what());
    }
}

json entry_of(const TuneRow &row) {
    const bool is_timed = row.entry.microseconds > 0;
    return {{"op", row.identity.op},
            {"impl_id", row.identity.impl_id},
            {"version", row.identity.version},
            {"model", row.identity.device},
            {"architecture", row.identity.architecture},
            {"driver", row.identity.driver},
            {"dtypes", row.entry.dtypes},
            {"key", row.entry.key},
            {"space", row.entry.space},
            {"config", row.entry.config},
            {"imported", !is_timed},
            {"microseconds", is_timed ? json(row.entry.microseconds) : json()},
            {"before_microseconds", is_timed ? json(row.entry.default_microseconds) : json()}};
}

std::string counted(size_t count) {
    return cli::counted(count, "entry", "entries");
}

// The message for a request without matches, with near misses for words that match nothing at all.
std::string nothing_fits(const core::TuneDatabase &database, const Request &request) {
    const std::vector<TuneRow> all = database.rows({});
    if (all.empty()) {
        return database.path() + " has no entries";
    }
    std::string message = "nothing matches in " + database.path() + ", which has " + counted(all.size());
    const auto hint = [&](const std::string &word, auto value_of) {
        std::set<std::string> values;
        for (const TuneRow &row : all) {
            values.insert(value_of(row));
        }
        if (!word.empty() && !values.contains(word)) {
            const std::string near = cli::did_you_mean(word, {values.begin(), values.end()});
            message += "\nNo entry has '" + word + "'" + (near.empty() ? "." : cli::printable_line(near)) +
                       " 'plugin-tune list' shows the entries.";
        }
    };
    hint(request.subject.op, [](const TuneRow &row) { return row.identity.op; });
    hint(request.subject.impl, [](const TuneRow &row) { return row.identity.impl_id; });
    hint(request.model, [](const TuneRow &row) { return row.identity.device; });
    hint(request.dtypes, [](const TuneRow &row) { return row.entry.dtypes; });
    hint(request.version, [](const TuneRow &row) { return row.identity.version; });
    return message;
}

// A heading for each implementation and device, and a row for each entry below it. The config is the last cell, the
// only one that may be broken into lines.
void print(const std::string &path, const std::vector<TuneRow> &rows, const cli::Page &page) {
    std::string heading;
    cli::Table table;
    const auto flush = [&] {
        std::cout << (heading.empty() ? "" : heading + "\n" + table.text(page) + "\n");
        table = cli::Table();
    };
    std::pair<std::string, std::string> last;
    for (const TuneRow &row : rows) {
        const core::TuneIdentity &who = row.identity;
        const std::string name = who.op + "  " + who.impl_id + ", " + who.version;
        const std::string where = who.device + (who.architecture.empty() ? "" : " (" + who.architecture + ")") +
                                  (who.driver.empty() ? "" : ", driver " + who.driver);
        const auto next = std::make_pair(name, where);
        if (next != last) {
            flush();
            last = next;
            heading = page.paint(Tint::heading, cli::printable_line(name)) + "\n  " + cli::printable_line(where);
            table.row({{"dtypes", Tint::quiet},
                       {"calls", Tint::quiet},
                       {"time", Tint::quiet},
                       {"before", Tint::quiet},
                       {"config", Tint::quiet}});
        }
        const double time = row.entry.microseconds;
        table.row({{row.entry.dtypes.empty() ? "-" : row.entry.dtypes},
                   {row.entry.key.empty() ? "all" : row.entry.key},
                   {time > 0 ? cli::time_text(time) : "imported"},
                   {time > 0 ? cli::time_text(row.entry.default_microseconds) : "-"},
                   {row.entry.config}});
    }
    flush();
    std::cout << counted(rows.size()) << " in " << cli::printable(path) << '\n';
}

} // namespace

int list(const Request &request) {
    return with_database([&](const core::TuneDatabase &database) {
        const std::vector<TuneRow> rows = database.rows(filter_of(request));
        if (request.json) {
            cli::print_with_list({{"schema", "opdock.plugin-tune.list/1"}, {"database", database.path()}}, "entries",
                                 rows, entry_of);
        } else if (rows.empty()) {
            std::cout << cli::printable(nothing_fits(database, request)) << '\n';
        } else {
            print(database.path(), rows, cli::page_of_stdout());
        }
        return cli::exit_fine;
    });
}

int forget(const Request &request) {
    const bool is_dry = (request.flags & OPDOCK_TUNE_DRY_RUN) != 0;
    return with_database([&](const core::TuneDatabase &database) {
        const TuneFilter filter = filter_of(request);
        const size_t count = is_dry ? database.rows(filter).size() : database.forget(filter);
        if (request.json) {
            cli::print_document({{"schema", "opdock.plugin-tune.forget/1"},
                                 {"database", database.path()},
                                 {"dry_run", is_dry},
                                 {"entries", count}});
        } else if (count == 0) {
            std::cout << cli::printable(nothing_fits(database, request)) << '\n';
        } else {
            std::cout << counted(count) << (is_dry ? " would be removed from " : " removed from ")
                      << cli::printable(database.path()) << '\n';
        }
        return count == 0 ? cli::exit_absent : cli::exit_fine;
    });
}

} // namespace opdock::plugin_tune
