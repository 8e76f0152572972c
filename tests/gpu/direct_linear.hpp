// A linear layer through cuBLASLt alone, as a program without opdock would call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

namespace gpu_tests {

// output[rows, columns] = input[rows, depth] weight[columns, depth]^T + bias[columns], row-major, in bf16. If there are
// scales, input and weight are e4m3 and are multiplied by them.
struct Linear {
    int64_t rows, columns, depth;
    const void *input, *weight, *bias;
    void *output;
    const void *input_scale = nullptr, *weight_scale = nullptr;
};

// Uses the first algorithm of cuBLASLt's heuristic for a workspace
// of at most 32 MiB, with f32 sums and the bias in the epilogue.
class DirectLinear {
  public:
    // Throws with the loader's or cuBLASLt's message. Borrows the tensors.
    explicit DirectLinear(const Linear &linear);
    ~DirectLinear();
    DirectLinear(const DirectLinear &) = delete;
    DirectLinear &operator=(const DirectLinear &) = delete;

    void run(cudaStream_t stream) const;

    size_t workspace_size() const; // used by the algorithm
    static std::string version();  // cuBLASLt's: "13.1.0"

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace gpu_tests
