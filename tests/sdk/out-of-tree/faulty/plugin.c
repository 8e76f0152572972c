#include "opdock/plugin.h"

#ifndef NO_NOTE
OPDOCK_NOTE("faulty", "1.0.0", "faulty", "cpu", "")
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

#ifdef NO_ENTRY
opdock_status opdock_register(opdock_registry *registry);
#else
OPDOCK_ENTRY
#endif
opdock_status opdock_register(opdock_registry *registry) {
    (void)registry;
#ifdef UNDEFINED
    return nobody_defines_this();
#else
    return OPDOCK_OK;
#endif
}
