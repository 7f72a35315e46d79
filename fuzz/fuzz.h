/* fuzz.h: what a fuzzer is: one function that takes any bytes and aborts, by check or by a
 * sanitizer, where a promise is broken. libFuzzer calls it, and so does replay.c. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
