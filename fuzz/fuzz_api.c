/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_api.c: makes arbitrary sequences of public calls that a caller may make, on a store in
 * memory, with handles in any state, memory that runs out, and a clock that jumps. Nothing may
 * crash, hang or leak. A failed call must set the status and a sentence in its error, and must
 * not create a handle.
 *
 * With HOLDFAST_FUZZ_TRACE in the environment it prints each call. */
#include "../tests/alloc.h"
#include "api_calls.h"
#include "api_parts.h"
#include "base/check.h"
#include "base/sanitizer.h"
#include "fuzz.h"

#include <stdio.h>

#define STEPS_MAX 64
#define LIVES     6

#if WITH_ASAN
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static size_t allocated_bytes(void)
{
#if WITH_ASAN
    return __sanitizer_get_current_allocated_bytes();
#else
    return 0;
#endif
}

#define CALL_FUNCTION(name, what)              \
    static void step_##name(struct play *play) \
    {                                          \
        (void)play, (void)(what);              \
    }
ALL_CALLS(CALL_FUNCTION)

#define CALL_ROW(name, what) { #name, step_##name },
static const struct {
    const char *name;
    void (*make)(struct play *play);
} calls[] = { ALL_CALLS(CALL_ROW) };
#define CALLS (sizeof calls / sizeof *calls)

/* FNV-1a, folded: api_seeds.py does the same. */
static uint16_t hash_name(const char *name)
{
    uint32_t hash = 2166136261;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619;
    return (uint16_t)(hash >> 16 ^ hash);
}

/* Where each call is on a ring of numbers: at its hash, or behind an earlier one of that hash. */
static uint16_t places[CALLS];

static void place_calls(void)
{
    for (size_t i = 0; i < CALLS; i++) {
        places[i] = hash_name(calls[i].name);
        for (size_t j = 0; j < i; j++)
            if (places[j] == places[i]) {
                places[i]++;
                j = SIZE_MAX; /* from the start again */
            }
    }
}

/* By hash and not by number: an input means the same when calls are added. */
static size_t find_call(const struct step *step)
{
    if (places[0] == places[1])
        place_calls();
    uint16_t wanted = (uint16_t)(step->call[0] << 8 | step->call[1]);
    size_t found = 0;
    for (size_t i = 1; i < CALLS; i++) {
        uint16_t beyond = (uint16_t)(places[i] - wanted);
        if (beyond < (uint16_t)(places[found] - wanted))
            found = i;
    }
    return found;
}

static void play_input(const uint8_t *data, size_t size)
{
    static struct play play;
    size_t steps = size / sizeof(struct step);
    play_begin(&play);
    for (size_t i = 0; i < steps && i < STEPS_MAX; i++) {
        play.step = (const struct step *)data + i;
        size_t call = find_call(play.step);
        if (play.trace)
            fprintf(stderr, "%s%s\n", calls[call].name,
                    play.step->memory >= 0x80 ? ", out of memory" : "");
        if (play.step->memory >= 0x80)
            alloc_fail_after(play.step->memory - 0x80);
        calls[call].make(&play);
        alloc_stop();
    }
    play_end(&play, size % sizeof(struct step) != 0);
}

/* Looking for leaks takes seconds on arm64. So an input is played again when memory was left, since
 * a library may keep some for the next time, and each of its lives must not leave more. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int i = 0; i < LIVES; i++) {
        size_t before = allocated_bytes();
        play_input(data, size);
        if (allocated_bytes() <= before)
            return 0;
    }
    check_failed("nothing is left allocated", __FILE__, __LINE__);
}
