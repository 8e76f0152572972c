#include "payload.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "strict_json.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;

// Names of members are the tool's own: nothing of a path of the vendor's stands in the archive.
constexpr const char *contents_name = "contents.json";

// A member takes some 140 bytes of the list, and a change some 400 of the contents.
constexpr size_t most_members = 50'000;
constexpr size_t most_list_bytes = size_t{8} << 20;
constexpr size_t most_contents_bytes = size_t{32} << 20;
constexpr core::JsonLimits list_limits = {2, 1 + 4 * most_members};
constexpr core::JsonLimits contents_limits = {64, 12 * most_members};

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

// Where what the members hold goes.
class Places {
  public:
    using Take = std::function<void(std::string_view)>;

    void add(const json &member, Take take) {
        if (!by_name_.emplace(member.get<std::string>(), std::move(take)).second) {
            throw cli::Failure("the package has two files of its member " +
                                   core::visible_line(member.get<std::string>()),
                               exit_not_trusted);
        }
    }
    // Each once; what nothing refers to goes nowhere.
    Take take(const std::string &name) {
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) {
            return [](std::string_view) {};
        }
        Take take = std::move(found->second);
        by_name_.erase(found);
        return take;
    }
    void require_all_taken() const {
        if (!by_name_.empty()) {
            throw cli::Failure("the package lacks its member " + core::visible_line(by_name_.begin()->first),
                               exit_not_trusted);
        }
    }

  private:
    std::map<std::string, Take> by_name_;
};

// Which member is which change or file. What they hold comes afterwards, into strings of the package, whose lists of
// changes and files do not grow any more.
class ContentsReader {
  public:
    // `members`: how many there are for them.
    ContentsReader(Package &package, const Taking &taking, size_t members)
        : package_(package), taking_(taking), members_(members) {}

    // Throws cli::Failure.
    Places read(const std::string &text) {
        const json listed = parse_json(text, contents_name, contents_limits);
        const json &backends = listed.at("backends");
        if (backends.size() != package_.backends.size()) {
            throw cli::Failure("the package's contents are not those of its manifest", exit_not_trusted);
        }
        for (size_t i = 0; i < backends.size(); ++i) {
            read_files(backends[i], package_.backends[i].changes);
        }
        read_attachments(listed.at("attachments"));
        return std::move(places_);
    }

  private:
    template<class File>
    void make(std::vector<File> &files, const json &listed) {
        if (listed.size() > members_) {
            throw cli::Failure("the package has more changes and files than members", exit_not_trusted);
        }
        members_ -= listed.size();
        files.resize(listed.size());
    }

    void keep(const json &member, std::string &text) {
        places_.add(
            member, taking_.keeps_changes ? Places::Take([&text](std::string_view piece) { text += piece; })
                                          : [](std::string_view) {});
    }

    void read_change(const json &one, Change &change) {
        const auto status = one.at("status").get<std::string>();
        change.status = status.size() == 1 ? status[0] : '?';
        change.path = path_of(one.at("path"));
        change.old_path = one.contains("old_path") ? path_of(one.at("old_path")) : change.path;
        one.at("old_mode").get_to(change.old_mode);
        one.at("mode").get_to(change.mode);
        one.at("old_blob").get_to(change.old_blob);
        one.at("blob").get_to(change.blob);
        refuse_bad_path(change.path);
        refuse_bad_path(change.old_path);
        keep(one.at("patch"), change.patch);
    }

    void read_files(const json &listed, Changes &changes, int depth = 0) {
        constexpr int most_depth = 16;
        const json &list = listed.at("changes"), &converted = listed.at("converted");
        make(changes.list, list);
        for (size_t i = 0; i < list.size(); ++i) {
            read_change(list.at(i), changes.list[i]);
        }
        make(changes.converted, converted);
        for (size_t i = 0; i < converted.size(); ++i) {
            auto &[path, content] = changes.converted[i];
            path = path_of(converted.at(i).at("path"));
            refuse_bad_path(path);
            keep(converted.at(i).at("member"), content);
        }
        for (const json &one : listed.at("crlf")) {
            changes.crlf.push_back(path_of(one));
            refuse_bad_path(changes.crlf.back());
        }
        for (const json &one : listed.at("submodules")) {
            Submodule &submodule = changes.submodules.emplace_back();
            submodule.path = path_of(one.at("path"));
            one.at("format").get_to(submodule.format);
            one.at("commit").get_to(submodule.changes.commit);
            one.at("tree").get_to(submodule.changes.tree);
            refuse_bad_path(submodule.path);
            if (submodule.path.find('\n') != std::string::npos || !is_format(submodule.format) ||
                !is_id(submodule.changes.commit) || !is_id(submodule.changes.tree) || depth == most_depth) {
                throw cli::Failure("the package has a submodule that cannot be", exit_not_trusted);
            }
            read_files(one, submodule.changes, depth + 1);
        }
    }

    void read_attachments(const json &listed) {
        std::set<std::string> names;
        make(package_.attachments, listed);
        for (size_t i = 0; i < listed.size(); ++i) {
            const json &one = listed.at(i);
            Attachment &attachment = package_.attachments[i];
            one.at("kind").get_to(attachment.kind);
            one.at("name").get_to(attachment.name);
            const bool is_manifest = attachment.name.ends_with(std::string("/") + manifest_file);
            if (!is_attachment_name(attachment.name) || is_manifest != (attachment.kind == "manifest") ||
                !names.insert(attachment.name).second) {
                throw cli::Failure("the package has a file of a name that cannot be, or two of it: " +
                                       one.at("name").dump(),
                                   exit_not_trusted);
            }
            places_.add(one.at("member"), [&taking = taking_, &attachment](std::string_view piece) {
                if (taking.take_attachment) {
                    taking.take_attachment(attachment, piece);
                }
            });
        }
        for (const std::string &name : names) { // a file where another one has its folder
            const size_t slash = name.find('/');
            if (slash != std::string::npos && names.contains(name.substr(0, slash))) {
                throw cli::Failure("the package has both a file and a folder " + name.substr(0, slash),
                                   exit_not_trusted);
            }
        }
    }

    Package &package_;
    const Taking &taking_;
    size_t members_;
    Places places_;
};

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
    // Which nobody could unpack.
    if (sum > most_bytes) {
        throw cli::Failure("what goes into the package has " + size_text(sum) + ", and it holds at most " +
                           size_text(most_bytes));
    }
    if (members.size() > most_members) {
        throw cli::Failure("what goes into the package are " + std::to_string(members.size()) +
                           " patches and files, and it holds at most " + std::to_string(most_members));
    }
    const std::string text = list.dump(1) + "\n";
    return "members " + std::to_string(text.size()) + "\n" + text + pack(members);
}

struct Listed {
    std::vector<ExpectedMember> members;
    std::string_view archive;
};

Listed list_of(std::string_view plain) {
    constexpr std::string_view word = "members ";
    const size_t line = plain.substr(0, 64).find('\n');
    size_t bytes = 0;
    if (line == std::string_view::npos || !plain.starts_with(word) ||
        std::from_chars(plain.data() + word.size(), plain.data() + line, bytes).ptr != plain.data() + line ||
        bytes > plain.size() - line - 1) {
        throw cli::Failure("the payload does not begin as it should", exit_not_trusted);
    }
    if (bytes > most_list_bytes) {
        throw cli::Failure("its list of members has " + size_text(bytes) + ", and may have " +
                               size_text(most_list_bytes),
                           exit_not_trusted);
    }
    Listed listed{{}, plain.substr(line + 1 + bytes)};
    uint64_t sum = 0;
    for (const json &member : parse_json(plain.substr(line + 1, bytes), "members", list_limits)) {
        ExpectedMember &one = listed.members.emplace_back();
        member.at("name").get_to(one.name);
        member.at("bytes").get_to(one.bytes);
        if (!core::parse_hex(member.at("sha256").get<std::string>(), one.sha256)) {
            throw cli::Failure("the digest of the member " + one.name + " is none", exit_not_trusted);
        }
        sum += std::min(one.bytes, most_bytes + 1);
        if (sum > most_bytes) {
            throw cli::Failure("the package says that it unpacks to more than 4 GiB", exit_not_trusted);
        }
    }
    if (listed.members.empty() || listed.members.front().name != contents_name) {
        throw cli::Failure(std::string("the first member of the package is not ") + contents_name, exit_not_trusted);
    }
    if (listed.members.front().bytes > most_contents_bytes) {
        throw cli::Failure(std::string("the member ") + contents_name + " of the package has " +
                               size_text(listed.members.front().bytes) + ", and may have " +
                               size_text(most_contents_bytes),
                           exit_not_trusted);
    }
    return listed;
}

} // namespace

std::string print_payload(const Package &package) {
    Members members;
    const std::string contents = contents_json(package, members).dump(1) + "\n";
    if (contents.size() > most_contents_bytes) { // which nobody could read
        throw cli::Failure("what the package says of its files has " + size_text(contents.size()) + ", and may have " +
                           size_text(most_contents_bytes));
    }
    check_json(contents, contents_name, contents_limits);
    members.list().insert(members.list().begin(), {contents_name, contents});
    return with_list(members.list());
}

void read_payload(std::string_view plain, Package &package, const Taking &taking) {
    const Listed listed = list_of(plain);
    Unpacker unpacker(listed.archive);
    std::string contents;
    unpacker.next(listed.members.front(), [&](std::string_view piece) { contents += piece; });
    Places places = ContentsReader(package, taking, listed.members.size() - 1).read(contents);
    contents = {};
    for (size_t i = 1; i < listed.members.size(); ++i) {
        unpacker.next(listed.members[i], places.take(listed.members[i].name));
    }
    unpacker.end();
    places.require_all_taken();
}

} // namespace opdock::plugin_pack
