// How a checkout differs from a commit, as patches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opdock::plugin_pack {

inline constexpr uint32_t submodule_mode = 0160000;
// unpatch writes a file of this name into each folder that it makes.
inline constexpr const char *provenance_name = "opdock-provenance.json";

// What becomes of one file.
struct Change {
    char status = 'M';    // of git: A added, D deleted, M modified, R renamed, T another type of file
    std::string old_path; // bytes, whatever their encoding; another one than `path` where it was renamed
    std::string path;
    uint32_t old_mode = 0; // 0100644, 0100755, 0120000 (a link), 0160000 (a submodule); 0: there is none
    uint32_t mode = 0;
    std::string old_blob; // full hexadecimal ids; zeros: there is none
    std::string blob;
    std::string patch; // as git prints it, with full ids and binary content
};

struct Submodule;

struct Changes {
    std::string commit; // full id
    std::string tree;   // of the files as they are now
    std::vector<Change> list;
    // Files whose bytes a checkout of `tree` does not give back, since attributes or settings convert line ends,
    // keywords or encodings (conversions.hpp): what they hold, by path.
    std::vector<std::pair<std::string, std::string>> converted;
    std::vector<std::string> crlf; // and those that hold what a checkout gives, with CRLF for LF: paths
    // Of the changed files those that a filter would convert, which is not run: they are in `tree` as they stand in the
    // worktree.
    std::vector<std::string> filtered;
    std::vector<std::string> made;     // untracked folders that unpatch made, which do not count
    std::vector<Submodule> submodules; // those of `tree` that are checked out, by path
};

// What differs in a submodule, from the commit that the outer one's commit has of it.
struct Submodule {
    std::string path;
    std::string format; // what its repository calls objects by: "sha1", "sha256"
    Changes changes;
};

// With those in submodules.
size_t count_of(const Changes &changes);

// Throws cli::Failure when the folder is not the top of a repository's worktree.
void require_top(const std::string &repository);

// Of what a package may take in, in bytes.
struct Limits {
    uint64_t file = uint64_t{1} << 30;
    uint64_t patches = uint64_t{1023} << 20; // together: git applies no more
};

// Throws cli::Failure when the file is larger.
void require_size(const std::string &path, uint64_t bytes, const Limits &limits);
// "1.5 GiB"
std::string size_text(uint64_t bytes);

// Says which files of a repository find_changes looks at.
struct Counting {
    bool include_ignored = false;
    std::vector<std::string> others = {}; // folders of submodules that somebody else looks at
    Limits limits = {};
};

// `repository` is the top of a worktree. All that differs from the commit counts, be it committed, staged, in the
// worktree only, or untracked, but for folders that unpatch made; ignored files only if asked for. The repository is
// only read. Throws cli::Failure.
Changes find_changes(const std::string &repository, const std::string &commit, const Counting &counting = {});

} // namespace opdock::plugin_pack
