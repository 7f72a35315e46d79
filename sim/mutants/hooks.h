/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h: what a simulator with mutants does in the middle of the library, when a rule is broken
 * (src/base/mutant.h). One header per folder of src. */
#ifndef SIM_MUTANTS_HOOKS_H
#define SIM_MUTANTS_HOOKS_H

#include "sim/mutants/base.h"
#include "sim/mutants/compact.h"
#include "sim/mutants/doc.h"
#include "sim/mutants/index.h"
#include "sim/mutants/key.h"
#include "sim/mutants/lease.h"
#include "sim/mutants/lock.h"

#endif
