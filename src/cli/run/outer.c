/* SPDX-License-Identifier: Apache-2.0 */
/* outer.c: proves that a run around this one holds the lock, and becomes the command under its
 * lease. */
#include "cli/run/outer.h"

#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/run/descendants.h"
#include "cli/run/guard_message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LINK_MAX_BYTES 64

/* ---- What the guards say ------------------------------------------------------------- */

/* Reads the variables that a guard keeps in its file. False if it is no such file. */
static bool read_guard_file(int pid, int number, char variables[VARIABLES_BYTES_MAX],
                            size_t *ret_size)
{
    char path[LINK_MAX_BYTES], link[LINK_MAX_BYTES];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
    ssize_t size = readlink(path, link, sizeof link);
    struct view target = { link, size > 0 ? (size_t)size : 0 };
    if (!view_starts_with(target, VIEW("/memfd:" OUTER_FILE_NAME " ")))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size = read(fd, variables, VARIABLES_BYTES_MAX);
    close(fd);
    *ret_size = size > 0 ? (size_t)size : 0;
    return size > 0 && variables[size - 1] == '\0';
}

/* Adds the lease of the guard "PID:FD", if that guard is around us and guards a lease in our
 * store. */
static enum hf_status add_outer(struct cli *cli, struct outer_runs *outer, struct view entry)
{
    char variables[VARIABLES_BYTES_MAX];
    struct hf_lease_name name = HF_LEASE_NAME;
    uint64_t pid, number;
    size_t size;
    struct view pid_text = view_cut(&entry, ':');
    if (parse_u64(pid_text, INT32_MAX, &pid, NULL) != HF_OK ||
        parse_u64(entry, INT32_MAX, &number, NULL) != HF_OK ||
        !descendants_is_ancestor((pid_t)pid) ||
        !read_guard_file((int)pid, (int)number, variables, &size))
        return HF_OK;
    const char *lease = order_variable(variables, size, "HOLDFAST_LEASE=");
    const char *token = order_variable(variables, size, "HOLDFAST_TOKEN=");
    const char *store = order_variable(variables, size, "HOLDFAST_STORE=");
    if (!lease || !token || !store || !view_equal(view_of(store), cli->store_url) ||
        hf_lease_parse(lease, &name, /* error */ NULL) != HF_OK)
        return HF_OK;
    struct outer_lease *added = &outer->leases[outer->count];
    added->lease = arena_copy(&cli->arena, view_of(lease)).data;
    added->token = arena_copy(&cli->arena, view_of(token)).data;
    snprintf(added->table, sizeof added->table, "%s", name.table);
    if (!added->lease || !added->token)
        return error_no_memory(&cli->error);
    outer->count++;
    return HF_OK;
}

enum hf_status outer_find(struct cli *cli, struct outer_runs *ret_outer)
{
    const char *given = getenv(OUTER_VARIABLE);
    struct view rest = view_of(given ? given : ""), url = { NULL, 0 };
    *ret_outer = (struct outer_runs){ .count = 0 };
    enum hf_status status = rest.size > 0 ? cli_find_store(cli, &url) : HF_OK;
    while (status == HF_OK && rest.size > 0 && ret_outer->count < OUTER_RUNS_MAX)
        status = add_outer(cli, ret_outer, view_cut(&rest, ','));
    return status;
}

/* ---- What the store says ------------------------------------------------------------- */

struct judging {
    struct outer_runs *outer;
    const struct outer_lease *found; /* an outer lease on this scope */
    enum hf_mode mode;
    uint64_t slots;
};

/* Whether a listed lease is this one. A table never repeats a token, and a server does not list the
 * ids of leases. */
static bool is_outer_lease(const struct hf_lease_info *listed, const struct outer_lease *outer)
{
    struct hf_lease_name name = HF_LEASE_NAME, of_outer = HF_LEASE_NAME;
    return hf_lease_parse(listed->lease, &name, /* error */ NULL) == HF_OK &&
           hf_lease_parse(outer->lease, &of_outer, /* error */ NULL) == HF_OK &&
           name.token == of_outer.token && strcmp(name.table, of_outer.table) == 0;
}

static bool see_outer_lease(void *argument, const struct hf_lease_info *lease)
{
    struct judging *judging = argument;
    for (size_t i = 0; i < judging->outer->count; i++) {
        struct outer_lease *outer = &judging->outer->leases[i];
        if (lease->state != HF_LEASE_ACTIVE || !is_outer_lease(lease, outer))
            continue;
        outer->active = true;
        if (lease->relation == HF_RELATION_OF_SCOPE && !judging->found) {
            judging->found = outer;
            judging->mode = lease->mode;
            judging->slots = lease->slots;
        }
    }
    return true;
}

static bool mode_covers(const struct judging *judging, const struct hf_lock_options *wanted)
{
    return judging->mode == HF_EXCLUSIVE ||
           (judging->mode == wanted->mode &&
            (judging->mode == HF_SHARED || judging->slots == wanted->slots));
}

/* Whether the lease would be in this table. A server does not say where its tables are, so the text
 * of a lease has "<ns>/scope/<scope>" in its place, except for an exclusive lock of a name
 * (src/client/README.md). */
static bool is_of_table(const struct outer_lease *outer, const struct hf_table_info *table)
{
    struct view rest = view_of(outer->table), whole = view_of(table->table);
    if (strcmp(outer->table, table->table) == 0)
        return true;
    return view_equal(view_cut(&rest, '/'), view_cut(&whole, '/')) &&
           view_equal(view_cut(&rest, '/'), VIEW("scope")) &&
           view_equal(rest, view_of(table->scope));
}

enum outer_verdict outer_judge(struct cli *cli, struct outer_runs *outer, const char *scope,
                               const struct hf_lock_options *wanted,
                               const struct outer_lease **ret_lease, struct hf_error *error)
{
    struct hf_table_info table = HF_TABLE_INFO;
    struct judging judging = { .outer = outer };
    if (outer->count == 0)
        return OUTER_NONE;
    if (hf_locks_show(cli->client, scope, &table, see_outer_lease, /* audit */ NULL, &judging,
                      error) != HF_OK)
        return OUTER_REFUSES;
    for (size_t i = 0; i < outer->count; i++)
        if (!outer->leases[i].active && is_of_table(&outer->leases[i], &table)) {
            error_set(error, HF_LOST,
                      "the lease of the run around this one (token %s) is lost; nothing was "
                      "started",
                      outer->leases[i].token);
            return OUTER_REFUSES;
        }
    if (!judging.found)
        return OUTER_NONE;
    *ret_lease = judging.found;
    if (mode_covers(&judging, wanted) && wanted->once_per_ms == 0)
        return OUTER_COVERS;
    error_set(error, HF_HELD, "the run around this one holds it (token %s, mode %s), and %s",
              judging.found->token, hf_mode_name(judging.mode),
              wanted->once_per_ms != 0 ? "--once-per needs a lease of its own"
                                       : "this run needs another mode: use the same in both");
    return OUTER_REFUSES;
}

/* ---- The command --------------------------------------------------------------------- */

/* The outer guard ends the command in time, so this process need not stay. */
int outer_become_command(struct cli *cli, const struct outer_lease *lease)
{
    size_t count = cli->argument_count - 1;
    char **words = arena_take(&cli->arena, (count + 1) * sizeof *words);
    struct view store = arena_copy(&cli->arena, cli->store_url); /* adds a NUL */
    if (!words || !store.data ||
        setenv("HOLDFAST_LEASE", lease->lease, /* overwrite */ 1) != 0 ||
        setenv("HOLDFAST_TOKEN", lease->token, /* overwrite */ 1) != 0 ||
        setenv("HOLDFAST_STORE", store.data, /* overwrite */ 1) != 0)
        return ENOMEM;
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)(uintptr_t)cli->arguments[1 + i];
    words[count] = NULL;
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); /* it would outlive exec */
    interrupt_unwatch();
    if (interrupted()) /* by a signal that the command would have had passed on */
        interrupt_die(SIGTERM);
    execvp(words[0], words);
    return errno;
}
