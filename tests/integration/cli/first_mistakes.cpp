// Mistakes in a first plugin: the first tool that an author would run says what is wrong, where, and what to do.
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

// All messages of plugin-check about a file, or about one of its ops.
std::string checked(const std::string &file, const std::string &op = "") {
    std::vector<std::string> arguments = {file, "--json", "--seed", "4", "--config-time", "1s"};
    if (!op.empty()) {
        arguments.insert(arguments.end(), {"--op", op, "--impl", "vendor.planted"});
    }
    const Finished finished = Tool(PLUGIN_CHECK, {}).run(arguments);
    CHECK(finished.code == 1);
    const json document = json::parse(finished.out);
    if (document.contains("error")) { // no host accepts it
        return document.at("error").at("message");
    }
    std::string messages;
    for (const char *list : {"files", "ops"}) {
        for (const json &one : document.at(list)) {
            for (const json &finding : one.at("findings")) {
                messages += finding.at("message").get<std::string>() + "\n";
            }
        }
    }
    return messages;
}

// Output of plugin-ls for plugins that are named in PLUGIN_MODULES.
std::string listed(const std::vector<std::string> &plugins, const std::string &variable = "",
                   const std::string &value = "") {
    PluginLs command(plugins);
    if (!variable.empty()) {
        command.with(variable, value);
    }
    const Finished finished = command.run({"--rejected"});
    CHECK(finished.code != 0);
    return finished.out + finished.err;
}

// Joins the lines, wherever a tool breaks them.
std::string in_one_line(const std::string &text) {
    return std::regex_replace(text, std::regex("\\s+"), " ");
}

void says(const std::string &text, const std::vector<std::string> &parts) {
    for (const std::string &part : parts) {
        CAPTURE(text);
        CAPTURE(part);
        CHECK(contains(in_one_line(text), in_one_line(part)));
    }
}

// Copies the plugin, with this text as its tune file, and returns the copy's path.
std::string tuned(const TemporaryDirectory &folder, const std::string &text) {
    const std::filesystem::path file = folder.path() / "libplanted.so";
    std::filesystem::copy_file(fixture("planted"), file, std::filesystem::copy_options::overwrite_existing);
    std::ofstream(folder.path() / "planted.tune.yaml") << text;
    return file.string();
}

} // namespace

TEST_CASE("first mistakes: a file that is no plugin, or lacks something, says what to build in") {
    says(checked(fixture("no_note")),
         {"'libno_note.so'", "without opdock's note", "put OPDOCK_NOTE(...) at file scope"});
    says(checked(fixture("unresolved_symbol")),
         {"uses 'acme_forgotten_function', which no library it needs defines", "Link the plugin with every library"});
    says(checked(fixture("missing_library")),
         {"needs 'libopdock_absent.so', which is not found", "Install that library, or add its folder"});
    says(checked(fixture("planted"), "planted.sound"),
         {"exports symbols other than opdock_register: ", "link with a version script, as opdock_add_plugin does"});
}

TEST_CASE("first mistakes: a wrong registration names the op, the implementation and what is expected") {
    says(checked(fixture("bad_signature")), {"fixture.unparsable(a: T[...)", "expected"});
    says(checked(fixture("bad_dtypes")),
         {"'vendor.faulty'", "fixture.faulty", "'f31' is not a dtype; expected f64, f32", "'f30' is not a dtype"});
    says(checked(fixture("bad_alignment")),
         {"'vendor.faulty'",
          "alignment 24 is not a power of two; give the next power of two, or 0 for the alignment of the dtype"});
    says(checked(fixture("duplicate")), {"'vendor.sound'", "is registered twice by this plugin; rename or remove one"});
    says(checked(fixture("throws")), {"ended the process that tried it", "while it was registering"});
}

TEST_CASE("first mistakes: a kernel that is wrong is found with the case and the remedy") {
    const std::string planted = fixture("planted");
    says(checked(planted, "planted.ignores_strides"), {"'output': relative error", "needs_contiguous"});
    says(checked(planted, "planted.throws"),
         {"returned FAILED: no kernel for this. Fix the kernel for such a call, or decline the call in a `supports`"});
    says(checked(planted, "planted.write_past_end"),
         {"writes immediately past the end of output 'output'. Check the kernel's bounds"});
    says(checked(planted, "planted.noisy"),
         {"is declared deterministic, but the same call", "different bits",
          "Compute in the same order each time, or do not declare the implementation deterministic"});
    says(checked(planted, "planted.wrong_for_one"),
         {"'output': relative error",
          "the worst: ", "Fix the kernel for such a call, or decline the call in a `supports`"});
    says(checked(planted, "planted.takes_only_empty"),
         {"no elements, please", "Decline the call in a `supports` function"});
#if defined(__x86_64__)
    says(checked(planted, "planted.needs_alignment"), {"by Segmentation fault", "Declare the `alignment`"});
#endif
}

TEST_CASE("first mistakes: a tune file is told of with its line and column") {
    const TemporaryDirectory folder;
    const auto message = [&](const char *ops) {
        return checked(tuned(folder, std::string("schema: opdock.tune/1\n") + ops), "planted.broken_knob");
    };
    says(message("ops: {planted.broken_knob: {product: {block: [1, 9]}}}\n"),
         {"planted.tune.yaml:2:", "9", "1 to 4"}); // out of its range
    says(message("ops: {planted.broken_knob: {product: {blok: [1, 2]}}}\n"),
         {"planted.tune.yaml:2:", "'blok'", "did you mean 'block'?"});
    says(message("ops: {planted.broken_knob: {product: {block: [1, 2}}}\n"), {"planted.tune.yaml:2:"}); // not YAML
}

TEST_CASE("first mistakes: what plugin-ls is asked for is named, with what to do") {
    const std::string good = fixture("good");
    const TemporaryDirectory folder;
    const std::string absent = (folder.path() / "libabsent.so").string();
    const auto asked = [&](const std::vector<std::string> &arguments, int code) {
        const Finished finished = PluginLs({good}).run(arguments);
        CHECK(finished.code == code);
        return finished.out + finished.err;
    };
    says(asked({"--op", "fixture.ad"}, 1), {"no plugin declares the op 'fixture.ad'", "did you mean 'fixture.add'?"});
    says(asked({"--why", "nothing_like_it"}, 1),
         {"no plugin declares the op 'nothing_like_it'", "'plugin-ls' lists the available ones"});
    says(asked({"--rejectd"}, 2), {"unknown option '--rejectd'; did you mean '--rejected'?", "Try 'plugin-ls --help'"});
    says(asked({good}, 2), {"unexpected argument '" + good + "'", "options start with '--'"});
    says(asked({"--check", folder.path().string()}, 1),
         {"OPDOCK-E003", "is not a regular file", "Specify a shared object"});
    says(asked({"--modules", folder.path().string()}, 1),
         {folder.path().string(), "the directory holds no plugin (*.so,"});
    says(asked({"--check", absent}, 1), {"OPDOCK-E001", "'libabsent.so' cannot be opened", "path and its permissions"});
    says(asked({"--modules", absent}, 1),
         {"--modules " + absent + ": there is no such file", "correct the path, or build what it names"});
    says(listed({absent}),
         {"'" + absent + "': No such file or directory (OPDOCK-E001)", "correct the path, or build what it names"});
}

TEST_CASE("first mistakes: a setting is an error where it is, with what was meant") {
    const std::string good = fixture("good");
    says(listed({}, "PLUGIN_MODULES", "plugins/libgood.so"),
         {"PLUGIN_MODULES, column 1", "found 'plugins/libgood.so'", "write the absolute path"});
    says(listed({good}, "PLUGIN_PREFER", "vender"), {"PLUGIN_PREFER, column 1", "did you mean 'vendor'?"});
    says(listed({good}, "PLUGIN_PER_OP", "fixture.add=vendr"), {"PLUGIN_PER_OP, column 13", "did you mean 'vendor'?"});
    says(listed({good}, "PLUGIN_PER_OP", "fixture.add=vendr;gelu=refrence"),
         {"PLUGIN_PER_OP, column 13", "did you mean 'vendor'?", "PLUGIN_PER_OP, column 24",
          "did you mean 'reference'?"});
    says(listed({good}, "PLUGIN_PER_OP", "fixture.add=acme"), {"for a vendor of that name write 'vendor:acme'"});
    says(listed({good}, "PLUGIN_TRUST", "require"),
         {"OPDOCK-E061", "'libgood.so' is not signed", "libgood.so.sig", "Ask its vendor for a signature"});
}

TEST_CASE("first mistakes: two plugins that want the same are told of with both, and how to part them") {
    says(listed({fixture("good"), fixture("same_id")}),
         {"OPDOCK-E015: plugin id 'acme' is already taken by '" + fixture("good") + "'", "its own id in OPDOCK_NOTE"});
    says(listed({fixture("good"), fixture("other_signature")}),
         {"OPDOCK-E037", "contradicts that of plugin 'acme'",
          "input 1 is 'a: T[n]' in one and 'a: T[...]' in the other", "Declare the op with the same signature"});
}
