/* mutant.h: the rules of src/base/rule.h, to be broken one at a time. Only a simulator that was
 * configured with -Dmutants=true can. */
#ifndef SIM_MUTANT_H
#define SIM_MUTANT_H

#include "base/view.h"

#include <stdio.h>

/* From now on the rule of this name does not hold. False: there is none, or none can be broken
 * here. */
bool mutant_make(struct view name);

/* The name of the one that is broken; NULL: none. */
const char *mutant_name(void);

/* A line for each: its name, the workload that notices, what it does wrong; with tabs between. */
void mutant_list(FILE *out);

#endif
