#include "opdock/plugin.h"

OPDOCK_NOTE("second", "1.0.0", "faulty", "cpu", "")
