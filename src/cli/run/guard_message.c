/* SPDX-License-Identifier: Apache-2.0 */
/* guard_message.c: encodes and checks the packets between holdfast and its guard. A broken packet
 * must never make the guard send a signal. */
#include "cli/run/guard_message.h"

#include "base/check.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>

static_assert(GUARD_VARIABLES_MAX * sizeof "HOLDFAST_STORE=" + sizeof "18446744073709551615" +
                      HF_LEASE_TEXT_MAX + URL_BYTES_MAX + 1 <
                  VARIABLES_BYTES_MAX,
              "token, lease and store fit into an order");

size_t order_set_variables(struct order *order, const struct guard_variable *variables,
                           size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size_t room = sizeof order->variables - size;
        int needed = snprintf(order->variables + size, room, "%s=%s", variables[i].name,
                              variables[i].value);
        check(needed >= 0 && (size_t)needed < room);
        size += (size_t)needed + 1;
    }
    return size;
}

/* Whether every variable is a NUL-terminated "NAME=value". */
static bool variables_check(const char *text, size_t size)
{
    const char *limit = text + size;
    while (text < limit) {
        const char *end = memchr(text, '\0', (size_t)(limit - text));
        const char *name_end = memchr(text, '=', (size_t)(limit - text));
        if (!end || !name_end || name_end == text || name_end > end)
            return false;
        text = end + 1;
    }
    return true;
}

/* Within these bounds, sums and differences do not overflow. */
static bool moment_check(struct mono_time moment)
{
    return moment.us >= -MOMENT_FAR && moment.us <= MOMENT_FAR;
}

static bool times_check(const struct guard_times *times)
{
    return moment_check(times->term_at) && moment_check(times->kill_at) &&
           times->grace.us >= 0 && times->grace.us <= MOMENT_FAR;
}

bool order_check(const struct order *order, size_t size, size_t *ret_variables_size)
{
    if (size < order_size(0) || size > sizeof *order)
        return false;
    size_t variables_size = size - order_size(0);
    if ((unsigned)order->kind >= ORDER_COUNT || !times_check(&order->times) ||
        (order->kind != ORDER_GO && variables_size > 0) ||
        (order->kind == ORDER_SIGNAL && (order->number < 1 || order->number >= NSIG)) ||
        !variables_check(order->variables, variables_size))
        return false;
    *ret_variables_size = variables_size;
    return true;
}

const char *order_variable(const char *variables, size_t size, const char *name)
{
    const char *end = variables + size;
    for (const char *text = variables; text < end; text += strlen(text) + 1)
        if (strncmp(text, name, strlen(name)) == 0)
            return text + strlen(name);
    return NULL;
}

bool report_check(const struct guard_report *report, size_t size)
{
    return size == sizeof *report && (unsigned)report->kind < GUARD_DEAD;
}
