// Finished runs, kept in a file of JSON lines, so that a search goes on where it was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "files/descriptor.hpp"

namespace opdock::plugin_bisect {

class State {
  public:
    // Reads the file, or makes it with `search` as its first line: what the runs depend on. One process has it at a
    // time. `path` of "": a new folder among the temporary files. Throws cli::Failure for a file that is no such one or
    // of another search.
    State(const std::string &path, const nlohmann::json &search);

    // The run number `repeat` under a policy; null where it is not known.
    const nlohmann::json *find(const std::string &policy, uint64_t repeat) const;
    // Has its "policy" and "repeat". On the disk when this returns.
    void add(const nlohmann::json &run);

    const std::string &path() const { return path_; }
    const std::string &folder() const { return folder_; } // of what runs print
    uint64_t runs() const { return runs_.size(); }

  private:
    void read(const nlohmann::json &search);
    void keep(const nlohmann::json &run);

    std::string path_;
    std::string folder_;
    core::Descriptor file_;
    std::map<std::pair<std::string, uint64_t>, nlohmann::json> runs_;
};

} // namespace opdock::plugin_bisect
