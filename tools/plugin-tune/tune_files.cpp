#include "tune_files.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/suggest.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "op-call/requested.hpp"
#include "opdock/opdock.hpp"
#include "signature/other_names.hpp"

namespace opdock::plugin_tune {
namespace {

// Merges into one tune file; entries that had to be left out are reported on stderr, and counted.
std::string merged(const std::vector<std::string> &paths, size_t *left_out) {
    std::vector<std::string> texts;
    texts.reserve(paths.size());
    for (const std::string &path : paths) {
        texts.push_back(cli::read_text(path));
    }
    std::vector<const char *> text_pointers;
    std::vector<const char *> names;
    for (size_t i = 0; i < paths.size(); ++i) {
        text_pointers.push_back(texts[i].c_str());
        names.push_back(paths[i].c_str());
    }
    char *yaml = nullptr;
    char *warnings = nullptr;
    detail::check(
        opdock_tune_merge(text_pointers.data(), names.data(), static_cast<uint32_t>(paths.size()), &yaml, &warnings));
    std::string text = detail::take(yaml);
    if (warnings != nullptr) {
        std::istringstream lines(detail::take(warnings));
        for (std::string line; std::getline(lines, line);) {
            std::cerr << cli::printable(line) << " (left out)\n";
            ++*left_out;
        }
    }
    return text;
}

// True for the spelling of signatures, if YAML reads it as a name too.
bool is_op_name(const std::string &text) {
    const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
    const bool is_plain = std::all_of(text.begin(), text.end(), [&](char c) {
        return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
    return is_plain && !text.empty() && is_lower(text.front()) && text.back() != '.' &&
           text.find("..") == std::string::npos && text != "null";
}

constexpr const char *op_name_rule =
    "an op's name starts with a lower-case letter and consists of a-z, 0-9, '_' and '.'";

// The op that a line of a tune file printed by opdock begins, or "". Such a line is "  NAME:"; the content of the op is
// indented deeper.
std::string op_of(const std::string &line) {
    return line.size() > 3 && line.starts_with("  ") && line[2] != ' ' && line.back() == ':'
               ? line.substr(2, line.size() - 3)
               : std::string();
}

// Reports the contents of a written file on stderr; text on standard output needs no report.
void tell_written(const std::string &path, const std::string &yaml, size_t left_out) {
    if (!path.empty()) {
        std::cerr << cli::printable(path) << ": " << contents_of(yaml)
                  << (left_out == 0 ? "" : "; " + std::to_string(left_out) + " left out") << '\n';
    }
}

// Reports on stderr opdock's name of an op that has another library's name.
void tell_other_name(const std::string &path, const std::string &op) {
    const std::string_view ops = core::ops_called(op);
    if (ops.empty()) {
        return;
    }
    const std::string hint = core::other_name_hint(op); // "; opdock calls that 'matmul'."
    const bool is_one = ops.find(' ') == std::string_view::npos;
    std::cerr << cli::printable(path) << ": " << op << ": " << hint.substr(2, hint.size() - 3) << "; --rename " << op
              << '=' << (is_one ? ops : "NAME") << " converts it\n";
}

} // namespace

std::string contents_of(const std::string &yaml) {
    size_t ops = 0;
    size_t configs = 0; // includes pinned ones
    size_t products = 0;
    std::string field; // of a section, which begins with a dash: "    - configs:"
    std::istringstream lines(yaml);
    for (std::string line; std::getline(lines, line);) {
        if (!op_of(line).empty()) {
            ++ops;
        } else if (line.size() > 6 && line.starts_with("    ") && line[5] == ' ' && line[6] != ' ') {
            field = line.substr(6);
            products += field == "product:" ? 1 : 0;
        } else if (line.starts_with("        - ") && (field == "configs:" || field == "pinned:")) {
            ++configs;
        }
    }
    return cli::counted(ops, "op") + ", " + cli::counted(configs, "config") +
           (products == 0 ? "" : ", " + cli::counted(products, "product"));
}

std::string rename_ops(const std::string &yaml, const std::vector<Named> &renames, std::vector<std::string> *nameless) {
    std::vector<std::string> lines;
    std::vector<std::string> ops;
    std::istringstream stream(yaml);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
        if (const std::string op = op_of(line); !op.empty()) {
            ops.push_back(op);
        }
    }
    for (const Named &rename : renames) {
        if (!is_op_name(rename.text)) {
            throw cli::Failure("--rename " + rename.name + "=" + rename.text + ": '" + rename.text +
                               "' is not a name for an op; " + op_name_rule);
        }
        if (std::find(ops.begin(), ops.end(), rename.name) == ops.end()) {
            throw cli::Failure("--rename " + rename.name + "=" + rename.text + ": the file has no op '" + rename.name +
                               "'" + cli::did_you_mean(rename.name, ops));
        }
    }
    std::string result;
    std::vector<std::string> taken;
    bool is_left_out = false; // true for the content of the current op
    for (const std::string &line : lines) {
        const std::string op = op_of(line);
        const auto rename = std::find_if(renames.begin(), renames.end(),
                                         [&](const Named &one) { return !op.empty() && one.name == op; });
        const std::string name = rename == renames.end() ? op : rename->text;
        if (!name.empty() && std::find(taken.begin(), taken.end(), name) != taken.end()) {
            throw cli::Failure("--rename: two ops of the file would be called '" + name + "'");
        }
        if (!name.empty()) {
            is_left_out = !is_op_name(name) && name != "'*'"; // '*' applies to every op
        }
        if (is_left_out) {
            if (!name.empty()) {
                nameless->push_back(name);
            }
            continue;
        }
        taken.push_back(name);
        result += (op.empty() ? line : "  " + name + ":") + "\n";
    }
    return result;
}

namespace {

// Throws cli::Failure, with near misses, if no op has an implementation of that name; "" matches any.
void refuse_unknown_implementation(const Host &host, const std::string &impl) {
    std::vector<std::string> known;
    const auto document = nlohmann::json::parse(host.describe());
    for (const auto &op : document.at("ops")) {
        for (const auto &implementation : op.at("implementations")) {
            known.push_back(implementation.at("impl_id").get<std::string>());
        }
    }
    if (!impl.empty() && (known.empty() || !cli::is_wanted(known, impl))) {
        throw cli::Failure("there is nothing to export: no result is of '" + impl + "'" +
                           cli::did_you_mean(impl, known) + "\n'plugin-ls' lists the available implementations.");
    }
}

} // namespace

int export_results(const Request &request) {
    cli::check_output(request.out, request.force);
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    if (!request.subject.op.empty()) {
        host.op(request.subject.op); // throws if there is no such op
        if (!request.subject.impl.empty()) {
            op_call::only(host, request.subject.op, request.subject.impl);
        }
    }
    const std::string yaml = host.export_tuning(request.subject.op, request.subject.impl);
    if (yaml.ends_with("\nops:\n")) {
        refuse_unknown_implementation(host, request.subject.impl);
        throw cli::Failure("there is nothing to export: no config is known for the available plugins and devices" +
                           std::string(request.subject.op.empty() ? "" : ", for this op") +
                           (request.subject.impl.empty() ? "" : ", of '" + request.subject.impl + "'"));
    }
    cli::write_output(request.out, request.force, yaml);
    tell_written(request.out, yaml, 0);
    return cli::exit_fine;
}

int import_results(const Request &request) {
    std::vector<std::string> texts;
    for (const std::string &path : request.files) {
        texts.push_back(cli::read_text(path));
    }
    Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    bool is_empty = false; // true if one of them is empty
    for (size_t i = 0; i < texts.size(); ++i) {
        const uint64_t count = host.import_tuning(texts[i], request.files[i]);
        std::cout << cli::printable(request.files[i]) << ": " << cli::counted(count, "config") << '\n';
        is_empty = is_empty || count == 0;
    }
    return is_empty ? cli::exit_absent : cli::exit_fine;
}

int merge(const Request &request) {
    cli::check_output(request.out, request.force);
    size_t left_out = 0;
    const std::string yaml = merged(request.files, &left_out);
    cli::write_output(request.out, request.force, yaml);
    tell_written(request.out, yaml, left_out);
    return left_out == 0 ? cli::exit_fine : cli::exit_absent;
}

int convert(const Request &request) {
    cli::check_output(request.out, request.force);
    size_t left_out = 0;
    std::vector<std::string> nameless;
    const std::string yaml = rename_ops(merged(request.files, &left_out), request.renames, &nameless);
    for (const std::string &op : nameless) {
        std::cerr << cli::printable(request.files.front()) << ": an op cannot be called '" << cli::printable(op)
                  << "': " << op_name_rule << "; --rename " << cli::printable(op)
                  << "=NAME gives it another name (left out)\n";
    }
    std::istringstream lines(yaml);
    for (std::string line; std::getline(lines, line);) {
        const std::string op = op_of(line);
        const bool is_renamed = std::any_of(request.renames.begin(), request.renames.end(),
                                            [&](const Named &rename) { return rename.text == op; });
        if (!op.empty() && !is_renamed) {
            tell_other_name(request.files.front(), op);
        }
    }
    left_out += nameless.size();
    cli::write_output(request.out, request.force, yaml);
    tell_written(request.out, yaml, left_out);
    return left_out == 0 ? cli::exit_fine : cli::exit_absent;
}

} // namespace opdock::plugin_tune
