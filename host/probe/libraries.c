#include "libraries.h"

#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "channel.h"
#include "probe/transcript_format.h"

/* Objects are listed in load order. */
struct Walk {
    int passed;
    int sent;
    const char *plugin;
};

static int before;

static int count_object(struct dl_phdr_info *object, size_t size, void *data) {
    (void)object;
    (void)size;
    (void)data;
    ++before;
    return 0;
}

void remember_libraries(void) {
    before = 0;
    (void)dl_iterate_phdr(count_object, NULL);
}

static int64_t nanoseconds(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int send_library(struct dl_phdr_info *object, size_t size, void *data) {
    struct Walk *walk = data;
    opdock_transcript_library library;
    struct stat status;
    (void)size;
    /* A relative path has another meaning in the host. */
    if (walk->passed++ < before || object->dlpi_name[0] != '/' || strcmp(object->dlpi_name, walk->plugin) == 0 ||
        stat(object->dlpi_name, &status) != 0) {
        return 0;
    }
    library.device = status.st_dev;
    library.inode = status.st_ino;
    library.size = (uint64_t)status.st_size;
    library.modified = nanoseconds(status.st_mtim);
    library.changed = nanoseconds(status.st_ctim);
    begin_record(OPDOCK_RECORD_LIBRARY);
    add_bytes(&library, sizeof library);
    add_bytes(object->dlpi_name, strnlen(object->dlpi_name, OPDOCK_TRANSCRIPT_LONGEST_TEXT));
    end_record();
    return ++walk->sent == OPDOCK_TRANSCRIPT_MOST_LIBRARIES;
}

void send_libraries(const char *plugin) {
    struct Walk walk = {0, 0, plugin};
    (void)dl_iterate_phdr(send_library, &walk);
}
