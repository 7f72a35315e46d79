/* SPDX-License-Identifier: Apache-2.0 */
/* base.c: the mutants of src/base. */
#include "sim/mutants/base.h"

#include "base/rule.h"

void mutant_shortens_grace(struct span *span)
{
    if (!RULE(GRACE_IS_PROVEN))
        span->us /= 10;
}
