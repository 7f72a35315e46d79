/* interrupt.h: Ctrl-C and its kin (INT, TERM, HUP). The first sets a flag that long work looks
 * at; the second ends the program at once. Either way nothing temporary stays behind, and the
 * program dies of the signal, so that its parent sees the truth. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "base/error.h"

#include <stdbool.h>

void interrupt_watch(void);

bool interrupted(void);

/* CANCELLED once a signal has come, else OK. */
enum hf_status interrupt_check(struct hf_error *error);

/* Names the one file that the second signal removes on its way out; NULL: none any more. The
 * text must live until then. */
void interrupt_removes(const char *path);

/* Ends the program by the signal that came, or by `otherwise` when none did. */
_Noreturn void interrupt_die(int otherwise);

#endif
