/* SPDX-License-Identifier: Apache-2.0 */
/* election.c: decides which member of a group compacts a log first. A roster lists the members, the
 * ranks are computed from the state of the document, and a cascade determines which level is due.
 *
 *     election [URL]     for example: election sqlite:jobs.db */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

#define STEP_MS 1000

/* Sends no request. A program that knows its peers calls hf_elect_rank with their names, and
 * needs neither a client nor a store. */
static enum hf_status decide(struct hf_elect_member *member, const struct hf_cascade *cascade,
                             struct hf_error *error)
{
    const struct hf_elect_part parts[] = { { "writer-2", 7 }, { "writer-1", 40 } };
    struct hf_elect_work work = HF_ELECT_WORK;
    size_t rank;
    work.level = hf_cascade_target(cascade, 4);
    work.parts = parts, work.part_count = 2; /* in any order */
    enum hf_status status = hf_elect_rank_own(member, &work, &rank, NULL, error);
    if (status == HF_OK)
        printf("%s has rank %zu for level %" PRIu64 " and may start in %" PRId64 " ms\n",
               hf_elect_name(member), rank, work.level,
               hf_elect_starts_in_ms(rank, STEP_MS, /* due_for_ms */ 0));
    return status;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "anna", "bert" };
    struct hf_client *client = NULL;
    struct hf_elect_member *members[2] = { NULL, NULL };
    struct hf_cascade cascade = { { 0 } };
    struct hf_error error;
    enum hf_status status = hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error);
    for (int i = 0; i < 2 && status == HF_OK; i++) {
        struct hf_elect_options options = HF_ELECT_OPTIONS;
        options.name = names[i]; /* default: a random name */
        status = hf_elect_join(client, "compactors", &options, &members[i], &error);
    }
    if (status == HF_OK)
        status = hf_elect_look(members[0], &error); /* see members that joined after us */
    hf_cascade_added(&cascade, 5);                  /* five new entries at level 0 */
    for (int i = 0; i < 2 && status == HF_OK; i++)
        status = decide(members[i], &cascade, &error);
    if (status == HF_OK) /* record that the work was done: */
        status = hf_cascade_completed(&cascade, hf_cascade_target(&cascade, 4), &error);
    if (status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(status), error.why);
    hf_elect_leave(members[0]);
    hf_elect_leave(members[1]);
    hf_client_close(client);
    return hf_status_exit_code(status);
}
