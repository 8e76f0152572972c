/* Format of what the probe sends its host: the transcript of one plugin's registration. In C, like the probe.
 *
 * Records follow one another: one byte of kind, four bytes of payload size, the payload. Numbers are in native byte
 * order: both ends run on the same machine and come from the same build, which the first record verifies.
 *
 * A struct that the plugin passes is sent as
 *
 *     byte 0 or 1      0: the plugin passed null, and nothing follows
 *     the struct       the bytes that this build knows, zero beyond those that the plugin knows; a function pointer
 *                      that is not null is sent as 1, every other pointer as 0
 *     its strings      in the order of their fields: four bytes of length, the bytes and a NUL, or length NULL_TEXT
 *     its knobs        for an implementation, unless there are too many: each like a struct
 */
#ifndef OPDOCK_TRANSCRIPT_FORMAT_H
#define OPDOCK_TRANSCRIPT_FORMAT_H

#include <stdint.h>

enum {
    OPDOCK_TRANSCRIPT_VERSION = 3,

    /* Kinds of records, in the order in which they may occur. */
    OPDOCK_RECORD_HELLO = 1,       /* opdock_transcript_hello */
    OPDOCK_RECORD_OPEN_FAILED = 2, /* text: the dynamic loader's message; nothing follows */
    OPDOCK_RECORD_OPENED = 3,      /* constructors have run */
    OPDOCK_RECORD_NO_ENTRY = 4,    /* nothing follows */
    /* Calls of the entry, in its order. */
    OPDOCK_RECORD_VENDOR = 5,
    OPDOCK_RECORD_DEVICE = 6,
    OPDOCK_RECORD_OP = 7,
    OPDOCK_RECORD_IMPL = 8,
    OPDOCK_RECORD_SHUTDOWN = 9,   /* a byte: 1 if there is a function */
    OPDOCK_RECORD_FAIL = 10,      /* text, or nothing for null: registry->fail */
    OPDOCK_RECORD_HOST_FAIL = 11, /* the same for host->fail */
    OPDOCK_RECORD_RETURNED = 12,  /* int32_t: the entry's status */
    OPDOCK_RECORD_CHANGED = 13,   /* text: process state that has changed */
    OPDOCK_RECORD_LIBRARY = 14,   /* opdock_transcript_library, and the path as text: loaded with the plugin */
    OPDOCK_RECORD_END = 15,

    /* One more than a host accepts, so that the host detects an excess. */
    OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS = 65537,
    /* One more than the longest text that a host accepts. */
    OPDOCK_TRANSCRIPT_LONGEST_TEXT = 4097,
    /* Maximum number of libraries reported, beyond any plugin's need; a probe omits the rest. */
    OPDOCK_TRANSCRIPT_MOST_LIBRARIES = 1024
};

#define OPDOCK_TRANSCRIPT_NULL_TEXT UINT32_MAX

/* Descriptors of the probe. */
#define OPDOCK_PROBE_CHANNEL 3          /* for writing the transcript */
#define OPDOCK_PROBE_DIRECTORY 4        /* the plugin's folder */
#define OPDOCK_PROBE_STATUS 5           /* end of the process with the plugin, as from waitpid: an int; or this: */
#define OPDOCK_PROBE_UNCONFINED 0x10000 /* not a value of waitpid: nothing was tried */

/* Makes the probe run a vendor's device query command instead. The probe ends as the command ends; if it cannot be run,
 * with these codes, which shells and env(1) use. */
#define OPDOCK_PROBE_QUERY "--query-device"
#define OPDOCK_PROBE_NO_PROGRAM 125
#define OPDOCK_PROBE_CANNOT_RUN 126
#define OPDOCK_PROBE_NOT_FOUND 127

/* Probes of different builds differ in at least one of these. */
typedef struct opdock_transcript_hello {
    uint32_t version;
    uint32_t vendor_size;
    uint32_t device_size;
    uint32_t op_size;
    uint32_t impl_size;
    uint32_t knob_size;
} opdock_transcript_hello;

/* The file of a library, from stat; times in nanoseconds since the epoch. */
typedef struct opdock_transcript_library {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified;
    int64_t changed;
} opdock_transcript_library;

#endif
