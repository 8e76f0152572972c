// Finished runs, kept in a file of JSON lines, so that a search can be resumed.
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
    // Reads the file, or creates it with `search`, the settings that the runs depend on, as its first line. Only one
    // process may use it at a time. An empty `path` stands for a new folder in the temporary directory. Throws
    // cli::Failure if the file is not a state, or belongs to another search.
    State(const std::string &path, const nlohmann::json &search);

    // Run number `repeat` under a policy; null if it is not known.
    const nlohmann::json *find(const std::string &policy, uint64_t repeat) const;
    // `run` contains its "policy" and "repeat". It is on disk when this returns.
    void add(const nlohmann::json &run);

    const std::string &path() const { return path_; }
    const std::string &folder() const { return folder_; } // for the output of runs
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
