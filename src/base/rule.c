/* rule.c: only in a simulator with mutants: which rule is broken. */
#include "base/rule.h"

enum rule rule_broken = RULE_COUNT;
