/* SPDX-License-Identifier: Apache-2.0 */
/* spaces.c: the namespaces that a run covers: the client's own, or all in the store. Tokens and
 * settings belong to a namespace, so each namespace has its own client while it is being swept. */
#include "lock/restore.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Names --------------------------------------------------------------------------- */

static enum hf_status add_namespace(void *argument, const char *ns, struct hf_error *error)
{
    struct sweep_names *names = argument;
    void *grown = realloc(names->names, (names->count + 1) * sizeof *names->names);
    if (!grown)
        return error_no_memory(error);
    names->names = grown;
    snprintf(names->names[names->count++], sizeof *names->names, "%s", ns);
    return HF_OK;
}

enum hf_status sweep_names_find(struct hf_client *client, bool all, struct mono_time deadline,
                                struct sweep_names *ret_names, struct hf_error *error)
{
    struct sweep_names names = { 0 };
    struct view own = view_of(client_ns(client));
    struct namespace_walk walk = { .known = &own,
                                   .known_count = 1,
                                   .deadline = deadline,
                                   .each = add_namespace,
                                   .argument = &names };
    enum hf_status status = all ? restore_namespaces(client_store(client), &walk, error)
                                : add_namespace(&names, client_ns(client), error);
    if (status == HF_OK)
        *ret_names = names;
    else
        sweep_names_release(&names);
    return status;
}

void sweep_names_release(struct sweep_names *names)
{
    free(names->names);
    *names = (struct sweep_names){ 0 };
}

/* ---- Namespaces of a run ------------------------------------------------------------- */

/* The time limit for finding the namespaces. This takes several requests per top-level folder of
 * the bucket, even for folders that other programs created. */
#define FIND_TIME SPAN_S(60)

enum hf_status spaces_open(struct sweep_run *run, struct hf_error *error)
{
    bool all = run->options->settings.all_namespaces;
    struct mono_time deadline =
        mono_earlier(mono_add(client_now(run->caller), FIND_TIME), run->end);
    enum hf_status status = sweep_names_find(run->caller, all, deadline, &run->names, error);
    if (status != HF_OK)
        return status;
    run->spaces = calloc(run->names.count, sizeof *run->spaces);
    if (!run->spaces)
        return error_no_memory(error);
    run->space = run->spaces;
    return HF_OK;
}

/* Adds the counts of the namespace's client to those of the caller's client. */
void space_leave(struct sweep_run *run)
{
    struct hf_client *caller = run->caller, *made = run->client;
    size_t own = 0;
    space_of_key(run, view_of(client_ns(caller)), &own);
    run->space = run->spaces ? &run->spaces[own] : NULL;
    if (made == caller)
        return;
    run->conflicts_noted += client_conflicts(made);
    client_add_cleared(caller, made);
    run->client = caller;
    hf_client_close(made);
}

void spaces_close(struct sweep_run *run)
{
    space_leave(run);
    free(run->spaces);
    run->spaces = run->space = NULL;
    sweep_names_release(&run->names);
}

enum hf_status space_enter(struct sweep_run *run, size_t index, struct hf_error *error)
{
    struct hf_client *caller = run->caller, *made;
    const char *ns = run->names.names[index];
    if (strcmp(ns, client_ns(run->client)) == 0) {
        run->space = &run->spaces[index];
        return HF_OK;
    }
    space_leave(run);
    if (strcmp(ns, client_ns(caller)) != 0) {
        if (client_new_beside(caller, view_of(ns), &made, error) != HF_OK)
            return error->status;
        events_belong_to(made, caller);
        run->client = made;
    }
    run->space = &run->spaces[index];
    return HF_OK;
}

bool space_of_key(const struct sweep_run *run, struct view key, size_t *ret_index)
{
    struct view name = view_first(key, view_find(key, '/'));
    size_t from = 0, to = run->names.count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = view_compare(view_of(run->names.names[middle]), name);
        if (order == 0) {
            *ret_index = middle;
            return true;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return false;
}

uint64_t spaces_conflicts(const struct sweep_run *run)
{
    uint64_t count = run->conflicts_noted + client_conflicts(run->caller);
    if (run->client != run->caller)
        count += client_conflicts(run->client);
    return count;
}
