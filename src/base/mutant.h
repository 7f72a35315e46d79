/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h: breaks a rule by doing something wrong, not by omitting a check.
 *
 *     MUTANT(mutant_retries_blindly(doc->store, &put, &status));
 *
 * The product code is correct and has no extra branch: the call is compiled only into a simulator
 * that was configured with -Dmutants=true. sim/mutants contains these functions, and describes what
 * each of them does wrong. */
#ifndef BASE_MUTANT_H
#define BASE_MUTANT_H

#ifdef HOLDFAST_MUTANTS
#include "sim/mutants/hooks.h"
#define MUTANT(call) (call)
#else
#define MUTANT(call) ((void)0)
#endif

#endif
