/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.c: breaks one named rule of src/base/rule.h for the whole run. Only a build with
 * -Dmutants=true can do this. */
#include "sim/mutants/mutant.h"

#include "base/rule.h"

struct mutant {
    const char *name;
    const char *workload;
    const char *wrong;
};

static const struct mutant mutants[] = {
#define MUTANT_(name, workload, wrong) { #name, workload, wrong },
    RULE_TABLE(MUTANT_)
#undef MUTANT_
};

#ifdef HOLDFAST_MUTANTS
bool mutant_make(struct view name)
{
    for (unsigned i = 0; i < RULE_COUNT; i++)
        if (view_equal(view_of(mutants[i].name), name)) {
            rule_broken = (enum rule)i;
            return true;
        }
    return false;
}

const char *mutant_name(void)
{
    return rule_broken < RULE_COUNT ? mutants[rule_broken].name : NULL;
}
#else
bool mutant_make(struct view name)
{
    (void)name;
    return false;
}

const char *mutant_name(void)
{
    return NULL;
}
#endif

void mutant_list(FILE *out)
{
    for (unsigned i = 0; i < RULE_COUNT; i++)
        fprintf(out, "%s\t%s\t%s\n", mutants[i].name, mutants[i].workload, mutants[i].wrong);
}
