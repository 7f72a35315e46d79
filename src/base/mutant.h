/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h: a rule that is broken by doing something else, not by leaving a check out.
 *
 *     MUTANT(mutant_retries_blindly(doc->store, &put, &status));
 *
 * The product code is correct and has no extra branch: the call is compiled only into a simulator
 * that was configured with -Dmutants=true. sim/mutants contains the functions, and says what each
 * does wrong. */
#ifndef BASE_MUTANT_H
#define BASE_MUTANT_H

#ifdef HOLDFAST_MUTANTS
#include "sim/mutants/hooks.h"
#define MUTANT(call) (call)
#else
#define MUTANT(call) ((void)0)
#endif

#endif
