/* SPDX-License-Identifier: Apache-2.0 */
/* rule.c: the rule that a simulator with mutants has broken. Not part of the library. */
#include "base/rule.h"

enum rule rule_broken = RULE_COUNT;
