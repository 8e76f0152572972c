// The differences of a checkout from a commit, as patches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opdock::plugin_pack {

inline constexpr uint32_t submodule_mode = 0160000;
// The file that unpatch writes into each folder that it creates.
inline constexpr const char *provenance_name = "opdock-provenance.json";

// The change of one file.
struct Change {
    char status = 'M';    // git's letter: A added, D deleted, M modified, R renamed, T type changed
    std::string old_path; // bytes in any encoding; differs from `path` only for a renamed file
    std::string path;
    uint32_t old_mode = 0; // 0100644, 0100755, 0120000 (a link), 0160000 (a submodule); 0: no file
    uint32_t mode = 0;
    std::string old_blob; // full hexadecimal ids; zeros: no file
    std::string blob;
    std::string patch; // as git prints it, with full ids and binary content
};

struct Submodule;

struct Changes {
    std::string commit; // full id
    std::string tree;   // of the files in their current state
    std::vector<Change> list;
    // Files that a checkout of `tree` does not reproduce, since attributes or settings convert line ends, keywords or
    // encodings (conversions.hpp): their contents, by path.
    std::vector<std::pair<std::string, std::string>> converted;
    std::vector<std::string> crlf; // paths of those equal to a checkout with CRLF for LF
    // Changed files that a filter would convert. The filter is not run: `tree` has the files of the
    // worktree.
    std::vector<std::string> filtered;
    std::vector<std::string> made;     // untracked folders created by unpatch, which are left out
    std::vector<Submodule> submodules; // submodules of `tree` that are checked out, by path
};

// The changes of a submodule, from its commit in the outer repository's commit.
struct Submodule {
    std::string path;
    std::string format; // object format of its repository: "sha1", "sha256"
    Changes changes;
};

// Number of changes, with those in submodules.
size_t count_of(const Changes &changes);

// Throws cli::Failure if the folder is not the top of a repository's worktree.
void require_top(const std::string &repository);

// Maximum sizes in a package, in bytes.
struct Limits {
    uint64_t file = uint64_t{1} << 30;
    uint64_t patches = uint64_t{1023} << 20; // of all together: git applies no larger ones
};

// Throws cli::Failure if the file is larger.
void require_size(const std::string &path, uint64_t bytes, const Limits &limits);
// "1.5 GiB"
std::string size_text(uint64_t bytes);

// Selects the files of a repository that find_changes looks at.
struct Counting {
    bool include_ignored = false;
    std::vector<std::string> others = {}; // folders of submodules that another caller looks at
    Limits limits = {};
};

// `repository` is the top of a worktree. Every difference from the commit counts, whether committed, staged, only in
// the worktree, or untracked, except for folders created by unpatch; ignored files count only on request. The
// repository is only read. Throws cli::Failure.
Changes find_changes(const std::string &repository, const std::string &commit, const Counting &counting = {});

} // namespace opdock::plugin_pack
