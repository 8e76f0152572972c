/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF note: the information that a host needs about a plugin before it runs any of its code.
 *
 *     OPDOCK_NOTE(id, version, vendor, devices, cpu_features)
 *
 * once, at file scope, in one source file. All five are string literals without quotes or backslashes:
 *   id            names the plugin, [a-z0-9_.-], unique on a machine: "acme-norms"
 *   version       of the plugin: "1.2.0"
 *   vendor        the distributor: "acme". Printable ASCII without spaces and , ; : | = '
 *   devices       types that its implementations serve, separated by commas: "cpu" or "cuda,rocm"; one that is missing
 *                 is a warning
 *   cpu_features  needed before the code can check for itself, as /proc/cpuinfo spells them: "avx2,fma" or ""
 *
 * The payload is one JSON object of schema opdock.note/1. The section survives stripping, LTO, --gc-sections and
 * patchelf. Device compilation passes of CUDA and HIP get nothing.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_NOTE_H
#define OPDOCK_ABI_NOTE_H

#include <stdint.h>

#include "opdock/abi/version.h"

#define OPDOCK_NOTE_SECTION ".note.opdock"
#define OPDOCK_NOTE_OWNER "opdock"
#define OPDOCK_NOTE_TYPE 1

#define OPDOCK_NOTE_TEXT_(x) #x
#define OPDOCK_NOTE_TEXT(x) OPDOCK_NOTE_TEXT_(x)

/* clang-format off */
#define OPDOCK_NOTE_JSON(id, version, vendor, devices, cpu_features)                                                   \
    "{\"schema\":\"opdock.note/1\""                                                                                    \
    ",\"abi\":[" OPDOCK_NOTE_TEXT(OPDOCK_ABI_MAJOR) "," OPDOCK_NOTE_TEXT(OPDOCK_ABI_MINOR) "]"                         \
    ",\"oldest_host\":[" OPDOCK_NOTE_TEXT(OPDOCK_ABI_MAJOR) "," OPDOCK_NOTE_TEXT(OPDOCK_ABI_OLDEST_HOST_MINOR) "]"     \
    ",\"id\":\"" id "\",\"version\":\"" version "\",\"vendor\":\"" vendor "\""                                         \
    ",\"devices\":\"" devices "\",\"cpu_features\":\"" cpu_features "\"}"
/* clang-format on */

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define OPDOCK_NOTE(id, version, vendor, devices, cpu_features)
#else
#define OPDOCK_NOTE(id, version, vendor, devices, cpu_features)                                                        \
    OPDOCK_NOTE_OF(OPDOCK_NOTE_JSON(id, version, vendor, devices, cpu_features))
#endif

/* The note with an arbitrary payload, for tests of hosts. */
#define OPDOCK_NOTE_OF(json)                                                                                           \
    static const struct {                                                                                              \
        uint32_t name_size, payload_size, type;                                                                        \
        char name[8];                                                                                                  \
        char payload[(sizeof(json) + 3) / 4 * 4];                                                                      \
    } opdock_note __attribute__((section(OPDOCK_NOTE_SECTION), used, aligned(4))) = {                                  \
        sizeof(OPDOCK_NOTE_OWNER), sizeof(json), OPDOCK_NOTE_TYPE, OPDOCK_NOTE_OWNER, json};

#endif
