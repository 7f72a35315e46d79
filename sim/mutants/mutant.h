/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h: breaks the rules of src/base/rule.h, one at a time. Only a simulator that was
 * configured with -Dmutants=true can do this. */
#ifndef SIM_MUTANTS_MUTANT_H
#define SIM_MUTANTS_MUTANT_H

#include "base/view.h"

#include <stdio.h>

/* Breaks the rule with this name from now on. Returns false if the rule is unknown, or if this
 * build cannot break rules. */
bool mutant_make(struct view name);

/* The name of the broken rule; NULL if no rule is broken. */
const char *mutant_name(void);

/* Prints one line per rule: its name, the workload that detects the mutant, and the effect,
 * separated by tabs. */
void mutant_list(FILE *out);

#endif
