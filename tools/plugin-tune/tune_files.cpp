#include "tune_files.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/exit.hpp"
#include "cli/open_host.hpp"
#include "cli/printable.hpp"
#include "cli/suggest.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "op-call/requested.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_tune {
namespace {

// As one tune file; what had to be left out is said on stderr, and *is_whole becomes false.
std::string merged(const std::vector<std::string> &paths, bool *is_whole) {
    std::vector<std::string> texts;
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
            *is_whole = false;
        }
    }
    return text;
}

// As signatures spell it, and one that also YAML reads as a name.
bool is_op_name(const std::string &text) {
    const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
    const bool is_plain = std::all_of(text.begin(), text.end(), [&](char c) {
        return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
    return is_plain && !text.empty() && is_lower(text.front()) && text.back() != '.' &&
           text.find("..") == std::string::npos && text != "null";
}

constexpr const char *op_name_rule = "an op's name begins with a lower-case letter, and is of a-z, 0-9, '_' and '.'";

} // namespace

std::string rename_ops(const std::string &yaml, const std::vector<Named> &renames, std::vector<std::string> *nameless) {
    // An op is a line "  NAME:"; what belongs to it is indented deeper.
    std::vector<std::string> lines;
    std::vector<std::string> ops;
    std::istringstream stream(yaml);
    const auto op_of = [](const std::string &line) {
        return line.size() > 3 && line.starts_with("  ") && line[2] != ' ' && line.back() == ':'
                   ? line.substr(2, line.size() - 3)
                   : std::string();
    };
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
        if (const std::string op = op_of(line); !op.empty()) {
            ops.push_back(op);
        }
    }
    for (const Named &rename : renames) {
        if (!is_op_name(rename.text)) {
            throw cli::Failure("--rename " + rename.name + "=" + rename.text + ": '" + rename.text +
                               "' is no name of an op; " + op_name_rule);
        }
        if (std::find(ops.begin(), ops.end(), rename.name) == ops.end()) {
            throw cli::Failure("--rename " + rename.name + "=" + rename.text + ": the file has no op '" + rename.name +
                               "'" + cli::did_you_mean(rename.name, ops));
        }
    }
    std::string result;
    std::vector<std::string> taken;
    bool is_left_out = false; // what belongs to the last op
    for (const std::string &line : lines) {
        const std::string op = op_of(line);
        const auto rename = std::find_if(renames.begin(), renames.end(),
                                         [&](const Named &one) { return !op.empty() && one.name == op; });
        const std::string name = rename == renames.end() ? op : rename->text;
        if (!name.empty() && std::find(taken.begin(), taken.end(), name) != taken.end()) {
            throw cli::Failure("--rename: two ops of the file would be called '" + name + "'");
        }
        if (!name.empty()) {
            is_left_out = !is_op_name(name);
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

int export_results(const Request &request) {
    cli::check_output(request.out, request.force);
    const Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    if (!request.subject.op.empty()) {
        host.op(request.subject.op); // says when there is none
        if (!request.subject.impl.empty()) {
            op_call::only(host, request.subject.op, request.subject.impl);
        }
    }
    const std::string yaml = host.export_tuning(request.subject.op, request.subject.impl);
    if (yaml.ends_with("\nops:\n")) {
        throw cli::Failure("there is nothing to export: no config is known of the plugins and devices that are there" +
                           std::string(request.subject.op.empty() ? "" : ", for this op"));
    }
    cli::write_output(request.out, request.force, yaml);
    return cli::exit_fine;
}

int import_results(const Request &request) {
    std::vector<std::string> texts;
    for (const std::string &path : request.files) {
        texts.push_back(cli::read_text(path));
    }
    Host host = cli::open_host(request.modules, false);
    op_call::check_modules(host, request.modules);
    bool is_empty = false; // one of them
    for (size_t i = 0; i < texts.size(); ++i) {
        const uint64_t count = host.import_tuning(texts[i], request.files[i]);
        std::cout << cli::printable(request.files[i]) << ": " << count << (count == 1 ? " config\n" : " configs\n");
        is_empty = is_empty || count == 0;
    }
    return is_empty ? cli::exit_absent : cli::exit_fine;
}

int merge(const Request &request) {
    cli::check_output(request.out, request.force);
    bool is_whole = true;
    cli::write_output(request.out, request.force, merged(request.files, &is_whole));
    return is_whole ? cli::exit_fine : cli::exit_absent;
}

int convert(const Request &request) {
    cli::check_output(request.out, request.force);
    bool is_whole = true;
    std::vector<std::string> nameless;
    const std::string yaml = rename_ops(merged(request.files, &is_whole), request.renames, &nameless);
    for (const std::string &op : nameless) {
        std::cerr << cli::printable(request.files.front()) << ": no op may be called '" << cli::printable(op)
                  << "': " << op_name_rule << "; --rename " << cli::printable(op) << "=NAME gives it one (left out)\n";
    }
    cli::write_output(request.out, request.force, yaml);
    return is_whole && nameless.empty() ? cli::exit_fine : cli::exit_absent;
}

} // namespace opdock::plugin_tune
