#include "lists.hpp"

#include <string>

namespace cpu {

opdock::Status check_lists(const opdock::Problem &problem, std::initializer_list<const char *> names) {
    uint32_t parameter = 0;
    for (const char *name : names) {
        uint32_t item = 0;
        for (const DLTensor *tensor : problem.inputs_of(parameter++)) {
            if (tensor->shape[0] > 1 && tensor->strides[0] != 1)
                return opdock::unsupported(std::string(name) + "[" + std::to_string(item) + "]: has stride " +
                                           std::to_string(tensor->strides[0]) + "; this implementation needs 1");
            ++item;
        }
    }
    return {};
}

} // namespace cpu
