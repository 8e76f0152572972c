/* The probe's end of the channel to the host: records are buffered, so that many registrations need few writes. */
#ifndef OPDOCK_PROBE_CHANNEL_H
#define OPDOCK_PROBE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

/* Reserves the channel for this process, which is on trial: processes that the plugin forks send nothing. */
void keep_channel(void);

/* Ends the process if the host is gone or memory runs out: no error can be reported. */
void begin_record(uint8_t kind);
void add_bytes(const void *bytes, size_t size);
void add_u8(uint8_t value);
void add_u32(uint32_t value);
/* Adds the text with its length; null is allowed. Truncated to the length that a host reads. */
void add_text(const char *text);
void end_record(void);

/* Sends a record that contains only text. */
void send_text(uint8_t kind, const char *text);

/* Sends everything buffered, so that it reaches the host whatever happens to this process next. */
void flush_channel(void);

#endif
