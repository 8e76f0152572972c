#include "payload.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

// Names of members are the tool's own: nothing of a path of the vendor's stands in the archive.
constexpr const char *contents_name = "contents.json";

std::string path_of(const json &value) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    const std::string hex = value.at("hex").get<std::string>();
    std::string bytes(hex.size() / 2, '\0');
    if (!core::parse_hex(hex, std::span(reinterpret_cast<unsigned char *>(bytes.data()), bytes.size()))) {
        throw cli::Failure("a path in the package is not spelled as paths are", exit_not_trusted);
    }
    return bytes;
}

// git refuses such paths as well, when it applies a patch; a package with one is refused before.
void refuse_bad_path(const std::string &path) {
    const auto fail = [&] {
        throw cli::Failure("the package has a path that no tree has: " + path_json(path).dump(), exit_not_trusted);
    };
    if (path.empty() || path.find('\0') != std::string::npos) {
        fail();
    }
    for (size_t at = 0; at <= path.size();) {
        const size_t end = std::min(path.find('/', at), path.size());
        std::string part = path.substr(at, end - at);
        std::transform(part.begin(), part.end(), part.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
        if (part.empty() || part == "." || part == ".." || part == ".git" || part == "git~1") {
            fail();
        }
        at = end + 1;
    }
}

std::string member_name(const std::string &kind, size_t index) {
    return kind + "/" + std::to_string(index);
}

// Puts contents into members and refers to them by name.
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

// --- the way back ----------------------------------------------------------------------------------------------------

class Contents {
  public:
    explicit Contents(std::vector<Member> members) {
        for (Member &member : members) {
            by_name_.emplace(member.name, std::move(member.content));
        }
    }
    std::string take(const json &name) {
        const auto found = by_name_.find(name.get<std::string>());
        if (found == by_name_.end()) {
            throw cli::Failure("the package lacks its member " + core::visible_name(name.get<std::string>()),
                               exit_not_trusted);
        }
        return std::move(found->second);
    }

  private:
    std::map<std::string, std::string> by_name_;
};

Change change_of(const json &one, Contents &contents) {
    Change change;
    const auto status = one.at("status").get<std::string>();
    change.status = status.size() == 1 ? status[0] : '?';
    change.path = path_of(one.at("path"));
    change.old_path = one.contains("old_path") ? path_of(one.at("old_path")) : change.path;
    one.at("old_mode").get_to(change.old_mode);
    one.at("mode").get_to(change.mode);
    one.at("old_blob").get_to(change.old_blob);
    one.at("blob").get_to(change.blob);
    change.patch = contents.take(one.at("patch"));
    refuse_bad_path(change.path);
    refuse_bad_path(change.old_path);
    return change;
}

void add_files(Changes &changes, const json &listed, Contents &contents, int depth = 0) {
    constexpr int most_depth = 16;
    for (const json &one : listed.at("changes")) {
        changes.list.push_back(change_of(one, contents));
    }
    for (const json &one : listed.at("converted")) {
        const std::string path = path_of(one.at("path"));
        refuse_bad_path(path);
        changes.converted.emplace_back(path, contents.take(one.at("member")));
    }
    for (const json &one : listed.at("crlf")) {
        changes.crlf.push_back(path_of(one));
        refuse_bad_path(changes.crlf.back());
    }
    for (const json &one : listed.at("submodules")) {
        Submodule submodule{path_of(one.at("path")), one.at("format").get<std::string>(), {}};
        one.at("commit").get_to(submodule.changes.commit);
        one.at("tree").get_to(submodule.changes.tree);
        refuse_bad_path(submodule.path);
        if (submodule.path.find('\n') != std::string::npos || !is_format(submodule.format) ||
            !is_id(submodule.changes.commit) || !is_id(submodule.changes.tree) || depth == most_depth) {
            throw cli::Failure("the package has a submodule that cannot be", exit_not_trusted);
        }
        add_files(submodule.changes, one, contents, depth + 1);
        changes.submodules.push_back(std::move(submodule));
    }
}

void add_contents(Package &package, std::vector<Member> members) {
    Contents contents(std::move(members));
    const json listed = json::parse(contents.take(contents_name));
    const json &backends = listed.at("backends");
    if (backends.size() != package.backends.size()) {
        throw cli::Failure("the package's contents are not those of its manifest", exit_not_trusted);
    }
    for (size_t i = 0; i < backends.size(); ++i) {
        add_files(package.backends[i].changes, backends[i], contents);
    }
    std::set<std::string> names;
    for (const json &one : listed.at("attachments")) {
        Attachment attachment{one.at("kind").get<std::string>(), one.at("name").get<std::string>(),
                              contents.take(one.at("member"))};
        const bool is_manifest = attachment.name.ends_with(std::string("/") + manifest_file);
        if (!is_attachment_name(attachment.name) || is_manifest != (attachment.kind == "manifest") ||
            !names.insert(attachment.name).second) {
            throw cli::Failure("the package has a file of a name that cannot be, or two of it: " +
                                   one.at("name").dump(),
                               exit_not_trusted);
        }
        package.attachments.push_back(std::move(attachment));
    }
    for (const std::string &name : names) { // a file where another one has its folder
        const size_t slash = name.find('/');
        if (slash != std::string::npos && names.contains(name.substr(0, slash))) {
            throw cli::Failure("the package has both a file and a folder " + name.substr(0, slash), exit_not_trusted);
        }
    }
}

// Before the archive stands what is in it: "members 1234", a line feed, and JSON of so many bytes.
std::string with_list(const std::vector<Member> &members) {
    json list = json::array();
    uint64_t sum = 0;
    for (const Member &member : members) {
        sum += member.content.size();
        list.push_back({{"name", member.name},
                        {"bytes", member.content.size()},
                        {"sha256", core::hex(core::sha256_of(member.content))}});
    }
    if (sum > most_bytes) { // which nobody could unpack
        throw cli::Failure("what goes into the package has " + size_text(sum) + ", and it holds at most " +
                           size_text(most_bytes));
    }
    const std::string text = list.dump(1) + "\n";
    return "members " + std::to_string(text.size()) + "\n" + text + pack(members);
}

std::vector<Member> members_of(std::string_view plain) {
    constexpr std::string_view word = "members ";
    const size_t line = plain.substr(0, 64).find('\n');
    size_t bytes = 0;
    if (line == std::string_view::npos || !plain.starts_with(word) ||
        std::from_chars(plain.data() + word.size(), plain.data() + line, bytes).ptr != plain.data() + line ||
        bytes > plain.size() - line - 1) {
        throw cli::Failure("the payload does not begin as it should", exit_not_trusted);
    }
    const json list = json::parse(plain.substr(line + 1, bytes));
    std::vector<ExpectedMember> expected;
    uint64_t sum = 0;
    for (const json &member : list) {
        expected.push_back({member.at("name").get<std::string>(), member.at("bytes").get<uint64_t>()});
        sum += std::min(expected.back().bytes, most_bytes + 1);
        if (sum > most_bytes) {
            throw cli::Failure("the package says that it unpacks to more than 4 GiB", exit_not_trusted);
        }
    }
    std::vector<Member> members = unpack(plain.substr(line + 1 + bytes), expected);
    for (size_t i = 0; i < members.size(); ++i) {
        if (list[i].at("sha256") != core::hex(core::sha256_of(members[i].content))) {
            throw cli::Failure("the member " + core::visible_name(members[i].name) + " is not the one that was signed",
                               exit_not_trusted);
        }
    }
    return members;
}

} // namespace

std::string print_payload(const Package &package) {
    Members members;
    const std::string contents = contents_json(package, members).dump(1) + "\n";
    members.list().insert(members.list().begin(), {contents_name, contents});
    return with_list(members.list());
}

void read_payload(std::string_view plain, Package &package) {
    add_contents(package, members_of(plain));
}

} // namespace opdock::plugin_pack
