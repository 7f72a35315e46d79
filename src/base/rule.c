/* SPDX-License-Identifier: Apache-2.0 */
/* rule.c: the rule that is currently broken, in a simulator built with mutants. Not part of the
 * library. */
#include "base/rule.h"

enum rule rule_broken = RULE_COUNT;
