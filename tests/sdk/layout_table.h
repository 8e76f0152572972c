/* Tables of struct layouts and constants, and the comparison with the recorded values.
 *
 * A difference breaks existing binaries. A field may be appended: add its line, and raise the STRUCT size.
 * From 1.0 on, nothing else may change within a major version.
 * abidiff does not replace this: it was seen to accept a shifted field.
 *
 * Compiled with -Wpadded, so that no struct has padding that differs between compilers. Runs on LP64 machines. */
#ifndef OPDOCK_TESTS_SDK_LAYOUT_TABLE_H
#define OPDOCK_TESTS_SDK_LAYOUT_TABLE_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    const char *name; /* of the struct; a field is "struct.field" */
    size_t offset;
    size_t size;
    size_t expected_offset;
    size_t expected_size;
    int64_t is_struct;
} layout_row;

typedef struct {
    const char *name;
    int64_t value;
    int64_t expected;
} constant_row;

#define STRUCT(type, bytes)                                                                                            \
    { #type, 0, sizeof(type), 0, bytes, 1 }
#define FIELD(type, field, at, bytes)                                                                                  \
    { #type "." #field, offsetof(type, field), sizeof(((type *)0)->field), at, bytes, 0 }
#define CONSTANT(name, number)                                                                                         \
    { #name, (int64_t)(name), number }

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Returns 1 if anything differs, and prints it. */
static int compare_layout(const layout_row *layout, size_t n_layout, const constant_row *constants,
                          size_t n_constants) {
    int differences = 0;
    const layout_row *owner = layout;
    size_t end = 0; /* of the fields of `owner` so far */
    for (size_t i = 0; i < n_layout; ++i) {
        const layout_row *row = &layout[i];
        if (row->offset != row->expected_offset || row->size != row->expected_size) {
            printf("%s: offset %zu and %zu bytes, expected offset %zu and %zu bytes\n", row->name, row->offset,
                   row->size, row->expected_offset, row->expected_size);
            ++differences;
        }
        if (row->is_struct) {
            owner = row;
            end = 0;
        } else if (row->offset != end) {
            printf("%s: starts at %zu, and the listed field before it ends at %zu: list every field\n", row->name,
                   row->offset, end);
            ++differences;
        }
        end += row->is_struct ? 0 : row->size;
        if ((i + 1 == n_layout || layout[i + 1].is_struct) && end != owner->size) {
            printf("%s: has %zu bytes, and its listed fields end at %zu: list every field\n", owner->name, owner->size,
                   end);
            ++differences;
        }
    }
    for (size_t i = 0; i < n_constants; ++i) {
        if (constants[i].value != constants[i].expected) {
            printf("%s: %" PRId64 ", expected %" PRId64 "\n", constants[i].name, constants[i].value,
                   constants[i].expected);
            ++differences;
        }
    }
    printf("%zu rows and %zu constants compared, %d differences\n", n_layout, n_constants, differences);
    return differences != 0;
}

#endif
