// What the command line of plugin-bench asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/tool.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_bench {

struct Request {
    std::vector<std::string> ops; // one with --shape, any number with --all
    bool shows_expected = false;  // what the op expects, in place of measuring
    std::vector<op_call::Named> inputs;
    std::vector<op_call::Named> attributes;
    std::vector<std::string> outputs; // optional ones
    std::string shapes;               // the file
    bool all = false;
    std::vector<std::string> impls; // none: all
    std::string device;             // "": that of recorded shapes, else the CPU
    bool runs_elsewhere = false;    // recorded shapes run on `device`, whatever they ran on
    uint64_t rounds = 15;
    double seconds = 2; // for each shape
    bool cold = false;
    std::string csv;
    std::string plot;
    std::string compare;   // a document of before
    double fail_above = 0; // times as long; 0: nothing fails
    bool force = false;
    bool json = false;
    bool prints_csv = false;          // in place of the table
    std::vector<std::string> modules; // absolute
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_bench
