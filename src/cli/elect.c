/* elect.c: `elect join`, `elect ls` and `elect rank`: members of a group, and who of them comes
 * first for a piece of work; and the table of these commands. */
#include "cli/elect.h"

#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "elect/cascade.h"
#include "elect/ladder.h"
#include "elect/roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Signals are noticed within this. */
#define NAP SPAN_MS(50)

#define WRITERS_MAX 4096

static struct span beat_of(struct cli *cli)
{
    return cli_span(cli, "beat", ELECT_BEAT_DEFAULT);
}

/* ---- join ---------------------------------------------------------------------------- */

struct joining {
    struct cli *cli;
    struct roster roster;
    struct arena arena; /* of those that were told */
    struct view *told;  /* in byte order */
    size_t told_count;
};

static void write_event(struct joining *joining, const char *event, struct view member)
{
    struct cli *cli = joining->cli;
    char time[TIME_TEXT_MAX];
    time_text(env_wall(cli->env), time);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:s, s:s%, s:s}", "event", event, "group",
                                         joining->roster.group, "member", member.data,
                                         member.size, "at", time));
    else
        output_print(&cli->out, "%s  %-8s %.*s\n", time, event, VIEW_ARGS(member));
}

/* Both lists are in byte order: walks them side by side. */
static void tell_changes(struct joining *joining)
{
    const struct roster *roster = &joining->roster;
    size_t before = 0, now = 0;
    while (before < joining->told_count || now < roster->present_count) {
        int order = before == joining->told_count ? 1
                    : now == roster->present_count
                        ? -1
                        : view_compare(joining->told[before], roster->present[now]);
        if (order < 0)
            write_event(joining, "gone", joining->told[before]);
        if (order > 0)
            write_event(joining, "present", roster->present[now]);
        before += order <= 0;
        now += order >= 0;
    }
}

static enum hf_status remember_told(struct joining *joining)
{
    const struct roster *roster = &joining->roster;
    struct arena arena = ARENA_INIT;
    struct view *told = arena_take(&arena, roster->present_count * sizeof *told);
    bool good = told != NULL;
    for (size_t i = 0; good && i < roster->present_count; i++) {
        told[i] = arena_copy(&arena, roster->present[i]);
        good = told[i].data != NULL;
    }
    if (!good) {
        arena_release(&arena);
        return error_no_memory(&joining->cli->error);
    }
    arena_release(&joining->arena);
    joining->arena = arena;
    joining->told = told;
    joining->told_count = roster->present_count;
    return HF_OK;
}

static enum hf_status tell_roster(struct joining *joining)
{
    struct cli *cli = joining->cli;
    tell_changes(joining);
    enum hf_status status = remember_told(joining);
    return status == HF_OK ? output_flush(&cli->out, &cli->error) : status;
}

/* A store that does not answer now and then costs a stale roster; whatever is no use trying again
 * ends it. */
static enum hf_status keep(struct joining *joining)
{
    struct cli *cli = joining->cli;
    struct hf_error error;
    struct mono_time listed = joining->roster.listed;
    enum hf_status status = roster_keep(&joining->roster, env_now(cli->env), &error);
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE) {
        cli_report(cli, view_of(joining->roster.group), &error);
    } else if (status != HF_OK) {
        cli->error = error;
        return status;
    }
    return listed.us != joining->roster.listed.us ? tell_roster(joining) : HF_OK;
}

static enum hf_status stay(struct joining *joining)
{
    struct cli *cli = joining->cli;
    const struct option_value *length = cli_option(cli, "for");
    struct mono_time end =
        length ? mono_add(env_now(cli->env), length->span) : (struct mono_time){ MOMENT_FAR };
    write_event(joining, "joined", view_of(joining->roster.fingerprint));
    enum hf_status status = tell_roster(joining);
    while (status == HF_OK && mono_before(env_now(cli->env), end)) {
        env_sleep_until(cli->env, mono_earlier(end, mono_add(env_now(cli->env), NAP)));
        status = interrupt_check(&cli->error);
        if (status == HF_OK)
            status = keep(joining);
    }
    return status;
}

struct view own_label(char text[OWN_LABEL_MAX])
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    snprintf(text, OWN_LABEL_MAX, "%s-%ld", host, (long)getpid());
    return view_of(text);
}

static enum hf_status run_elect_join(struct cli *cli)
{
    char label[OWN_LABEL_MAX];
    const struct option_value *name = cli_option(cli, "as");
    struct joining joining = { .cli = cli };
    if (name && name->text.size == 0)
        return error_set(&cli->error, HF_INVALID, "--as takes a name");
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status = roster_join(&joining.roster, cli->store, cli_argument(cli, 0),
                             name ? name->text : VIEW(""), own_label(label), beat_of(cli),
                             &cli->error);
    if (status != HF_OK)
        return status;
    status = stay(&joining);
    if (status == HF_OK || status == HF_CANCELLED)
        write_event(&joining, "left", view_of(joining.roster.fingerprint));
    roster_leave(&joining.roster);
    arena_release(&joining.arena);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

static void write_member(struct cli *cli, const struct member *member)
{
    char time[TIME_TEXT_MAX];
    time_text(member->modified, time);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s%, s:b, s:s}", "member", member->fingerprint.data,
                                         member->fingerprint.size, "present",
                                         (int)member->present, "modified_at", time));
    else
        output_print(&cli->out, "%-7s  %s  %.*s\n", member->present ? "present" : "absent",
                     time, VIEW_ARGS(member->fingerprint));
}

static enum hf_status run_elect_ls(struct cli *cli)
{
    struct member *members = NULL;
    size_t count = 0;
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status = roster_members(cli->store, cli_argument(cli, 0), beat_of(cli), &cli->arena,
                                &members, &count, &cli->error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        write_member(cli, &members[i]);
    return HF_OK;
}

/* ---- rank ---------------------------------------------------------------------------- */

/* WRITER=SEQUENCE; a writer's name may hold an equals sign. */
static enum hf_status parse_writer(struct view text, struct work_writer *ret_writer,
                                   struct hf_error *error)
{
    size_t at = text.size;
    while (at > 0 && text.data[at - 1] != '=')
        at--;
    if (at < 2)
        return error_set(error, HF_INVALID, "'%.*s' is no WRITER=SEQUENCE",
                         VIEW_ARGS(view_first(text, 60)));
    ret_writer->writer = view_first(text, at - 1);
    return parse_u64(view_from(text, at), UINT64_MAX, &ret_writer->sequence, error);
}

static int compare_writers(const void *a, const void *b)
{
    return view_compare(((const struct work_writer *)a)->writer,
                        ((const struct work_writer *)b)->writer);
}

/* As catalogs have them: in byte order, each once. */
static enum hf_status sort_writers(struct work_writer *writers, size_t count,
                                   struct hf_error *error)
{
    qsort(writers, count, sizeof *writers, compare_writers);
    for (size_t i = 1; i < count; i++)
        if (view_equal(writers[i - 1].writer, writers[i].writer))
            return error_set(error, HF_INVALID, "'%.*s' is given twice",
                             VIEW_ARGS(view_first(writers[i].writer, 60)));
    return HF_OK;
}

static enum hf_status parse_work(struct cli *cli, struct work *ret_work)
{
    const struct option_value *base = cli_option(cli, "base");
    size_t count = cli->argument_count - 2;
    if (count > WRITERS_MAX)
        return error_set(&cli->error, HF_INVALID, "at most %d writers", WRITERS_MAX);
    struct work_writer *writers = arena_take(&cli->arena, (count + 1) * sizeof *writers);
    if (!writers)
        return error_no_memory(&cli->error);
    *ret_work = (struct work){ .base = base ? base->number : CASCADE_BASE,
                               .writers = writers,
                               .writer_count = count };
    if (ret_work->base == 0)
        return error_set(&cli->error, HF_INVALID, "--base is at least 1");
    enum hf_status status =
        parse_u64(cli_argument(cli, 1), UINT64_MAX, &ret_work->level, &cli->error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = parse_writer(cli_argument(cli, i + 2), &writers[i], &cli->error);
    return status == HF_OK ? sort_writers(writers, count, &cli->error) : status;
}

/* For how long the work has been due, by the calendar. */
static enum hf_status find_age(struct cli *cli, struct span *ret_age)
{
    const struct option_value *due = cli_option(cli, "due");
    struct wall_time now = env_wall(cli->env), since = now;
    enum hf_status status = due ? parse_time(due->text, &since, &cli->error) : HF_OK;
    *ret_age = SPAN_US(now.us - since.us);
    if (ret_age->us < 0)
        *ret_age = SPAN_US(0);
    return status;
}

/* Work that somebody of a group is to do. */
struct ranking {
    struct work work;
    struct span step, age;
    struct view *present;
    size_t present_count;
};

static struct span starts_in(const struct ranking *ranking, size_t rank)
{
    int64_t left = ladder_delay(rank, ranking->step).us - ranking->age.us;
    return SPAN_US(left > 0 ? left : 0);
}

static void write_rank(struct cli *cli, const struct ranking *ranking, size_t rank,
                       struct view member)
{
    char score[32], starts[SPAN_TEXT_MAX];
    struct span left = starts_in(ranking, rank);
    snprintf(score, sizeof score, "%016" PRIx64, ladder_score(member, &ranking->work));
    if (cli->json) {
        json_t *object = json_object();
        json_add_count(&object, "rank", rank);
        json_add_key(&object, "member", member);
        json_add(&object, "score", json_string(score));
        json_add_span(&object, "starts_in_ms", left);
        output_json(&cli->out, object);
    } else {
        output_print(&cli->out, "%4zu  %s  %-8s  %.*s\n", rank, score,
                     left.us > 0 ? brief_text(left, starts) : "now", VIEW_ARGS(member));
    }
}

static enum hf_status write_all(struct cli *cli, const struct ranking *ranking)
{
    size_t *order = arena_take(&cli->arena, (ranking->present_count + 1) * sizeof *order);
    if (!order)
        return error_no_memory(&cli->error);
    ladder_order(ranking->present, ranking->present_count, &ranking->work, order);
    for (size_t i = 0; i < ranking->present_count; i++)
        write_rank(cli, ranking, i, ranking->present[order[i]]);
    return HF_OK;
}

/* One member, who need not have joined yet; HELD until it may start. */
static enum hf_status write_own(struct cli *cli, const struct ranking *ranking, struct view own)
{
    char text[SPAN_TEXT_MAX];
    size_t rank = ladder_rank(ranking->present, ranking->present_count, own, &ranking->work);
    struct span left = starts_in(ranking, rank);
    write_rank(cli, ranking, rank, own);
    if (left.us == 0)
        return HF_OK;
    cli->refusal = json_object();
    json_add_span(&cli->refusal, "retry_after_ms", left);
    return error_set(&cli->error, HF_HELD, "%zu %s first; %.*s may start in %s", rank,
                     rank == 1 ? "member comes" : "members come",
                     VIEW_ARGS(view_first(own, FINGERPRINT_MAX)), brief_text(left, text));
}

static enum hf_status find_present(struct cli *cli, struct ranking *ranking)
{
    struct member *members = NULL;
    size_t count = 0;
    enum hf_status status = roster_members(cli->store, cli_argument(cli, 0), beat_of(cli),
                                           &cli->arena, &members, &count, &cli->error);
    if (status != HF_OK)
        return status;
    ranking->present = arena_take(&cli->arena, (count + 1) * sizeof *ranking->present);
    if (!ranking->present)
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < count; i++)
        if (members[i].present)
            ranking->present[ranking->present_count++] = members[i].fingerprint;
    return HF_OK;
}

static enum hf_status run_elect_rank(struct cli *cli)
{
    const struct option_value *as = cli_option(cli, "as");
    struct ranking ranking = { .step = cli_span(cli, "step", ELECT_BEAT_DEFAULT) };
    enum hf_status status = parse_work(cli, &ranking.work);
    if (status == HF_OK)
        status = find_age(cli, &ranking.age);
    if (status == HF_OK)
        status = cli_open_store(cli);
    if (status == HF_OK)
        status = find_present(cli, &ranking);
    if (status != HF_OK)
        return status;
    return as ? write_own(cli, &ranking, as->text) : write_all(cli, &ranking);
}

/* ---- The table ----------------------------------------------------------------------- */

#define GROUP_ARGUMENT                                     \
    {                                                      \
        "GROUP", ARGUMENT_ONE, COMPLETE_GROUP, "the group" \
    }
#define BEAT_OPTION                                                              \
    {                                                                            \
        .name = "beat", .type = OPTION_SPAN, .value = "SPAN",                    \
        .summary = "heartbeat interval, the same for all members (default: 10s)" \
    }

const struct command elect_commands[] = {
    {
        .path = "elect join",
        .summary = "be a member of a group, and watch the others",
        .arguments = { GROUP_ARGUMENT },
        .options = { { .name = "as",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "the member's name (default: random)" },
                     BEAT_OPTION,
                     { .name = "for",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "leave after this time; else Ctrl-C does" } },
        .details = { "Writes an object of its own with every beat, and a line for each change: "
                     "joined and left (this member), present and gone (any). Who is not heard "
                     "of "
                     "for three beats is gone; what the dead leave behind is deleted after "
                     "thirty." },
        .json = "JSON lines, one a change, with `event`",
        .examples = { { "holdfast elect join builders --as anna --for 1s", "for a second" },
                      { "holdfast elect join builders --for 1s --json > changes.json",
                        "changes for a program" } },
        .ends_in_order = true,
        .run = run_elect_join,
    },
    {
        .path = "elect ls",
        .summary = "list the members of a group",
        .arguments = { GROUP_ARGUMENT },
        .options = { BEAT_OPTION },
        .details = { "Present is who has written within the last three beats, by the times "
                     "that the store tells. Workers of a partition are the group "
                     "compact-PARTITION." },
        .json = "JSON lines, one a member, with `member`, `present` and `modified_at`",
        .examples = { { "holdfast elect ls compact-default", "who compacts" } },
        .only_reads = true,
        .run = run_elect_ls,
    },
    {
        .path = "elect rank",
        .summary = "show which member of a group comes first for a piece of work",
        .arguments = { GROUP_ARGUMENT,
                       { "LEVEL", ARGUMENT_ONE, COMPLETE_NOTHING, "the level of the work" },
                       { "WRITER=SEQUENCE", ARGUMENT_ANY, COMPLETE_NOTHING,
                         "how far each writer has come, in any order" } },
        .options = { { .name = "base",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "count sequences in steps of N (default: 20)" },
                     BEAT_OPTION,
                     { .name = "as",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "print only this member; HELD until it may start" },
                     { .name = "due",
                       .type = OPTION_TEXT,
                       .value = "TIME",
                       .summary = "when the work became due, RFC 3339 (default: now)" },
                     { .name = "step",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "how long each rank waits for the one before it (default: "
                                  "10s)" } },
        .details = { "Rank 0 may start as soon as the work is due, rank k after k steps, "
                     "unless "
                     "another member has started by then. Each present member is printed with "
                     "its rank, its score, which determines the rank, and when it may start." },
        .json = "JSON lines, one per member, with `rank`, `member`, `score` and `starts_in_ms`",
        .examples = { { "holdfast elect rank builders 1 w1=40 w2=7", "for work at level 1" },
                      { "holdfast elect rank builders 0 --as anna --due 2026-11-01T12:00:00Z",
                        "may anna start now?" } },
        .only_reads = true,
        .run = run_elect_rank,
    },
    {
        .path = "elect run",
        .summary = "keep a command running on one machine of a fleet",
        .arguments = { { "NAME", ARGUMENT_ONE, COMPLETE_LOCK,
                         "the lock that the leader holds, and the group" },
                       { "COMMAND", ARGUMENT_COMMAND, COMPLETE_PROGRAM,
                         "the program and its arguments" } },
        .options = { { .name = "as",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "the member's name (default: random)" },
                     BEAT_OPTION,
                     { .name = "step",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary =
                           "how much later each rank queues for the lock (default: 1s)" },
                     { .name = "ttl",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary =
                           "lease duration: how long a takeover waits after the leader's "
                           "machine crashed (default: 30s, minimum: 1s)" },
                     MAX_TTL_OPTION,
                     { .name = "wait",
                       .type = OPTION_WAIT,
                       .value = "SPAN",
                       .summary = "how long to stand by before TIMEOUT (default: forever)" },
                     { .name = "holder",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "the leader's name as others see it (default: host name and "
                                  "process id)" },
                     { .name = "ns",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .completion = COMPLETE_NAMESPACE,
                       .summary = "the namespace of the lock (default: default)" } },
        .details = { "Start the same command line on every machine. One of them becomes the "
                     "leader and runs the command under the lock NAME, with the guard, the "
                     "token and the exit status of 'holdfast run'. The others stand by, queued "
                     "for the lock. When the leader's command ends, or its machine crashes, "
                     "the "
                     "first in the queue takes over. 'elect run' ends with its command; let a "
                     "service manager restart it, and it joins the end of the queue.",
                     "One step after it started, each member ranks those present as 'holdfast "
                     "elect rank NAME 0' does. The first queues at once, each further one a "
                     "step later. Only the lock decides who runs, so members that see "
                     "different "
                     "ranks do no harm.",
                     "'holdfast locks show NAME' shows the leader and the queue, 'holdfast "
                     "elect ls NAME' the members." },
        .json = "errors as JSON objects on stderr; stdout belongs to the command",
        .examples = { { "holdfast elect run scheduler -- true",
                        "on each machine of the fleet" } },
        .run = run_elect_run,
    },
    { .path = NULL },
};
