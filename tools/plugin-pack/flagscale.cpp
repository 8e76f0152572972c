#include "flagscale.hpp"

#include <algorithm>
#include <filesystem>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "flagscale_encryption.hpp"
#include "package.hpp"
#include "text/bounded_yaml.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

namespace fs = std::filesystem;
using core::YamlNode;

// FlagScale's own folder, to which `commit` of its diff.yaml refers.
constexpr const char *main_backend = "FlagScale";

std::vector<fs::path> sorted_entries(const fs::path &folder) {
    std::vector<fs::path> entries;
    for (const auto &entry : fs::directory_iterator(folder)) {
        entries.push_back(entry.path());
    }
    std::sort(entries.begin(), entries.end());
    return entries;
}

const YamlNode *find(const YamlNode &map, const std::string &key) {
    for (const core::YamlEntry &entry : map.entries) {
        if (entry.key.text == key) {
            return &entry.value;
        }
    }
    return nullptr;
}

std::string text_of(const YamlNode &map, const std::string &key) {
    const YamlNode *value = find(map, key);
    return value == nullptr ? "" : value->text;
}

// A list, or a single value.
std::vector<std::string> texts_of(const YamlNode &map, const std::string &key) {
    std::vector<std::string> texts;
    if (const YamlNode *value = find(map, key)) {
        for (const YamlNode &item : value->items) {
            texts.push_back(item.text);
        }
        if (value->type == YamlNode::Type::scalar && !value->text.empty()) {
            texts.push_back(value->text);
        }
    }
    return texts;
}

// True for the name of a description in the layout without `commit`: a prefix of FlagScale's own commit.
bool is_hash(const std::string &name) {
    return name.size() >= 7 && name.size() <= 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct FolderFiles {
    std::vector<fs::path> descriptions; // *.yaml at the top
    std::vector<std::string> patches;
    bool has_encrypted = false;
    bool has_line_feed = false; // in a path
};

FolderFiles files_in(const fs::path &folder) {
    FolderFiles files;
    std::vector<fs::path> all;
    for (const auto &entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file() && !entry.is_symlink()) {
            all.push_back(entry.path());
        }
    }
    std::sort(all.begin(), all.end());
    for (const fs::path &file : all) {
        const std::string name = file.filename().string();
        files.has_line_feed = files.has_line_feed || file.native().find('\n') != std::string::npos;
        if (file.parent_path() == folder && (name.ends_with(".yaml") || name.ends_with(".yml"))) {
            files.descriptions.push_back(file);
        } else if (name.ends_with(".patch") || name.ends_with(std::string(".patch") + flagscale_encrypted)) {
            files.patches.push_back(file.string());
        }
        files.has_encrypted = files.has_encrypted || name.ends_with(flagscale_encrypted);
    }
    return files;
}

// Returns why a folder with these files is not a backend; "" if it may be one. The functions below do likewise.
std::string judge_files(const FlagscaleBackend &backend, const FolderFiles &files, bool has_key) {
    if (files.has_line_feed) {
        return "a file in it has a line feed in its path; rename the file";
    }
    if (!is_device_type(backend.device_type)) {
        return core::quote(backend.device_type) + " is not a device type; expected VENDOR_MODEL of letters and digits, "
                                                  "starting with a capital; rename the folder";
    }
    if (files.has_encrypted && !has_key) {
        return "its patch is encrypted; decrypt it with --decrypt-key private_key.pem, from FlagScale's --key-path";
    }
    if (files.descriptions.empty()) {
        return "there is no diff.yaml that describes it";
    }
    if (files.descriptions.size() > 1) {
        return "there are several descriptions: " + files.descriptions[0].filename().string() + ", " +
               files.descriptions[1].filename().string();
    }
    return "";
}

// Accepts either one patch with the description's name, or one patch per file.
std::string judge_patches(const FlagscaleBackend &backend, const fs::path &description) {
    const std::string stem = fs::path(description).replace_extension(".patch").string();
    const auto whole = std::find_if(backend.patches.begin(), backend.patches.end(), [&](const std::string &patch) {
        return patch == stem || patch == stem + flagscale_encrypted;
    });
    if (backend.patches.size() > 1 && whole != backend.patches.end()) {
        const std::string &other = backend.patches[whole == backend.patches.begin() ? 1 : 0];
        return "it has both " + fs::path(*whole).filename().string() + " and patches of single files, such as " +
               fs::relative(other, backend.folder).string() + ", and it is unclear which apply; remove one kind";
    }
    return backend.patches.empty() ? "there is no patch" : "";
}

std::string read_tasks(FlagscaleBackend &backend, const YamlNode &root, const fs::path &description) {
    backend.tasks = texts_of(root, "task");
    if (const auto other = std::find_if_not(backend.tasks.begin(), backend.tasks.end(), is_task);
        backend.tasks.empty() || other != backend.tasks.end()) {
        return description.filename().string() +
               (backend.tasks.empty() ? " names no task" : ": " + core::quote(*other) + " is not a task") +
               "; expected train, inference or post_train";
    }
    std::sort(backend.tasks.begin(), backend.tasks.end());
    backend.tasks.erase(std::unique(backend.tasks.begin(), backend.tasks.end()), backend.tasks.end());
    return "";
}

// The layouts have the commit in different places.
void read_commit(FlagscaleBackend &backend, const YamlNode &root, const fs::path &description) {
    if (const YamlNode *commits = find(root, "backends_commit")) {
        backend.commit = text_of(*commits, backend.name);
    }
    if (backend.commit.empty() && backend.name == main_backend) {
        backend.commit = text_of(root, "commit");
    }
    if (backend.commit.empty() && backend.name == main_backend && is_hash(description.stem().string())) {
        backend.commit = description.stem().string();
    }
}

std::string read_backend(FlagscaleBackend &backend, bool has_key) {
    FolderFiles files = files_in(backend.folder);
    if (std::string why = judge_files(backend, files, has_key); !why.empty()) {
        return why;
    }
    const fs::path &description = files.descriptions.front();
    const std::string text = cli::read_text(description.string());
    if (is_lfs_pointer(text)) {
        return description.filename().string() + ": " + lfs_remedy;
    }
    YamlNode root;
    try {
        root = core::parse_bounded_yaml(text, description.string(), OPDOCK_LOAD_FAILED);
    } catch (const core::Error &error) {
        return error.what();
    }
    backend.patches = std::move(files.patches);
    if (std::string why = judge_patches(backend, description); !why.empty()) {
        return why;
    }
    if (std::string why = read_tasks(backend, root, description); !why.empty()) {
        return why;
    }
    backend.models = texts_of(root, "models");
    backend.contact = text_of(root, "contact");
    if (const YamlNode *versions = find(root, "backends_version")) {
        backend.version = text_of(*versions, backend.name);
    }
    read_commit(backend, root, description);
    return "";
}

} // namespace

bool is_lfs_pointer(const std::string &text) {
    return text.starts_with("version https://git-lfs.github.com/spec/");
}

FlagscaleTree read_flagscale(const std::string &hardware, bool has_key) {
    if (!fs::is_directory(hardware)) {
        throw cli::Failure(hardware + ": there is no such folder");
    }
    if (const fs::path below = fs::path(hardware) / "hardware"; fs::is_directory(below)) {
        throw cli::Failure(hardware + ": expected a folder with a subfolder for each device; name " + below.string());
    }
    FlagscaleTree tree;
    const fs::path given = fs::path(hardware + "/").lexically_normal().parent_path();
    const bool is_of_one = is_device_type(given.filename().string()); // a single device's folder
    for (const fs::path &device : is_of_one ? std::vector{given} : sorted_entries(hardware)) {
        if (!fs::is_directory(fs::symlink_status(device))) {
            continue; // skips patch_history.yaml
        }
        for (const fs::path &folder : sorted_entries(device)) {
            if (!fs::is_directory(fs::symlink_status(folder))) {
                tree.unresolved.push_back({folder.string(), "it belongs to no backend"});
                continue;
            }
            FlagscaleBackend backend;
            backend.device_type = device.filename().string();
            backend.name = folder.filename().string();
            backend.folder = folder.string();
            const std::string reason =
                is_name(backend.name) ? read_backend(backend, has_key) : "its name is not valid for a backend";
            if (reason.empty()) {
                tree.backends.push_back(std::move(backend));
            } else {
                tree.unresolved.push_back({folder.string(), reason});
            }
        }
    }
    return tree;
}

} // namespace opdock::plugin_pack
