#include "opdock/plugin.h"

#ifdef BAD_ID
#define ID "Faulty Plugin"
#else
#define ID "faulty"
#endif
#ifdef NO_VENDOR
#define VENDOR ""
#else
#define VENDOR "faulty"
#endif
#ifdef TAB_IN_VERSION
#define VERSION "1.0.0\t"
#else
#define VERSION "1.0.0"
#endif
#ifdef BLANK_IN_DEVICES
#define DEVICES "cpu, cuda"
#else
#define DEVICES "cpu"
#endif

#ifndef NO_NOTE
OPDOCK_NOTE(ID, VERSION, VENDOR, DEVICES, "")
#endif

#ifdef UNDEFINED
int nobody_defines_this(void);
#endif

#ifdef EXPORTS_MORE
int a_second_symbol(void);
int a_second_symbol(void) {
    return 1;
}
#endif

#ifdef ENTRY_WITHOUT_REGISTRY
OPDOCK_ENTRY int opdock_register(void) {
    return 0;
}
#elif !defined NO_ENTRY
OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    (void)registry;
#ifdef UNDEFINED
    return nobody_defines_this();
#else
    return OPDOCK_OK;
#endif
}
#endif
