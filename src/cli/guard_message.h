/* guard_message.h: what holdfast and its guard say to each other: orders one way, reports the
 * other, each one packet. Pure. Both ends are of one program, so a packet is the bytes of a
 * structure; what arrives is looked at all the same, since nothing else stands between a broken
 * packet and a signal that is sent. */
#ifndef CLI_GUARD_MESSAGE_H
#define CLI_GUARD_MESSAGE_H

#include "cli/guard.h"

#include <stddef.h>

enum order_kind { ORDER_GO, ORDER_MOVE, ORDER_SIGNAL, ORDER_END, ORDER_COUNT };

/* Room for "NAME=value", each with its NUL: token, lease, store. */
#define VARIABLES_BYTES_MAX 4096

/* One packet. What stands behind the last variable is not sent. */
struct order {
    enum order_kind kind;
    int number;               /* of a signal */
    struct guard_times times; /* of GO and MOVE; of END only the grace counts */
    char variables[VARIABLES_BYTES_MAX];
};

/* The bytes of a packet whose variables take so many. */
static inline size_t order_size(size_t variables_size)
{
    return offsetof(struct order, variables) + variables_size;
}

/* Writes the variables into the order; returns how many bytes they take. */
size_t order_set_variables(struct order *order, const struct guard_variable *variables,
                           size_t count);

/* Whether `size` bytes that were received into *order are one: of a known kind, whole, with times
 * that can be counted with and a signal that there is; each variable is "NAME=value" and ends. */
bool order_check(const struct order *order, size_t size, size_t *ret_variables_size);

/* The value of a variable ("NAME=") among these, or NULL. */
const char *order_variable(const char *variables, size_t size, const char *name);

/* Whether `size` bytes that were received into *report are one that a living guard sends. */
bool report_check(const struct guard_report *report, size_t size);

#endif
