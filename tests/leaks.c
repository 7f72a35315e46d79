/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.c: skips the leak check at the end of a test program that cannot have a leak.
 *
 * On arm64 LeakSanitizer scans a table of the whole address space, which takes three to four
 * seconds however little was allocated. So it runs only if there may be something to find: if
 * more bytes are allocated at the end than if the program had ended at once.
 *
 * Memory that stays allocated by design must not count. Libraries for stores on the network and for
 * compression are loaded first. Memory that the C library caches (stacks of ended threads, time
 * zones, the environment) is freed on request, both at the end and in the child that ends at
 * once. */
#include "base/check.h"
#include "base/sanitizer.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#if WITH_ASAN

/* Of the sanitizer's runtime, whose headers not every compiler brings along. */
size_t __sanitizer_get_current_allocated_bytes(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

/* Of the C library, for programs like this one. */
void __libc_freeres(void);

/* Of src/store/remote, where the program has that. */
__attribute__((weak)) bool crypto_load(void);
__attribute__((weak)) bool xml_load(void);
__attribute__((weak)) int curl_global_init(long flags);
__attribute__((weak)) void curl_global_cleanup(void);

/* Of src/merge, where the program has that: each call loads its library. */
__attribute__((weak)) const char *zError(int status);
__attribute__((weak)) unsigned ZSTD_isError(size_t result);

static size_t bytes_at_start;
static bool ended;

/* Whatever is allocated on the way and stays reachable would count: output is buffered in place. */
static char output_buffer[BUFSIZ];

static void load_libraries(void)
{
    if (crypto_load)
        crypto_load();
    if (xml_load)
        xml_load();
    if (curl_global_init && curl_global_init(0) == 0)
        curl_global_cleanup();
    if (zError)
        zError(0);
    if (ZSTD_isError)
        ZSTD_isError(0);
}

static size_t bytes_left_at_end(void)
{
    __libc_freeres();
    return __sanitizer_get_current_allocated_bytes();
}

static size_t bytes_left_by_a_child(void)
{
    int ends[2];
    size_t bytes = 0;
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        bytes = bytes_left_at_end();
        _exit(write(ends[1], &bytes, sizeof bytes) != sizeof bytes);
    }
    check(read(ends[0], &bytes, sizeof bytes) == sizeof bytes);
    check(waitpid(child, NULL, 0) == child);
    close(ends[0]);
    close(ends[1]);
    return bytes;
}

__attribute__((constructor)) static void note_start(void)
{
    setvbuf(stdout, output_buffer, _IOLBF, sizeof output_buffer);
    load_libraries();
    bytes_at_start = bytes_left_by_a_child();
}

/* The sanitizer looks for leaks after this. */
__attribute__((destructor)) static void note_end(void)
{
    fflush(NULL);
    ended = true;
}

int __lsan_is_turned_off(void)
{
    return ended && bytes_left_at_end() <= bytes_at_start;
}

#endif
