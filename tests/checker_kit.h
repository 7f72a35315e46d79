/* SPDX-License-Identifier: Apache-2.0 */
/* checker_kit.h: tests a checker of the simulator with histories written by hand: objects appear
 * and disappear, and no program runs. The checker must accept correct histories and report each
 * fault.
 *
 *     static void begin(struct history *history)
 *     {
 *         history->checker = checker_door_new(&history->run);
 *     }
 *     static void end(struct history *history)
 *     {
 *         checker_door_free(history->checker);
 *     }
 *     static const struct court court = { begin, end };
 *
 *     static void opened_twice(struct history *history) ...
 *
 *     TELL(&court, { opened_twice, "is opened twice" }, { opened_once, NULL }); */
#ifndef TESTS_CHECKER_KIT_H
#define TESTS_CHECKER_KIT_H

#include "base/arena.h"
#include "sim/run.h"
#include "test.h"

/* Each history has its own world. */
struct history {
    struct run run;
    struct node *node;  /* node 1, which is down */
    void *checker;      /* created by the court */
    struct arena arena; /* for texts */
};

/* How a checker is created and freed. */
struct court {
    void (*begin)(struct history *history);
    void (*end)(struct history *history);
};

struct story {
    void (*tell)(struct history *history);
    const char *words; /* contained in the report; NULL: no fault is reported */
};

void tell_all(const struct court *court, const struct story *stories, size_t count);

#define TELL(court, ...)                                               \
    do {                                                               \
        static const struct story stories_[] = { __VA_ARGS__ };        \
        tell_all(court, stories_, sizeof stories_ / sizeof *stories_); \
    } while (0)

/* An object appears or disappears, without a request. */
void history_put(struct history *history, const char *key, const char *text);
void take(struct history *history, const char *key);

/* Lets time pass. */
void history_pass(struct history *history, struct span span);

/* A text that lives as long as the history. */
__attribute__((format(printf, 2, 3))) const char *text(struct history *history,
                                                       const char *format, ...);

#endif
