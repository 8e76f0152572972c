#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/transcript_format.h"

static pid_t owner; /* 0: any process may write */
static unsigned char *buffer;
static size_t used;
static size_t room;
static size_t record; /* start of the current record */

static void reserve(size_t size) {
    if (room - used >= size) {
        return;
    }
    while (room - used < size) {
        room = room == 0 ? 65536 : 2 * room;
    }
    buffer = realloc(buffer, room);
    if (buffer == NULL) {
        abort();
    }
}

void add_bytes(const void *bytes, size_t size) {
    reserve(size);
    memcpy(buffer + used, bytes, size);
    used += size;
}

void add_u8(uint8_t value) {
    add_bytes(&value, sizeof value);
}

void add_u32(uint32_t value) {
    add_bytes(&value, sizeof value);
}

void add_text(const char *text) {
    if (text == NULL) {
        add_u32(OPDOCK_TRANSCRIPT_NULL_TEXT);
        return;
    }
    const size_t length = strnlen(text, OPDOCK_TRANSCRIPT_LONGEST_TEXT);
    add_u32((uint32_t)length);
    add_bytes(text, length);
    add_u8(0);
}

void begin_record(uint8_t kind) {
    record = used;
    add_u8(kind);
    add_u32(0); /* size, filled in by end_record */
}

void end_record(void) {
    const uint32_t size = (uint32_t)(used - record - 5);
    memcpy(buffer + record + 1, &size, sizeof size);
    if (used > 65536) {
        flush_channel();
    }
}

void send_text(uint8_t kind, const char *text) {
    begin_record(kind);
    if (text != NULL) {
        add_bytes(text, strnlen(text, OPDOCK_TRANSCRIPT_LONGEST_TEXT));
    }
    end_record();
}

void keep_channel(void) {
    owner = getpid();
}

void flush_channel(void) {
    size_t sent = 0;
    if (owner != 0 && getpid() != owner) {
        _exit(1); /* a copy made by the plugin; only the end of the tried process counts */
    }
    while (sent < used) {
        const ssize_t wrote = write(OPDOCK_PROBE_CHANNEL, buffer + sent, used - sent);
        if (wrote < 0 && errno != EINTR) {
            _exit(1);
        }
        sent += wrote > 0 ? (size_t)wrote : 0;
    }
    used = 0;
}
