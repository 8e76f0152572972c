/* A program as written for ABI 1.0. It calls abi.scale in each way that 1.0 offers.
 *
 *     program IMPL_ID ADDED MODULE...
 *
 * Exits with 0 if IMPL_ID serves every call and adds ADDED. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <opdock/opdock.h>

static int failures;

static void expect(int holds, const char *what) {
    if (!holds) {
        printf("%s: %s\n", what, opdock_last_error());
        ++failures;
    }
}

static void count_line(void *user_data, int32_t level, const char *line) {
    (void)level;
    (void)line;
    ++*(int *)user_data;
}

static void *allocate(void *user_data, DLDevice device, void *stream, uint64_t bytes) {
    (void)user_data;
    (void)device;
    (void)stream;
    return aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
}

static void release(void *user_data, DLDevice device, void *stream, void *memory) {
    (void)user_data;
    (void)device;
    (void)stream;
    free(memory);
}

int main(int count, char **arguments) {
    const double added = strtod(arguments[2], NULL);
    float x[4] = {1, 2, 3, 4}, y[4];
    int64_t shape[1] = {4};
    DLTensor in = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0}, out = in;
    const DLTensor *inputs[1] = {&in}, *outputs[1] = {&out};
    void *data[2] = {x, y};
    int lines = 0, i;
    opdock_attribute factor = {"factor", {OPDOCK_VALUE_FLOAT, 0, {0}}};
    opdock_args args = {0};
    opdock_options options = {0};
    opdock_call call = {0};
    opdock_tensor_spec spec;
    uint32_t n_specs, major, minor;
    uint64_t served;
    char *text;
    opdock_host *host;
    opdock_op *op;
    opdock_prepared *prepared;

    opdock_abi_version(&major, &minor);
    expect(major == 1, "the major version is 1");
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, extension_user_data);
    options.n_modules = (uint32_t)(count - 3);
    options.modules = (const char *const *)arguments + 3;
    options.log = count_line;
    options.log_user_data = &lines;
    options.allocate_workspace = allocate;
    options.free_workspace = release;
    if (opdock_open(&options, &host) != OPDOCK_OK || opdock_find_op(host, "abi.scale", &op) != OPDOCK_OK) {
        printf("%s\n", opdock_last_error());
        return 1;
    }
    out.data = y;
    factor.value.as.f = 3;
    args.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
    args.n_inputs = args.n_outputs = args.n_attributes = 1;
    args.inputs = inputs;
    args.outputs = outputs;
    args.attributes = &factor;

#define EXPECT_RESULT(what)                                                                                            \
    for (i = 0; i < 4; ++i)                                                                                            \
        expect(fabs(y[i] - (3 * x[i] + added)) < 1e-6, what);                                                          \
    memset(y, 0, sizeof y)
    expect(opdock_call_op(op, &args) == OPDOCK_OK, "a call by handle");
    EXPECT_RESULT("the result by handle");
    expect(opdock_call_by_name(host, "abi.scale", &args) == OPDOCK_OK, "a call by name");
    EXPECT_RESULT("the result by name");
    args.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, stream);
    expect(opdock_call_op(op, &args) == OPDOCK_OK, "a call that ends at its stream");
    EXPECT_RESULT("the result of a call that ends at its stream");
    if (opdock_prepare(op, &args, NULL, &prepared) != OPDOCK_OK) {
        printf("%s\n", opdock_last_error());
        return 1;
    }
    expect(OPDOCK_HAS_FIELD(prepared, opdock_prepared, workspace_size) && prepared->n_data == 2, "a prepared call");
    call.struct_size = OPDOCK_STRUCT_SIZE(opdock_call, workspace_size);
    call.n_data = 2;
    call.data = data;
    for (i = 0; i < 2; ++i) {
        expect(opdock_prepared_run(prepared, &call) == OPDOCK_OK, "a prepared run");
    }
    EXPECT_RESULT("the result of a prepared run");
    expect(strcmp(opdock_prepared_impl(prepared), arguments[1]) == 0, "who serves the prepared run");
    expect(opdock_prepared_stale(prepared) == 0, "it is not stale");
    opdock_prepared_destroy(prepared);

    expect(opdock_infer_outputs(op, &args, &spec, sizeof spec, 1, &n_specs) == OPDOCK_OK && n_specs >= 1 &&
               spec.ndim == 1 && spec.shape[0] == 4 && strcmp(spec.name, "y") == 0,
           "inferred outputs");
    expect(opdock_served_count(host, "abi.scale", arguments[1], &served) == OPDOCK_OK && served == 5,
           "a count, with prepared runs");
    expect(opdock_explain(host, "abi.scale", NULL, "f32", NULL, &text) == OPDOCK_OK && strstr(text, arguments[1]),
           "a decision");
    opdock_string_free(text);
    expect(opdock_freeze(host, NULL, &text) == OPDOCK_OK && strstr(text, "\"digest\""), "a manifest");
    opdock_string_free(text);
    opdock_close(host);
    return failures != 0;
}
