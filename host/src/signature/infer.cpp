#include "signature/infer.hpp"

#include <fmt/format.h>

#include "signature/attributes.hpp"
#include "signature/layout.hpp"

namespace opdock::core {

namespace {

class Inference {
  public:
    Inference(const Signature &signature, const opdock_args &args)
        : signature_(signature), args_(args), solver_(signature) {}

    std::vector<InferredOutput> run() {
        check_args(signature_, args_);
        layout_ = lay_out(signature_, args_, false, tensors_, first_);
        match(false, 0);
        bind_attributes(signature_, args_, attributes_);
        for (size_t i = 0; i < signature_.attributes.size(); ++i) {
            solver_.match_attribute(i, attributes_[i]);
        }
        for (uint32_t element = 0; element < layout_.elements; ++element) {
            match_element(element);
            solver_.check_constraints(true);
        }
        solver_.check_constraints(false);
        solver_.bind_counted_dims();
        for (uint32_t i = 0; i < signature_.outputs.size(); ++i) {
            add_output(static_cast<uint32_t>(signature_.inputs.size()) + i);
        }
        return std::move(specs_);
    }

  private:
    void match(bool lists, uint32_t element) {
        for (uint32_t i = 0; i < signature_.inputs.size(); ++i) {
            if (signature_.inputs[i].list != lists || first_[i] == first_[i + 1]) {
                continue;
            }
            const DLTensor *tensor = tensors_[first_[i] + element];
            if (tensor != nullptr) {
                solver_.match({i, element}, *tensor);
            }
        }
    }

    void match_element(uint32_t element) {
        solver_.begin_element();
        match(true, element);
    }

    void add_output(uint32_t parameter) {
        if (!signature_.parameter(parameter).list) {
            add_spec({parameter, 0});
            return;
        }
        for (uint32_t element = 0; element < layout_.elements; ++element) {
            match_element(element);
            add_spec({parameter, element});
        }
    }

    void add_spec(ArgumentPlace place) {
        const Parameter &output = signature_.parameter(place.parameter);
        InferredOutput spec;
        spec.name = output.name.c_str();
        spec.optional = output.optional;
        spec.parameter = place.parameter - static_cast<uint32_t>(signature_.inputs.size());
        if (solver_.spec_of(place, &spec)) {
            specs_.push_back(spec);
        } else if (!output.optional) {
            fail(signature_, place,
                 "cannot be inferred: its dtype or shape comes from a list, and the lists are empty");
        }
    }

    const Signature &signature_;
    const opdock_args &args_;
    Solver solver_;
    Layout layout_;
    std::vector<const DLTensor *> tensors_;
    std::vector<uint32_t> first_;
    std::vector<opdock_value> attributes_;
    std::vector<InferredOutput> specs_;
};

} // namespace

std::vector<InferredOutput> infer_outputs(const Signature &signature, const opdock_args &args) {
    return Inference(signature, args).run();
}

} // namespace opdock::core
