// Repositories for tests, with all kinds of files that are hard to reproduce.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "git.hpp"
#include "temporary_directory.hpp"

namespace opdock::plugin_pack {

class MadeRepository {
  public:
    explicit MadeRepository(const std::string &name = "repository") : folder_(directory_.path() / name) {
        std::filesystem::create_directory(folder_);
        run({"init", "--quiet", "--template="});
    }

    std::string path() const { return folder_.string(); }
    std::filesystem::path operator/(const std::string &name) const { return folder_ / name; }

    std::string run(const std::vector<std::string> &arguments) const {
        const std::map<std::string, std::string> who = {
            {"GIT_AUTHOR_NAME", "A"},        {"GIT_AUTHOR_EMAIL", "a@example.com"},
            {"GIT_COMMITTER_NAME", "A"},     {"GIT_COMMITTER_EMAIL", "a@example.com"},
            {"GIT_AUTHOR_DATE", "@1 +0000"}, {"GIT_COMMITTER_DATE", "@1 +0000"},
            {"GIT_ALLOW_PROTOCOL", "file"},
        };
        return git({path(), who}, arguments);
    }
    void write(const std::string &name, const std::string &content) const {
        std::filesystem::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name, std::ios::binary) << content;
    }
    void remove(const std::string &name) const { std::filesystem::remove_all(folder_ / name); }
    void executable(const std::string &name, bool is = true) const {
        namespace fs = std::filesystem;
        fs::permissions(folder_ / name, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                        is ? fs::perm_options::add : fs::perm_options::remove);
    }
    void link(const std::string &name, const std::string &to) const {
        std::filesystem::remove(folder_ / name);
        std::filesystem::create_symlink(to, folder_ / name);
    }
    // Commits all files.
    std::string commit() const {
        run({"add", "--all", "--force"});
        run({"commit", "--quiet", "--allow-empty", "--message=change"});
        std::string id = run({"rev-parse", "HEAD"});
        id.pop_back();
        return id;
    }

  private:
    test::TemporaryDirectory directory_;
    std::filesystem::path folder_;
};

// All files below a folder except git's: "link TARGET", "file CONTENT" or "program CONTENT", by path.
inline std::map<std::string, std::string> files_in(const std::filesystem::path &folder) {
    namespace fs = std::filesystem;
    std::map<std::string, std::string> files;
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
        const std::string name = entry->path().lexically_relative(folder).string();
        if (entry->path().filename() == ".git") {
            entry.disable_recursion_pending();
        } else if (entry->is_symlink()) {
            files[name] = "link " + fs::read_symlink(entry->path()).string();
        } else if (entry->is_regular_file()) {
            std::ifstream stream(entry->path(), std::ios::binary);
            const bool runs = (entry->status().permissions() & fs::perms::owner_exec) != fs::perms::none;
            files[name] = (runs ? "program " : "file ") +
                          std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
        }
    }
    return files;
}

} // namespace opdock::plugin_pack
