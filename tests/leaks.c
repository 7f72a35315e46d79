/* leaks.c: leaves out the leak check at the end of a test program that cannot have a leak.
 *
 * On arm64 LeakSanitizer walks a table of the whole address space, which takes three to four
 * seconds however little was allocated. So it is asked only when there is something to find: when
 * more bytes are allocated at the end than were before the program began.
 *
 * The C library keeps the stacks of threads that ended for the next ones, up to 40 MiB of them, and
 * some bytes with each. So that many are there before the bytes are counted. */
#include "base/check.h"
#include "base/sanitizer.h"

#include <pthread.h>
#include <stdio.h>

#if WITH_ASAN

/* Of the sanitizer's runtime, whose headers not every compiler brings along. */
size_t __sanitizer_get_current_allocated_bytes(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

/* Of stacks as large as src/env/real.c has them. */
#define THREADS     80
#define STACK_BYTES (512 * 1024)

static size_t bytes_at_start;

/* Whatever is allocated on the way and stays reachable would count: output is buffered in place. */
static char output_buffer[BUFSIZ];

static void *wait_for_all(void *barrier)
{
    pthread_barrier_wait(barrier);
    return NULL;
}

static void warm_stacks(void)
{
    static pthread_barrier_t barrier;
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], &attributes, wait_for_all, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&barrier);
}

__attribute__((constructor)) static void note_start(void)
{
    setvbuf(stdout, output_buffer, _IOLBF, sizeof output_buffer);
    warm_stacks();
    bytes_at_start = __sanitizer_get_current_allocated_bytes();
}

int __lsan_is_turned_off(void)
{
    return __sanitizer_get_current_allocated_bytes() <= bytes_at_start;
}

#endif
