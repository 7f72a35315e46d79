/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: names, finds and counts faults, and applies the limits of --without and
 * --faults-max. */
#include "sim/faults/fault.h"

#include "base/check.h"

_Static_assert(FAULT_COUNT <= 64, "each fault has a bit");

struct row {
    const char *name;
    const char *count;
    const char *story;
};

static const struct row *row_of(enum fault fault)
{
#define FAULT_ROW_(fault, name, count, one) { name, count, one },
    static const struct row rows[] = { NET_FAULT_TABLE(FAULT_ROW_) CHAOS_TABLE(FAULT_ROW_) };
#undef FAULT_ROW_
    check(fault < FAULT_COUNT);
    return &rows[fault];
}

const char *fault_name(enum fault fault)
{
    return row_of(fault)->name;
}

const char *fault_count_text(enum fault fault)
{
    return row_of(fault)->count;
}

const char *fault_story(enum fault fault)
{
    return row_of(fault)->story;
}

bool fault_find(struct view name, enum fault *ret_fault)
{
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (name.size > 0 && view_equal(name, view_of(fault_name((enum fault)i)))) {
            *ret_fault = (enum fault)i;
            return true;
        }
    return false;
}

bool fault_happens(struct faults *faults, enum fault fault)
{
    check(fault < FAULT_COUNT);
    if (faults->limits.without >> fault & 1 || faults->happened >= faults->limits.max)
        return false;
    faults->happened++;
    faults->counts[fault]++;
    return true;
}

void fault_follows(struct faults *faults, enum fault fault)
{
    check(fault < FAULT_COUNT && !*fault_name(fault));
    faults->counts[fault]++;
}
