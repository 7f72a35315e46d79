/* judge_kit.h: stories that are told to a judge of the simulator: objects that come and go by hand,
 * with no program at work. Each must be judged as it deserves.
 *
 *     static void begin(struct history *history)
 *     {
 *         history->judge = judge_door_new(&history->run);
 *     }
 *     static void end(struct history *history)
 *     {
 *         judge_door_free(history->judge);
 *     }
 *     static const struct court court = { begin, end };
 *
 *     static void opened_twice(struct history *history) ...
 *
 *     TELL(&court, { opened_twice, "is opened twice" }, { opened_once, NULL });
 */
#ifndef JUDGE_KIT_H
#define JUDGE_KIT_H

#include "base/arena.h"
#include "sim/run.h"
#include "test.h"

/* A world of its own for each story. */
struct history {
    struct run run;
    struct node *node;  /* node 1, which is down; for what judges are told */
    void *judge;        /* as the court has made it */
    struct arena arena; /* of the texts that are made on the way */
};

/* How a judge comes and goes. */
struct court {
    void (*begin)(struct history *history);
    void (*end)(struct history *history);
};

struct story {
    void (*tell)(struct history *history);
    const char *words; /* what the judge says has them; NULL: all is well */
};

void tell_all(const struct court *court, const struct story *stories, size_t count);

#define TELL(court, ...)                                               \
    do {                                                               \
        static const struct story stories_[] = { __VA_ARGS__ };        \
        tell_all(court, stories_, sizeof stories_ / sizeof *stories_); \
    } while (0)

/* An object comes, or goes, by nobody's request. */
void history_put(struct history *history, const char *key, const char *text);
void take(struct history *history, const char *key);

/* Lets time pass. */
void history_pass(struct history *history, struct span span);

/* A text, which lasts as long as the history. */
__attribute__((format(printf, 2, 3))) const char *text(struct history *history,
                                                       const char *format, ...);

#endif
