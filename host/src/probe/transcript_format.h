/* What the probe sends its host: a transcript of one plugin's registration. In C, since the probe is.
 *
 * Records follow one another: a byte of kind, four bytes of payload size, the payload. Numbers are in the machine's own
 * order: both ends run on the same machine and come from the same build, which the first record proves.
 *
 * A struct that the plugin hands over is sent as
 *
 *     byte 0 or 1      0: the plugin passed null, and nothing follows
 *     the struct       as many bytes as this build knows, zero where the plugin knows fewer; a function that is there
 *                      is sent as 1 in place of its address, every other pointer as 0
 *     its strings      in the order of their fields: four bytes of length, the bytes and a NUL, or length NULL_TEXT
 *     its knobs        of an implementation, unless they are too many to be looked at: each like a struct
 */
#ifndef OPDOCK_TRANSCRIPT_FORMAT_H
#define OPDOCK_TRANSCRIPT_FORMAT_H

#include <stdint.h>

enum {
    OPDOCK_TRANSCRIPT_VERSION = 3,

    /* Kinds of records, in the order in which they may come. */
    OPDOCK_RECORD_HELLO = 1,       /* opdock_transcript_hello */
    OPDOCK_RECORD_OPEN_FAILED = 2, /* text: the dynamic loader's words; nothing follows */
    OPDOCK_RECORD_OPENED = 3,      /* constructors have run */
    OPDOCK_RECORD_NO_ENTRY = 4,    /* nothing follows */
    /* What the entry calls, in its order. */
    OPDOCK_RECORD_VENDOR = 5,
    OPDOCK_RECORD_DEVICE = 6,
    OPDOCK_RECORD_OP = 7,
    OPDOCK_RECORD_IMPL = 8,
    OPDOCK_RECORD_SHUTDOWN = 9,   /* a byte: whether there is a function */
    OPDOCK_RECORD_FAIL = 10,      /* text or, for null, nothing: registry->fail */
    OPDOCK_RECORD_HOST_FAIL = 11, /* the same for host->fail */
    OPDOCK_RECORD_RETURNED = 12,  /* int32_t: the entry's status */
    OPDOCK_RECORD_CHANGED = 13,   /* text: something of the process that is not as it was */
    OPDOCK_RECORD_LIBRARY = 14,   /* opdock_transcript_library, and the path as text: came with the plugin */
    OPDOCK_RECORD_END = 15,

    /* One more than a host keeps, so that it sees that there were too many. */
    OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS = 65537,
    /* One more than the longest text a host takes. */
    OPDOCK_TRANSCRIPT_LONGEST_TEXT = 4097,
    /* Libraries that are told of. No plugin needs more; a probe does not send them. */
    OPDOCK_TRANSCRIPT_MOST_LIBRARIES = 1024
};

#define OPDOCK_TRANSCRIPT_NULL_TEXT UINT32_MAX

/* Where the probe finds its ends. */
#define OPDOCK_PROBE_CHANNEL 3          /* the transcript is written here */
#define OPDOCK_PROBE_DIRECTORY 4        /* the plugin's folder */
#define OPDOCK_PROBE_STATUS 5           /* how the process with the plugin ended, as waitpid has it: an int; or this: */
#define OPDOCK_PROBE_UNCONFINED 0x10000 /* no process of waitpid's ends so: nothing was tried */

/* Has the probe ask the command of a vendor for its device instead. It ends as that ends; by these where there is none,
 * as shells and env(1) say it. */
#define OPDOCK_PROBE_QUERY "--query-device"
#define OPDOCK_PROBE_NO_PROGRAM 125
#define OPDOCK_PROBE_CANNOT_RUN 126
#define OPDOCK_PROBE_NOT_FOUND 127

/* A probe of another build differs in one of these. */
typedef struct opdock_transcript_hello {
    uint32_t version;
    uint32_t vendor_size;
    uint32_t device_size;
    uint32_t op_size;
    uint32_t impl_size;
    uint32_t knob_size;
} opdock_transcript_hello;

/* The file of a library, as stat tells of it; times in nanoseconds since the epoch. */
typedef struct opdock_transcript_library {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified;
    int64_t changed;
} opdock_transcript_library;

#endif
