/* interrupt.h: Ctrl-C and its kin (INT, TERM, HUP). The first sets a flag that long work looks
 * at; the second ends the program at once. Either way nothing temporary stays behind, and the
 * program dies of the signal, so that its parent sees the truth.
 *
 * Ctrl-C is answered within a second: when the program is still there then, since a store does not
 * answer, say, it ends as by a second one. A command that has more to do in the end than that
 * (interrupt_in_order) only says so, and goes on. TERM is from machines, which are patient. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "base/error.h"
#include "base/moment.h"

#include <stdbool.h>
#include <stddef.h>

void interrupt_watch(void);

bool interrupted(void);

/* This command has more to do in the end than a second allows. `text`, which may be NULL, says
 * so. */
void interrupt_in_order(const char *text);

/* How long we try to end by ourselves. */
#define INTERRUPT_PATIENCE SPAN_MS(800)

/* CANCELLED once a signal has come, else OK. */
enum hf_status interrupt_check(struct hf_error *error);

/* Names the files that the second signal removes on its way out, or a folder, last, if it is empty
 * then; NULL: none any more. The text must live until then. */
#define INTERRUPT_PATHS 3
void interrupt_removes(size_t which, const char *path);

/* The same as a callback of struct file_watch and struct merge_progress. */
void interrupt_removes_file(void *context, int which, const char *path);

/* The same for what the second signal writes to stdout, to give a terminal back as it was. */
void interrupt_writes(const char *text);

/* Ends the program by the signal that came, or by `otherwise` when none did. */
_Noreturn void interrupt_die(int otherwise);

/* Ends the program by this signal, whatever came, and without a core of its own: as a command
 * ended that we ran for somebody. */
_Noreturn void interrupt_die_as(int number);

/* Gives all signals the meaning back that they had before interrupt_watch: for a process that
 * is about to become another program. */
void interrupt_unwatch(void);

#endif
