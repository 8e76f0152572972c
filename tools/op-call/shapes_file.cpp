#include "op-call/shapes_file.hpp"

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "cli/text_file.hpp"
#include "opdock/opdock.h"
#include "text/bounded_yaml.hpp"
#include "text/spelling.hpp"

namespace opdock::op_call {
namespace {

using core::YamlNode;

class Reader {
  public:
    explicit Reader(const std::string &name) : name_(name) {}

    Subject subject(const YamlNode &node) const {
        expect(node, YamlNode::Type::map, "a map with 'op' and 'inputs'");
        Subject subject;
        subject.place = place_of(node);
        bool has_inputs = false;
        for (const auto &[key, value] : node.entries) {
            if (take_recorded(key.text, value, subject)) {
                continue;
            }
            if (key.text == "op") {
                subject.op = cli::op_called(text(value, "the name of an op"));
            } else if (key.text == "impl") {
                subject.impl = text(value, "the id of an implementation");
            } else if (key.text == "inputs") {
                subject.inputs = tensors(value, "a map of inputs, such as {input: \"f32[64,1024]\"}",
                                         "a source such as \"f32[64,1024]\", in quotes, or a list of them");
                has_inputs = true;
            } else if (key.text == "attributes") {
                subject.attributes = attributes(value);
            } else if (key.text == "outputs") {
                subject.outputs = outputs(value);
            } else {
                const std::string guess =
                    cli::did_you_mean(key.text, {"op", "impl", "inputs", "attributes", "outputs"});
                fail(key,
                     "unknown field '" + key.text + "'" +
                         (guess.empty() ? "; the known fields are op, impl, inputs, attributes and outputs" : guess));
            }
        }
        if (subject.op.empty() || !has_inputs) {
            fail(node, std::string("this shape has no '") + (subject.op.empty() ? "op" : "inputs") + "'");
        }
        return subject;
    }

    // All text must be printable, since labels and messages show it.
    void expect_printable(const YamlNode &node) const {
        if (!core::is_printable(node.text)) {
            fail(node, core::quote(node.text) + " has unprintable characters");
        }
        for (const YamlNode &item : node.items) {
            expect_printable(item);
        }
        for (const auto &[key, value] : node.entries) {
            expect_printable(key);
            expect_printable(value);
        }
    }

    void expect(const YamlNode &node, YamlNode::Type type, const std::string &what) const {
        if (node.type != type) {
            fail(node, "expected " + what);
        }
    }

  private:
    [[noreturn]] void fail(const YamlNode &node, const std::string &message) const {
        throw cli::Failure(place_of(node) + ": " + message);
    }

    std::string place_of(const YamlNode &node) const {
        return name_ + ":" + std::to_string(node.line) + ":" + std::to_string(node.column);
    }

    std::string text(const YamlNode &node, const std::string &what) const {
        expect(node, YamlNode::Type::scalar, what);
        if (node.text.empty()) {
            fail(node, "expected " + what);
        }
        return node.text;
    }

    // The fields of a recorded call other than the call itself.
    bool take_recorded(const std::string &field, const YamlNode &value, Subject &subject) const {
        if (field == "device") {
            subject.recorded_on = text(value, "a device, such as cuda:0");
        } else if (field == "served_by") {
            subject.served_by = text(value, "the id of an implementation");
        } else if (field == "strides") {
            subject.strides = tensors(value, "a map of strides, such as {input: \"[1,64]\"}",
                                      "strides such as \"[1,64]\", in quotes, or a list of them");
        } else {
            return field == "config" || field == "calls" || field == "microseconds" || field == "share";
        }
        return true;
    }

    // One tensor per parameter, or a list of tensors for a list parameter.
    std::vector<Named> tensors(const YamlNode &node, const char *expected, const char *what) const {
        expect(node, YamlNode::Type::map, expected);
        std::vector<Named> tensors;
        for (const auto &[key, value] : node.entries) {
            if (value.type == YamlNode::Type::sequence) {
                for (const YamlNode &item : value.items) {
                    tensors.push_back({key.text, text(item, what)});
                }
            } else {
                tensors.push_back({key.text, text(value, what)});
            }
        }
        return tensors;
    }

    std::vector<Named> attributes(const YamlNode &node) const {
        expect(node, YamlNode::Type::map, "a map of attributes, such as {eps: 1e-6}");
        std::vector<Named> attributes;
        for (const auto &[key, value] : node.entries) {
            std::string list;
            for (const YamlNode &item : value.items) {
                list += (list.empty() ? "" : ",") + text(item, "a number");
            }
            const bool is_list = value.type == YamlNode::Type::sequence;
            const bool is_empty_text = value.is_quoted && value.text.empty();
            attributes.push_back({key.text, is_list         ? "[" + list + "]"
                                            : is_empty_text ? ""
                                                            : text(value, "a value or a list of integers")});
        }
        return attributes;
    }

    std::vector<std::string> outputs(const YamlNode &node) const {
        expect(node, YamlNode::Type::sequence, "a list of optional outputs, such as [grad_weight]");
        std::vector<std::string> outputs;
        for (const YamlNode &item : node.items) {
            outputs.push_back(text(item, "the name of an output"));
        }
        return outputs;
    }

    const std::string &name_;
};

} // namespace

std::vector<Subject> parse_shapes(std::string_view text, const std::string &name) {
    YamlNode document;
    try {
        document = core::parse_bounded_yaml(text, name, OPDOCK_INVALID_ARGUMENT);
    } catch (const std::exception &error) {
        throw cli::Failure(error.what());
    }
    const Reader reader(name);
    reader.expect_printable(document);
    reader.expect(document, YamlNode::Type::sequence, "a list of shapes, each '- op: NAME' with 'inputs:'");
    std::vector<Subject> subjects;
    for (const YamlNode &item : document.items) {
        subjects.push_back(reader.subject(item));
    }
    if (subjects.empty()) {
        throw cli::Failure(name + ":1:1: the list of shapes is empty");
    }
    return subjects;
}

std::vector<Subject> read_shapes(const std::string &path) {
    return parse_shapes(cli::read_text(path), path);
}

std::string device_for(const std::string &given, const std::string &path) {
    if (given.empty() && !path.empty()) {
        for (const Subject &subject : read_shapes(path)) {
            if (subject.is_recorded()) {
                return subject.recorded_on.substr(0, subject.recorded_on.find(':'));
            }
        }
    }
    return given.empty() ? "cpu" : given;
}

} // namespace opdock::op_call
