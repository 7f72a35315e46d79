/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: assertions that stay enabled in release builds. A state that should be impossible aborts
 * the program. An expected failure is returned as a status, and is never checked this way. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

#define check_unreachable() check_failed("unreachable", __FILE__, __LINE__)

#endif
