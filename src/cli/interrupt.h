/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: the signals INT (Ctrl-C), TERM and HUP. The first signal sets a flag that long work
 * checks; the second ends the program immediately. In both cases temporary files are removed, and
 * the program dies by the signal, so its parent process sees how it ended.
 *
 * Ctrl-C takes effect within a second. If the program is still running then, for example because a
 * store does not answer, it ends as after a second signal. A command that needs longer to finish
 * cleanly (interrupt_in_order) prints a message instead, and continues. TERM has no such limit,
 * because programs that send it wait. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "base/error.h"
#include "base/moment.h"

#include <stdbool.h>
#include <stddef.h>

void interrupt_watch(void);

bool interrupted(void);

/* Declares that this command may need more than a second to end after Ctrl-C. `text`, which may be
 * NULL, is the message that says so. */
void interrupt_in_order(const char *text);

/* How long the program may take to end by itself after Ctrl-C. */
#define INTERRUPT_PATIENCE SPAN_MS(800)

/* CANCELLED after a signal has arrived, else OK. */
enum hf_status interrupt_check(struct hf_error *error);

/* Sets a file that the second signal removes before the program ends. The last of them may be a
 * folder, which is removed if it is empty. NULL unsets it. The text must live until it is unset. */
#define INTERRUPT_PATHS 3
void interrupt_removes(size_t which, const char *path);

/* The same as a callback of struct file_watch and struct merge_progress. */
void interrupt_removes_file(void *context, int which, const char *path);

/* Sets the text that the second signal writes to stdout, to restore the terminal. */
void interrupt_writes(const char *text);

/* Ends the program by the signal that arrived, or by `otherwise` when none has. */
_Noreturn void interrupt_die(int otherwise);

/* Ends the program by this signal, whichever arrived, and without a core dump. This repeats how a
 * command that this program ran has ended. */
_Noreturn void interrupt_die_as(int number);

/* Restores the signal handling from before interrupt_watch. For a process that is about to execute
 * another program. */
void interrupt_unwatch(void);

#endif
