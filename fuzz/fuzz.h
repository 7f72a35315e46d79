/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: the interface of a fuzzer: one function that takes arbitrary bytes and aborts, by
 * check or by a sanitizer, if a promise is broken. libFuzzer calls it, and so does replay.c. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
