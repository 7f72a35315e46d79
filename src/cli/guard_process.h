/* guard_process.h: what holdfast and its guard say to each other, and the guard's side. */
#ifndef CLI_GUARD_PROCESS_H
#define CLI_GUARD_PROCESS_H

#include "cli/guard.h"

enum order_kind { ORDER_GO, ORDER_MOVE, ORDER_SIGNAL, ORDER_END };

/* Room for "NAME=value", each with its NUL: token, lease, store. */
#define VARIABLES_BYTES_MAX 4096

/* One packet. What stands behind the last variable is not sent. */
struct order {
    enum order_kind kind;
    int number;               /* of a signal */
    struct guard_times times; /* of GO and MOVE; of END only the grace counts */
    char variables[VARIABLES_BYTES_MAX];
};

/* The life of the guard, until nothing is left that it is there for. */
_Noreturn void guard_process(struct env *env, int socket, const struct guard_command *command);

#endif
