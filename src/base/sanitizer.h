/* SPDX-License-Identifier: Apache-2.0 */
/* sanitizer.h: which sanitizers the code is compiled with, for the simulator and tests. gcc and
 * clang report this in different ways. */
#ifndef BASE_SANITIZER_H
#define BASE_SANITIZER_H

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define WITH_ASAN 1
#else
#define WITH_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define WITH_TSAN 1
#else
#define WITH_TSAN 0
#endif

#endif
