/* The end of the channel to the host: records, buffered, so that thousands of registrations cost few writes. */
#ifndef OPDOCK_PROBE_CHANNEL_H
#define OPDOCK_PROBE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

/* From here on the channel is this process's, which is tried: a copy that the plugin makes of it tells nothing. */
void keep_channel(void);

/* Ends the process when the host is gone or memory runs out: there is nobody to tell. */
void begin_record(uint8_t kind);
void add_bytes(const void *bytes, size_t size);
void add_u8(uint8_t value);
void add_u32(uint32_t value);
/* With its length; a null one too. As much as a host looks at. */
void add_text(const char *text);
void end_record(void);

/* A record of nothing but text. */
void send_text(uint8_t kind, const char *text);

/* Everything said so far reaches the host, whatever happens to this process next. */
void flush_channel(void);

#endif
