/* guard_process.h: the guard's side. */
#ifndef CLI_GUARD_PROCESS_H
#define CLI_GUARD_PROCESS_H

#include "cli/guard.h"

/* The life of the guard, until nothing is left that it is there for. */
_Noreturn void guard_process(struct env *env, int socket, const struct guard_command *command);

#endif
