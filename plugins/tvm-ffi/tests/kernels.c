/* A tvm-ffi module in plain C: only its exports and their arguments make it a module. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <dlpack/dlpack.h>

typedef struct {
    int32_t type;
    uint32_t padding;
    union {
        int64_t integer;
        double real;
        const char *text;
        const DLTensor *tensor;
        uint64_t bits;
    } as;
} value;

#define EXPORTED __attribute__((visibility("default")))
#define FUNCTION(name) EXPORTED int __tvm_ffi_##name(void *self, const value *arguments, int32_t count, value *result)

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);

FUNCTION(relu);
FUNCTION(rmsnorm);
FUNCTION(raise);
FUNCTION(look);

static int64_t elements(const DLTensor *tensor) {
    int64_t product = 1;
    int i;
    for (i = 0; i < tensor->ndim; ++i)
        product *= tensor->shape[i];
    return product;
}

/* relu(input, output) */
FUNCTION(relu) {
    const float *input = (const float *)arguments[0].as.tensor->data;
    float *output = (float *)arguments[1].as.tensor->data;
    const int64_t n = elements(arguments[0].as.tensor);
    int64_t i;
    (void)self, (void)count, (void)result;
    for (i = 0; i < n; ++i)
        output[i] = input[i] < 0 ? 0 : input[i];
    return 0;
}

/* rmsnorm(output, input, weight, eps, block), of matrices */
FUNCTION(rmsnorm) {
    const DLTensor *input = arguments[1].as.tensor;
    const float *weight = (const float *)arguments[2].as.tensor->data;
    int64_t row, i, n;
    (void)self, (void)result;
    if (count != 5 || input->ndim != 2 || arguments[4].type != 1 || arguments[4].as.integer < 1) {
        TVMFFIErrorSetRaisedFromCStr("ValueError", "rmsnorm takes matrices and a block");
        return -1;
    }
    n = input->shape[1];
    for (row = 0; row < input->shape[0]; ++row) {
        const float *x = (const float *)input->data + row * input->strides[0];
        float *y = (float *)arguments[0].as.tensor->data + row * n;
        double sum = 0;
        for (i = 0; i < n; ++i)
            sum += (double)x[i] * x[i];
        for (i = 0; i < n; ++i)
            y[i] = (float)(x[i] / sqrt(sum / (double)n + arguments[3].as.real) * weight[i]);
    }
    return 0;
}

/* raise(kind): raises an error of this kind; without a kind, only returns a status. */
FUNCTION(raise) {
    (void)self, (void)count, (void)result;
    if (*arguments[0].as.text != '\0')
        TVMFFIErrorSetRaisedFromCStr(arguments[0].as.text, "as it was asked");
    return -1;
}

/* look(seen, first, ...): records the type and value of each argument, pointer and rank of tensors; then the stream. */
FUNCTION(look) {
    const DLTensor *seen = arguments[0].as.tensor;
    int64_t *to = (int64_t *)seen->data;
    int i;
    (void)self, (void)result;
    for (i = 1; i < count; ++i) {
        *to++ = arguments[i].type;
        if (arguments[i].type == 7) {
            *to++ = (int64_t)(intptr_t)arguments[i].as.tensor->data;
            *to++ = arguments[i].as.tensor->ndim;
        } else if (arguments[i].type == 8) {
            *to++ = (int64_t)strlen(arguments[i].as.text);
        } else {
            *to++ = (int64_t)arguments[i].as.bits;
        }
    }
    *to = (int64_t)(intptr_t)TVMFFIEnvGetStream((int32_t)seen->device.device_type, seen->device.device_id);
    return 0;
}
