/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: ends the program when an assertion fails, because continuing could corrupt data. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "holdfast: impossible state at %s:%d: %s\n", file, line, condition);
    abort();
}
