/* SPDX-License-Identifier: Apache-2.0 */
/* guard_message.h: the messages between holdfast and its guard: orders to the guard and reports
 * from it, one packet each. All functions are pure. Both ends are the same program, so a packet
 * consists of the bytes of a struct. Each packet is nevertheless checked on arrival, because a
 * broken packet could make the guard signal the wrong process. */
#ifndef CLI_RUN_GUARD_MESSAGE_H
#define CLI_RUN_GUARD_MESSAGE_H

#include "cli/run/guard.h"

#include <stddef.h>

enum order_kind { ORDER_GO, ORDER_MOVE, ORDER_SIGNAL, ORDER_END, ORDER_COUNT };

/* Room for the NUL-terminated variables "NAME=value": token, lease and store. */
#define VARIABLES_BYTES_MAX 4096

/* One packet. The bytes after the last variable are not sent. */
struct order {
    enum order_kind kind;
    int number;               /* the signal number, for SIGNAL */
    struct guard_times times; /* for GO and MOVE; END uses only the grace */
    char variables[VARIABLES_BYTES_MAX];
};

/* The size of a packet whose variables take `variables_size` bytes. */
static inline size_t order_size(size_t variables_size)
{
    return offsetof(struct order, variables) + variables_size;
}

/* Writes the variables into the order, and returns their size in bytes. */
size_t order_set_variables(struct order *order, const struct guard_variable *variables,
                           size_t count);

/* Whether the `size` bytes received into *order are a valid order: complete, of a known kind, with
 * times in range and an existing signal. Each variable must be a NUL-terminated "NAME=value". */
bool order_check(const struct order *order, size_t size, size_t *ret_variables_size);

/* The value of the variable `name` (written "NAME=") in `variables`, or NULL. */
const char *order_variable(const char *variables, size_t size, const char *name);

/* Whether the `size` bytes received into *report are a report that a living guard sends. */
bool report_check(const struct guard_report *report, size_t size);

#endif
