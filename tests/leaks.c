/* leaks.c: leaves out the leak check at the end of a test program that cannot have a leak.
 *
 * On arm64 LeakSanitizer walks a table of the whole address space, which takes three to four
 * seconds however little was allocated. So it is asked only when there is something to find: when
 * more bytes are allocated at the end than were before the program began. */
#include "base/sanitizer.h"

#include <stdio.h>

#if WITH_ASAN

/* Of the sanitizer's runtime, whose headers not every compiler brings along. */
size_t __sanitizer_get_current_allocated_bytes(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

static size_t bytes_at_start;

/* Whatever is allocated on the way and stays reachable would count: output is buffered in place. */
static char output_buffer[BUFSIZ];

__attribute__((constructor)) static void note_start(void)
{
    setvbuf(stdout, output_buffer, _IOLBF, sizeof output_buffer);
    bytes_at_start = __sanitizer_get_current_allocated_bytes();
}

int __lsan_is_turned_off(void)
{
    return __sanitizer_get_current_allocated_bytes() <= bytes_at_start;
}

#endif
