#include "payload.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "strict_json.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

// The tool itself names the members: the archive contains no part of a vendor's path.
constexpr const char *contents_name = "contents.json";

// A member takes about 140 bytes of the list, and a change about 400 of the contents.
constexpr size_t most_members = 50'000;
constexpr size_t most_list_bytes = size_t{8} << 20;
constexpr size_t most_contents_bytes = size_t{32} << 20;
constexpr core::JsonLimits list_limits = {3, 1 + 4 * most_members};
constexpr core::JsonLimits contents_limits = {64, 12 * most_members};

// git refuses other paths too, but only when it applies a patch; a package with one is refused earlier.
bool is_tree_path(const std::string &path) {
    if (path.empty() || path.find('\0') != std::string::npos) {
        return false;
    }
    for (size_t at = 0; at <= path.size();) {
        const size_t end = std::min(path.find('/', at), path.size());
        const std::string part = core::folded(path.substr(at, end - at));
        if (part.empty() || part == "." || part == ".." || part == ".git" || part == "git~1") {
            return false;
        }
        at = end + 1;
    }
    return true;
}

std::string path_of(const JsonValue &value) {
    std::string path;
    if (value.is_text()) {
        path = value.text();
    } else {
        const JsonValue digits = value.at("hex");
        const std::string hex = digits.text();
        path.resize(hex.size() / 2);
        if (!core::parse_hex(hex, std::span(reinterpret_cast<unsigned char *>(path.data()), path.size()))) {
            digits.refuse("pairs of 0-9a-f");
        }
    }
    if (!is_tree_path(path)) {
        value.refuse("a path within a tree", core::quote(path));
    }
    return path;
}

bool is_attachment_kind(const std::string &text) {
    return text == "plugin" || text == "manifest" || text == "signature" || text == "tune" || text == "policy" ||
           text == "license";
}

bool is_status(const std::string &text) {
    return text.size() == 1 && text.find_first_of("ADMRT") == 0;
}

// True if git reports this status for a change with these modes and paths. inspect shows the status, while unpatch uses
// the modes.
bool is_status_right(const Change &change) {
    constexpr uint32_t type_bits = 0170000;
    const bool was = change.old_mode != 0, is = change.mode != 0, moved = change.old_path != change.path;
    const bool same_type = (change.old_mode & type_bits) == (change.mode & type_bits);
    switch (change.status) {
    case 'A':
        return !was && is && !moved;
    case 'D':
        return was && !is && !moved;
    case 'T':
        return was && is && !same_type && !moved;
    default: // M, R
        return was && is && same_type && moved == (change.status == 'R');
    }
}

// The mode of a file in a tree of git; 0 for no file.
uint32_t mode_of(const JsonValue &value) {
    const auto mode = static_cast<uint32_t>(value.number(0, submodule_mode));
    constexpr std::array<uint32_t, 6> modes = {0, 0100644, 0100664, 0100755, 0120000, submodule_mode};
    if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
        value.refuse("the mode of a file, link or submodule of git", std::to_string(mode));
    }
    return mode;
}

std::string member_name(const std::string &kind, size_t index) {
    return kind + "/" + std::to_string(index);
}

// Stores contents as members and refers to them by name.
class Members {
  public:
    std::string add(const std::string &kind, const std::string &content) {
        list_.push_back({member_name(kind, counts_[kind]++), content});
        return list_.back().name;
    }
    std::vector<Member> &list() { return list_; }

  private:
    std::vector<Member> list_;
    std::map<std::string, size_t> counts_;
};

json changes_json(const Changes &changes, Members &members) {
    json list = json::array();
    for (const Change &change : changes.list) {
        json one = {{"status", std::string(1, change.status)},
                    {"path", path_json(change.path)},
                    {"old_mode", change.old_mode},
                    {"mode", change.mode},
                    {"old_blob", change.old_blob},
                    {"blob", change.blob},
                    {"patch", members.add("patches", change.patch)}};
        if (change.old_path != change.path) {
            one["old_path"] = path_json(change.old_path);
        }
        list.push_back(std::move(one));
    }
    return list;
}

json converted_json(const Changes &changes, Members &members) {
    json list = json::array();
    for (const auto &[path, content] : changes.converted) {
        list.push_back({{"path", path_json(path)}, {"member", members.add("files", content)}});
    }
    return list;
}

json files_json(const Changes &changes, Members &members) {
    json submodules = json::array();
    for (const Submodule &one : changes.submodules) {
        json inner = files_json(one.changes, members);
        inner["path"] = path_json(one.path);
        inner["format"] = one.format;
        inner["commit"] = one.changes.commit;
        inner["tree"] = one.changes.tree;
        submodules.push_back(std::move(inner));
    }
    return {{"changes", changes_json(changes, members)},
            {"converted", converted_json(changes, members)},
            {"crlf", paths_json(changes.crlf)},
            {"submodules", std::move(submodules)}};
}

json contents_json(const Package &package, Members &members) {
    json backends = json::array();
    for (const Backend &backend : package.backends) {
        backends.push_back(files_json(backend.changes, members));
    }
    json attachments = json::array();
    for (const Attachment &one : package.attachments) {
        attachments.push_back(
            {{"kind", one.kind}, {"name", one.name}, {"member", members.add("attachments", one.content)}});
    }
    return {{"backends", std::move(backends)}, {"attachments", std::move(attachments)}};
}

// --- reading ---------------------------------------------------------------------------------------------------------

// The destination of each member: one change or file.
class Places {
  public:
    using Take = std::function<void(std::string_view)>;

    explicit Places(std::span<const ExpectedMember> members) {
        for (const ExpectedMember &one : members) {
            by_name_.try_emplace(one.name);
        }
    }
    void put(const JsonValue &member, Take take) {
        const auto found = by_name_.find(member.text());
        if (found == by_name_.end()) {
            member.refuse("the name of a member that the package lists");
        }
        if (found->second) {
            member.refuse("a member that no other change or file has");
        }
        found->second = std::move(take);
    }
    void require_all_put() const {
        for (const auto &[name, take] : by_name_) {
            if (!take) {
                throw cli::Failure(std::string(contents_name) + " names no change or file for the member " +
                                       core::quote(name),
                                   exit_not_trusted);
            }
        }
    }
    const Take &of(const ExpectedMember &member) const { return by_name_.at(member.name); }

  private:
    std::map<std::string, Take> by_name_;
};

// Assigns members to changes and files. Their contents are read later, into strings of the package, whose lists of
// changes and files must not grow any more.
class ContentsReader {
  public:
    // `members`: those for changes and files.
    ContentsReader(Package &package, const Taking &taking, std::span<const ExpectedMember> members)
        : package_(package), taking_(taking), members_left_(members.size()), places_(members) {}

    // Throws cli::Failure and core::Error.
    Places read(const std::string &text) {
        const JsonText listed(text, contents_name, contents_limits);
        const JsonValue backends = listed.root().at("backends");
        const std::vector<JsonValue> all = backends.items();
        if (all.size() != package_.backends.size()) {
            backends.refuse("a list of " + std::to_string(package_.backends.size()) + ", as in the manifest",
                            "one of " + std::to_string(all.size()));
        }
        for (size_t i = 0; i < all.size(); ++i) {
            read_files(all[i], package_.backends[i].format, package_.backends[i].changes);
        }
        read_attachments(listed.root().at("attachments"));
        places_.require_all_put();
        return std::move(places_);
    }

  private:
    // Makes as many files as are listed; each of them needs a member.
    template<class File>
    std::vector<JsonValue> make(std::vector<File> &files, const JsonValue &list) {
        std::vector<JsonValue> listed = list.items();
        if (listed.size() > members_left_) {
            list.refuse("no more changes and files than the package has members", "more");
        }
        members_left_ -= listed.size();
        files.resize(listed.size());
        return listed;
    }

    void keep(const JsonValue &member, std::string &text) {
        places_.put(
            member, taking_.keeps_changes ? Places::Take([&text](std::string_view piece) { text += piece; })
                                          : [](std::string_view) {});
    }

    void read_change(const JsonValue &one, const std::string &format, Change &change) {
        change.status = one.at("status").text(is_status, "one of A, D, M, R and T").front();
        change.path = path_of(one.at("path"));
        change.old_path = one.has("old_path") ? path_of(one.at("old_path")) : change.path;
        change.old_mode = mode_of(one.at("old_mode"));
        change.mode = mode_of(one.at("mode"));
        change.old_blob = id_of(one.at("old_blob"), format);
        change.blob = id_of(one.at("blob"), format);
        if (!is_status_right(change)) {
            one.at("status").refuse("the status that git gives for these modes and paths");
        }
        keep(one.at("patch"), change.patch);
    }

    // Refuses a path that is in the same list, or lists, twice.
    static void take_path(std::set<std::string> &paths, const JsonValue &value, const std::string &path) {
        if (!paths.insert(path).second) {
            value.refuse("a path that is not listed twice", core::quote(path));
        }
    }

    void read_submodule(const JsonValue &one, Submodule &submodule, int depth) {
        constexpr int most_depth = 16;
        if (depth > most_depth) {
            one.refuse("submodules nested at most " + std::to_string(most_depth) + " deep", "more");
        }
        submodule.path = path_of(one.at("path"));
        if (submodule.path.find('\n') != std::string::npos) {
            one.at("path").refuse("a path without a line feed", core::quote(submodule.path));
        }
        submodule.format = one.at("format").text(is_format, expected_format);
        submodule.changes.commit = id_of(one.at("commit"), submodule.format);
        submodule.changes.tree = id_of(one.at("tree"), submodule.format);
        read_files(one, submodule.format, submodule.changes, depth);
    }

    void read_files(const JsonValue &listed, const std::string &format, Changes &changes, int depth = 0) {
        std::set<std::string> changed, with_content, submodules;
        const std::vector<JsonValue> list = make(changes.list, listed.at("changes"));
        for (size_t i = 0; i < list.size(); ++i) {
            const Change &change = changes.list[i];
            read_change(list[i], format, changes.list[i]);
            take_path(changed, list[i].at("path"), change.path);
            if (change.old_path != change.path) {
                take_path(changed, list[i].at("old_path"), change.old_path);
            }
        }
        const std::vector<JsonValue> converted = make(changes.converted, listed.at("converted"));
        for (size_t i = 0; i < converted.size(); ++i) {
            auto &[path, content] = changes.converted[i];
            path = path_of(converted[i].at("path"));
            take_path(with_content, converted[i].at("path"), path);
            keep(converted[i].at("member"), content);
        }
        for (const JsonValue &one : listed.at("crlf").items()) {
            take_path(with_content, one, changes.crlf.emplace_back(path_of(one)));
        }
        for (const JsonValue &one : listed.at("submodules").items()) {
            read_submodule(one, changes.submodules.emplace_back(), depth + 1);
            take_path(submodules, one.at("path"), changes.submodules.back().path);
        }
    }

    void read_attachment(const JsonValue &one, Attachment &attachment) {
        attachment.kind =
            one.at("kind").text(is_attachment_kind, "'plugin', 'manifest', 'signature', 'tune', 'policy' or 'license'");
        const JsonValue name = one.at("name");
        attachment.name = name.text(is_attachment_name, expected_attachment_name);
        const bool is_manifest = attachment.name.ends_with(std::string("/") + manifest_file);
        if (is_manifest != (attachment.kind == "manifest")) {
            name.refuse(is_manifest ? "another name than a manifest's" : "FOLDER/plugin.json, as for every manifest");
        }
        places_.put(one.at("member"), [&taking = taking_, &attachment](std::string_view piece) {
            if (taking.take_attachment) {
                taking.take_attachment(attachment, piece);
            }
        });
    }

    void read_attachments(const JsonValue &list) {
        std::set<std::string> names;
        const std::vector<JsonValue> listed = make(package_.attachments, list);
        for (size_t i = 0; i < listed.size(); ++i) {
            read_attachment(listed[i], package_.attachments[i]);
            if (!names.insert(package_.attachments[i].name).second) {
                listed[i].at("name").refuse("a name that no other file has");
            }
            if (is_mistaken_for_plugin(package_.attachments[i])) {
                listed[i].at("name").refuse("a name that no host takes for a plugin");
            }
        }
        for (const JsonValue &one : listed) {
            const std::string name = one.at("name").text();
            const size_t slash = name.find('/');
            if (slash != std::string::npos && names.contains(name.substr(0, slash))) {
                one.at("name").refuse("a folder whose name no file has");
            }
        }
    }

    Package &package_;
    const Taking &taking_;
    size_t members_left_;
    Places places_;
};

// Puts the list of members before the archive: "members 1234", a line feed, and JSON of that many bytes.
std::string with_list(const std::vector<Member> &members) {
    json list = json::array();
    uint64_t sum = 0;
    for (const Member &member : members) {
        sum += member.content.size();
        list.push_back({{"name", member.name},
                        {"bytes", member.content.size()},
                        {"sha256", core::hex(core::sha256_of(member.content))}});
    }
    // A package with more could not be read.
    if (sum > most_bytes) {
        throw cli::Failure("the content of the package has " + size_text(sum) + ", but a package holds at most " +
                           size_text(most_bytes));
    }
    if (members.size() > most_members) {
        throw cli::Failure("the content of the package is " + std::to_string(members.size()) +
                           " patches and files, but a package holds at most " + std::to_string(most_members));
    }
    const std::string text = list.dump(1) + "\n";
    return "members " + std::to_string(text.size()) + "\n" + text + pack(members);
}

struct Listed {
    std::vector<ExpectedMember> members;
    std::string_view archive;
};

// The first member is the contents file.
std::vector<ExpectedMember> members_of(std::string_view text) {
    const JsonText document(text, "members", list_limits);
    const std::vector<JsonValue> list = document.root().items();
    std::vector<ExpectedMember> members;
    members.reserve(list.size()); // the views of names stay valid
    std::set<std::string_view> names;
    uint64_t left = most_bytes;
    for (const JsonValue &listed : list) {
        ExpectedMember &one = members.emplace_back();
        one.name = listed.at("name").text();
        one.bytes = listed.at("bytes").number(0, UINT64_MAX);
        const bool is_contents = members.size() == 1;
        if (is_contents && one.name != contents_name) {
            listed.at("name").refuse("'contents.json', which comes first");
        }
        if (is_contents && one.bytes > most_contents_bytes) {
            listed.at("bytes").refuse("at most " + size_text(most_contents_bytes) + " of " + contents_name,
                                      size_text(one.bytes));
        }
        if (one.bytes > left) {
            listed.at("bytes").refuse("at most " + size_text(most_bytes) + " of all members", "more");
        }
        left -= one.bytes;
        if (!names.insert(one.name).second) {
            listed.at("name").refuse("a name that no other member has");
        }
        if (!core::parse_hex(listed.at("sha256").text(), one.sha256)) {
            listed.at("sha256").refuse("64 digits of 0-9a-f");
        }
    }
    if (members.empty()) {
        document.root().refuse(std::string("a list that begins with '") + contents_name + "'");
    }
    return members;
}

Listed list_of(std::string_view plain) {
    constexpr std::string_view word = "members ";
    const size_t line = plain.substr(0, 64).find('\n');
    size_t bytes = 0;
    const auto is_number = [&] {
        const auto [end, error] = std::from_chars(plain.data() + word.size(), plain.data() + line, bytes);
        return error == std::errc() && end == plain.data() + line;
    };
    if (line == std::string_view::npos || !plain.starts_with(word) || !is_number() || bytes > plain.size() - line - 1) {
        throw cli::Failure("the payload has an invalid beginning", exit_not_trusted);
    }
    if (bytes > most_list_bytes) {
        throw cli::Failure("its list of members has " + size_text(bytes) + ", but may have at most " +
                               size_text(most_list_bytes),
                           exit_not_trusted);
    }
    return {members_of(plain.substr(line + 1, bytes)), plain.substr(line + 1 + bytes)};
}

} // namespace

std::string print_payload(const Package &package) {
    Members members;
    const std::string contents = contents_json(package, members).dump(1) + "\n";
    if (contents.size() > most_contents_bytes) { // too large to be read
        throw cli::Failure("the package's description of its files has " + size_text(contents.size()) +
                           ", but may have at most " + size_text(most_contents_bytes));
    }
    core::BoundedJson(contents, contents_name, OPDOCK_INVALID_ARGUMENT, contents_limits).read();
    members.list().insert(members.list().begin(), {contents_name, contents});
    return with_list(members.list());
}

void read_payload(std::string_view plain, Package &package, const Taking &taking) {
    const Listed listed = list_of(plain);
    const std::span<const ExpectedMember> members = std::span(listed.members).subspan(1);
    Unpacker unpacker(listed.archive);
    std::string contents;
    unpacker.next(listed.members.front(), [&](std::string_view piece) { contents += piece; });
    const Places places = ContentsReader(package, taking, members).read(contents);
    contents = {};
    for (const ExpectedMember &member : members) {
        unpacker.next(member, places.of(member));
    }
    unpacker.end();
}

} // namespace opdock::plugin_pack
