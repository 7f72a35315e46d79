/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h: includes all mutants, which a simulator with mutants runs inside the library when a rule
 * is broken (src/base/mutant.h). There is one header per folder of src. */
#ifndef SIM_MUTANTS_HOOKS_H
#define SIM_MUTANTS_HOOKS_H

#include "sim/mutants/base.h"
#include "sim/mutants/compact.h"
#include "sim/mutants/doc.h"
#include "sim/mutants/index.h"
#include "sim/mutants/key.h"
#include "sim/mutants/lease.h"
#include "sim/mutants/lock.h"
#include "sim/mutants/serve.h"

#endif
