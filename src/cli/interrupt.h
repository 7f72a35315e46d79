/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: the signals INT (Ctrl-C), TERM and HUP. The first signal sets a flag that long work
 * checks; the second ends the program immediately. In both cases, temporary files are removed, and
 * the program is terminated by that signal, so its parent process sees how it ended.
 *
 * Ctrl-C takes effect within a second. If the program is still running after that, for example
 * because a store does not reply, it ends as after a second signal. A command that needs longer to
 * finish cleanly (interrupt_in_order) prints a message instead, and continues. TERM has no such
 * limit, because programs that send it wait. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "base/error.h"
#include "base/moment.h"

#include <stdbool.h>
#include <stddef.h>

void interrupt_watch(void);

bool interrupted(void);

/* Declares that this command may need more than a second to end after Ctrl-C. `text`, which may be
 * NULL, is the message that tells the user so. */
void interrupt_in_order(const char *text);

/* How long the program may take to end on its own after Ctrl-C. */
#define INTERRUPT_PATIENCE SPAN_MS(800)

/* The same signal again within this time counts as one: timeout(1) sends its signal to the program
 * and then to the program's process group, so the program gets it twice. */
#define INTERRUPT_ECHO SPAN_MS(200)

/* CANCELLED after a signal has arrived, otherwise OK. */
enum hf_status interrupt_check(struct hf_error *error);

/* Sets a file that the second signal removes before the program ends. The last path may be a
 * folder, which is removed if it is empty. NULL unsets the path. The string must remain valid until
 * the path is unset. */
#define INTERRUPT_PATHS 3
void interrupt_removes(size_t which, const char *path);

/* The same function, with the signature that the callbacks in struct file_watch and struct
 * merge_progress require. */
void interrupt_removes_file(void *context, int which, const char *path);

/* Sets the text that the second signal writes to stdout, to restore the terminal. */
void interrupt_writes(const char *text);

/* Ends the program with the signal that arrived, or with `otherwise` if no signal has arrived. */
_Noreturn void interrupt_die(int otherwise);

/* Ends the program with this signal, regardless of which signal arrived, and without a core dump.
 * The program thus ends in the same way as the command that it ran. */
_Noreturn void interrupt_die_as(int number);

/* Restores the signal handling from before interrupt_watch. For a process that is about to execute
 * another program. */
void interrupt_unwatch(void);

#endif
