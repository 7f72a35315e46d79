/* lock.h: what the commands about locks share. Their rows stand in lock.c; lock_hold.c takes,
 * renews and releases, locks.c looks and breaks, locks_watch.c looks on, fenced.c moves objects
 * that are guarded by a lock, clock.c and store_restored.c are what their commands are called.
 * */
#ifndef CLI_LOCK_H
#define CLI_LOCK_H

#include "base/parse.h"
#include "cli/cli.h"

enum hf_status run_acquire(struct cli *cli);
enum hf_status run_renew(struct cli *cli);
enum hf_status run_release(struct cli *cli);
enum hf_status run_locks_ls(struct cli *cli);
enum hf_status run_locks_show(struct cli *cli);
enum hf_status run_locks_break(struct cli *cli);
enum hf_status run_locks_watch(struct cli *cli);
enum hf_status run_write(struct cli *cli);
enum hf_status run_read(struct cli *cli);
enum hf_status run_store_restored(struct cli *cli);
enum hf_status run_store_repair_epoch(struct cli *cli);
enum hf_status run_clock(struct cli *cli);

/* ---- Rows of several commands -------------------------------------------------------- */

#define NS_OPTION                                                                             \
    {                                                                                         \
        .name = "ns", .type = OPTION_TEXT, .value = "NAME", .completion = COMPLETE_NAMESPACE, \
        .summary = "the namespace of the lock; 'default' if left out"                         \
    }
#define TTL_OPTION                                                \
    {                                                             \
        .name = "ttl", .type = OPTION_SPAN, .value = "SPAN",      \
        .summary = "for how long a grant counts; 30s if left out" \
    }
#define MAX_TTL_OPTION                                                                       \
    {                                                                                        \
        .name = "max-ttl", .type = OPTION_SPAN, .value = "SPAN",                             \
        .summary = "let leases of this lock have a ttl of up to this, at most 1d, from now " \
                   "on (default: 1h); use the same in the whole namespace"                   \
    }
#define ONCE_PER_OPTIONS(what)                                                         \
    { .name = "once-per", .type = OPTION_SPAN, .value = "SPAN", .summary = what },     \
    {                                                                                  \
        .name = "slack", .type = OPTION_SPAN, .value = "SPAN",                         \
        .summary = "with --once-per: so much earlier will do (default: a tenth of it)" \
    }
#define WAIT_OPTIONS                                                                  \
    { .name = "wait",                                                                 \
      .type = OPTION_WAIT,                                                            \
      .choice = 1,                                                                    \
      .value = "SPAN",                                                                \
      .summary = "wait in line for this long, or forever (default: 1m)" },            \
    {                                                                                 \
        .name = "no-wait", .choice = 1, .summary = "HELD, at once, if it is not free" \
    }

/* ---- Options, clients, locks --------------------------------------------------------- */

/* The text of an option, or NULL when it was not given. */
const char *option_text(struct cli *cli, const char *name);

/* A client of the namespace of --ns. `holder` may be NULL. */
enum hf_status lock_connect(struct cli *cli, const char *holder, struct hf_client **ret_client);

/* Whether a text is a lease ("TOKEN:ID:TABLE"), or - for one on stdin, rather than a scope. */
bool is_lease_text(const char *text);

/* The lease that was given: itself, that on stdin for -, or $HOLDFAST_LEASE for NULL, which may be
 * NULL too. */
enum hf_status lease_text(struct cli *cli, const char *given, const char **ret_text);

/* The lease of this text, as lease_text reads it, with a client of its
 * namespace, both to be freed, on failure too. `renew` keeps it alive meanwhile. */
enum hf_status lease_adopt(struct cli *cli, const char *text, bool renew,
                           struct hf_client **ret_client, struct hf_lock **ret_lock);

/* The namespace of a lease. INVALID when it is no lease. */
enum hf_status lease_namespace(struct cli *cli, const char *lease, const char **ret_ns);

/* Reads --ttl and, for commands with modes, --mode, --slots, --once-per and --slack. */
enum hf_status lock_options(struct cli *cli, bool has_modes, struct hf_lock_options *options);

/* Something that is waited for, on a thread of its own, while we look out for signals. */
struct wait_call {
    enum hf_status (*acquire)(void *argument, int64_t wait_ms, struct hf_error *error);
    void (*cancel)(void *argument); /* called again and again: the wait may not have begun */
    enum hf_status (*trouble)(void *argument, struct hf_error *error); /* as hf_lock_trouble */
    void *argument;
};

/* Says once, while a store gives no answer, why: a full disk, say. `trouble` is what
 * hf_lock_trouble said, for `why`. True: it was said. */
bool tell_trouble_once(struct cli *cli, enum hf_status trouble, const struct hf_error *why,
                       bool told);

/* Waits for as long as --wait or --no-wait say. A signal ends the wait. */
enum hf_status wait_in_line(struct cli *cli, const struct wait_call *call);

/* Acquires, for as long as --wait or --no-wait say. A signal ends the wait; when it is held by
 * others the error says by whom. */
enum hf_status lock_acquire(struct cli *cli, struct hf_lock *lock);

/* Prints the lease of a lock that is held, and leaves it to whoever reads our output: they are
 * the only ones who will know of it, so when this fails it has to be given back. */
enum hf_status lease_hand_over(struct cli *cli, struct hf_lock *lock);

/* "deploy is held by node-1 (token 7) for 3s, and for 27s more unless renewed". */
void append_holder(struct buffer *to, const struct hf_lease_info *lease);

/* Adds a lease that is in the way to what --json tells of a refusal: the first as `holder`,
 * `scope` and `expires_in_ms`, each in the list `leased`; `retry_after_ms` is when, unless they
 * are renewed, all of them can be taken over. `wanted` may be NULL. */
void refusal_add_lease(json_t **refusal, const struct hf_lease_info *lease, const char *wanted);

/* Who is in the way of a lock, in words; nothing when nobody is, as far as can be seen. */
void append_blocker(struct buffer *to, struct hf_lock *lock);

/* Puts that in the place of an error that only says that it is held; for --json also who has it, or
 * has done it already, and when to try again. */
void lock_explain(struct cli *cli, struct hf_lock *lock);

/* The `proceed` of lists: whether no signal has come. */
bool not_interrupted(void *argument);

/* "joe@host", for the record. */
#define USER_TEXT_MAX 200
const char *user_text(char text[USER_TEXT_MAX]);

/* "joe". */
const char *user_name(char text[USER_TEXT_MAX]);

/* ---- Leases for people --------------------------------------------------------------- */

/* A span cut to what people care about: "1h2m3s", "12s", "250ms". */
const char *brief_text(struct span span, char text[SPAN_TEXT_MAX]);

/* Whether a lease stands in its table as held, whatever is judged of it. */
bool lease_is_active(const struct hf_lease_info *lease);

/* "deploy", "tree:/a", "chunk:a and 3 more"; for a barrier "everything in TABLE". */
void append_scopes(struct buffer *to, const struct hf_lease_info *lease);

/* "blocked: the table was damaged and replaced at 14:03 UTC; free again in 59s". */
void append_barrier(struct buffer *to, const struct hf_lease_info *lease);
void append_barrier_words(struct buffer *to, struct view holder, struct wall_time since,
                          struct span left);

/* All about a lease or, with its place in line from 1 on, about one who waits. */
json_t *lease_as_json(const struct hf_lease_info *lease, size_t place);

/* ---- Columns ------------------------------------------------------------------------- */

#define GRID_COLUMNS_MAX 9
#define GRID_ROWS_MAX    1000

/* Rows of cells, aligned when they are written. Cells are escaped: no holder's name can disturb
 * a terminal or a column. */
struct grid {
    size_t columns;
    const char *const *titles;
    size_t count;
    size_t widths[GRID_COLUMNS_MAX];
    struct arena arena;
    struct view *cells; /* GRID_ROWS_MAX times `columns` */
    bool failed;        /* out of memory */
    size_t filled;      /* cells of the row that is being made */
};

/* False without memory. */
bool grid_init(struct grid *grid, const char *const *titles, size_t columns);
void grid_release(struct grid *grid);

/* Adds the next cell of the present row. */
void grid_cell(struct grid *grid, struct view text);
__attribute__((format(printf, 2, 3))) void grid_print(struct grid *grid, const char *format,
                                                      ...);

/* One row, or the titles, as a line without its end. */
void grid_append_row(const struct grid *grid, struct buffer *line, size_t row);
void grid_append_titles(const struct grid *grid, struct buffer *line);

/* Drops all rows. */
void grid_clear(struct grid *grid);

/* Writes all rows, below the titles if they are wanted and there is any row, and drops them. False
 * without memory. */
bool grid_write(struct grid *grid, struct output *out, bool titles);

/* The columns of `locks ls`; with `all` one more. */
size_t lease_columns(bool all, const char *const **ret_titles);

/* A row of them. */
void grid_add_lease(struct grid *grid, bool all, const struct hf_lease_info *lease);

#endif
