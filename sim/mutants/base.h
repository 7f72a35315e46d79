/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: the mutants of src/base: for each rule, what the library does when the rule is broken. */
#ifndef SIM_MUTANTS_BASE_H
#define SIM_MUTANTS_BASE_H

#include "base/moment.h"

/* GRACE_IS_PROVEN: ends a grace period after a tenth of its length. */
void mutant_shortens_grace(struct span *span);

#endif
