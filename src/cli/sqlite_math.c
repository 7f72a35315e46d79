/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_math.c: takes the place of libm in the program, which contains SQLite
 * (docs/decisions/0019). SQLite offers these functions in SQL, but no statement of ours calls one,
 * and libm would make each start of the program slower. A call is a mistake. */
#include "base/check.h"

#define NEVER_CALLED_1(name) \
    double name(double x);   \
    double name(double x)    \
    {                        \
        (void)x;             \
        check_unreachable(); \
    }
#define NEVER_CALLED_2(name)         \
    double name(double x, double y); \
    double name(double x, double y)  \
    {                                \
        (void)x;                     \
        (void)y;                     \
        check_unreachable();         \
    }

NEVER_CALLED_1(acos)
NEVER_CALLED_1(acosh)
NEVER_CALLED_1(asin)
NEVER_CALLED_1(asinh)
NEVER_CALLED_1(atan)
NEVER_CALLED_1(atanh)
NEVER_CALLED_1(ceil)
NEVER_CALLED_1(cos)
NEVER_CALLED_1(cosh)
NEVER_CALLED_1(exp)
NEVER_CALLED_1(floor)
NEVER_CALLED_1(log)
NEVER_CALLED_1(log10)
NEVER_CALLED_1(log2)
NEVER_CALLED_1(sin)
NEVER_CALLED_1(sinh)
NEVER_CALLED_1(sqrt)
NEVER_CALLED_1(tan)
NEVER_CALLED_1(tanh)
NEVER_CALLED_1(trunc)
NEVER_CALLED_2(atan2)
NEVER_CALLED_2(fmod)
NEVER_CALLED_2(pow)
