/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_guard_message.c: parses arbitrary bytes as an order to the guard of `holdfast run`, and
 * as its report. An accepted message must have a known kind, valid times, an existing signal,
 * and variables that have a name and end within the packet; it must be written again as the
 * same. */
#include "base/check.h"
#include "cli/run/guard_message.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX (VARIABLES_BYTES_MAX / 3) /* the shortest is "A=" and its NUL */

/* Cuts them apart where the command will find them, and puts them together again. */
static void variables_hold(const struct order *order, size_t size)
{
    static struct guard_variable variables[VARIABLES_MAX];
    static char parts[VARIABLES_BYTES_MAX];
    static struct order again;
    size_t count = 0;
    memcpy(parts, order->variables, size);
    for (size_t at = 0; at < size; count++) {
        check(count < VARIABLES_MAX);
        size_t length = strnlen(parts + at, size - at);
        check(length < size - at);
        char *mark = strchr(parts + at, '=');
        check(mark && mark > parts + at);
        *mark = '\0';
        variables[count] = (struct guard_variable){ parts + at, mark + 1 };
        at += length + 1;
    }
    check(order_set_variables(&again, variables, count) == size);
    check(memcmp(again.variables, order->variables, size) == 0);
}

static void order_holds(const struct order *order, size_t size, size_t variables_size)
{
    const struct mono_time now = { INT64_C(1) << 40 };
    check(order_size(variables_size) == size);
    check(order->kind == ORDER_GO || variables_size == 0);
    check(order->kind != ORDER_SIGNAL || (order->number > 0 && order->number < NSIG));
    check(mono_since(order->times.term_at, now).us < MOMENT_FAR);
    check(mono_since(now, order->times.kill_at).us > -MOMENT_FAR);
    check(!mono_before(mono_add(now, order->times.grace), now));
    variables_hold(order, variables_size);
    const char *lease = order_variable(order->variables, variables_size, "HOLDFAST_LEASE=");
    check(!lease || (lease > order->variables && lease < order->variables + variables_size));
}

/* In a block of exactly its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t variables_size;
    struct guard_report report;
    if (size == 0)
        return 0;
    struct order *order = malloc(size);
    check(order != NULL);
    memcpy(order, data, size);
    if (order_check(order, size, &variables_size))
        order_holds(order, size, variables_size);
    free(order);
    memcpy(&report, data, size < sizeof report ? size : sizeof report);
    if (report_check(&report, size))
        check(report.kind >= GUARD_STARTED && report.kind <= GUARD_NOTHING_LEFT);
    return 0;
}
