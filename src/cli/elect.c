/* elect.c: `elect join`, `elect ls` and `elect rank`: members of a group, and who of them comes
 * first for a piece of work; and the table of these commands. */
#include "cli/elect.h"

#include "base/parse.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>

/* Signals are noticed within this. */
#define NAP SPAN_MS(50)

#define ELECT_STEP SPAN_S(10)

int64_t elect_beat_ms(struct cli *cli)
{
    const struct option_value *beat = cli_option(cli, "beat");
    if (!beat)
        return HF_ELECT_BEAT_MS;
    return beat->span.us >= 1000 ? beat->span.us / 1000 : -1; /* none, which 0 would not be */
}

/* ---- join ---------------------------------------------------------------------------- */

struct joining {
    struct cli *cli;
    struct hf_elect_member *member;
};

static void write_event(struct joining *joining, const char *event, const char *member)
{
    struct cli *cli = joining->cli;
    char time[TIME_TEXT_MAX];
    time_text(env_wall(cli->env), time);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:s, s:s, s:s}", "event", event, "group",
                                         cli->arguments[0], "member", member, "at", time));
    else
        output_print(&cli->out, "%s  %-8s %s\n", time, event, member);
}

static bool write_change(void *argument, const char *name, bool present)
{
    write_event(argument, present ? "present" : "gone", name);
    return true;
}

static enum hf_status tell_changes(struct joining *joining)
{
    struct cli *cli = joining->cli;
    enum hf_status status =
        hf_elect_changes(joining->member, write_change, joining, &cli->error);
    return status == HF_OK ? output_flush(&cli->out, &cli->error) : status;
}

/* A store that does not answer now and then costs a stale roster; whatever is no use trying again
 * ends it. */
static enum hf_status keep(struct joining *joining)
{
    struct cli *cli = joining->cli;
    struct hf_error error;
    enum hf_status status = hf_elect_keep(joining->member, &error);
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE) {
        cli_report(cli, cli_argument(cli, 0), &error);
    } else if (status != HF_OK) {
        cli->error = error;
        return status;
    }
    return tell_changes(joining);
}

static enum hf_status stay(struct joining *joining)
{
    struct cli *cli = joining->cli;
    const struct option_value *length = cli_option(cli, "for");
    struct mono_time end =
        length ? mono_add(env_now(cli->env), length->span) : (struct mono_time){ MOMENT_FAR };
    write_event(joining, "joined", hf_elect_name(joining->member));
    enum hf_status status = tell_changes(joining);
    while (status == HF_OK && mono_before(env_now(cli->env), end)) {
        env_sleep_until(cli->env, mono_earlier(end, mono_add(env_now(cli->env), NAP)));
        status = interrupt_check(&cli->error);
        if (status == HF_OK)
            status = keep(joining);
    }
    return status;
}

static enum hf_status run_elect_join(struct cli *cli)
{
    const struct option_value *name = cli_option(cli, "as");
    struct hf_client *client = NULL;
    struct joining joining = { .cli = cli };
    struct hf_elect_options options = HF_ELECT_OPTIONS;
    options.name = name ? name->text.data : NULL;
    options.beat_ms = elect_beat_ms(cli);
    options.by_hand = true;
    if (name && name->text.size == 0)
        return error_set(&cli->error, HF_INVALID, "--as takes a name");
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &client);
    if (status == HF_OK)
        status =
            hf_elect_join(client, cli->arguments[0], &options, &joining.member, &cli->error);
    if (status == HF_OK) {
        status = stay(&joining);
        if (status == HF_OK || status == HF_CANCELLED)
            write_event(&joining, "left", hf_elect_name(joining.member));
    }
    hf_elect_leave(joining.member);
    hf_client_close(client);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

static bool write_member(void *argument, const struct hf_elect_info *member)
{
    struct cli *cli = argument;
    char time[TIME_TEXT_MAX];
    time_text((struct wall_time){ member->beaten_ms * 1000 }, time);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:b, s:s}", "member", member->name, "present",
                                         (int)member->present, "modified_at", time));
    else
        output_print(&cli->out, "%-7s  %s  %s\n", member->present ? "present" : "absent", time,
                     member->name);
    return true;
}

static enum hf_status run_elect_ls(struct cli *cli)
{
    struct hf_client *client = NULL;
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &client);
    if (status == HF_OK)
        status = hf_elect_members(client, cli->arguments[0], elect_beat_ms(cli), write_member,
                                  cli, &cli->error);
    hf_client_close(client);
    return status;
}

/* ---- rank ---------------------------------------------------------------------------- */

/* WRITER=SEQUENCE; a writer's name may hold an equals sign. */
static enum hf_status parse_writer(struct cli *cli, struct view text,
                                   struct hf_elect_part *ret_part)
{
    size_t at = text.size;
    while (at > 0 && text.data[at - 1] != '=')
        at--;
    if (at < 2)
        return error_set(&cli->error, HF_INVALID, "'%.*s' is no WRITER=SEQUENCE",
                         VIEW_ARGS(view_first(text, 60)));
    struct view writer = arena_copy(&cli->arena, view_first(text, at - 1));
    if (!writer.data)
        return error_no_memory(&cli->error);
    ret_part->writer = writer.data;
    return parse_u64(view_from(text, at), UINT64_MAX, &ret_part->sequence, &cli->error);
}

static enum hf_status parse_work(struct cli *cli, struct hf_elect_work *work)
{
    const struct option_value *base = cli_option(cli, "base");
    size_t count = cli->argument_count - 2;
    struct hf_elect_part *parts = arena_take(&cli->arena, (count + 1) * sizeof *parts);
    if (!parts)
        return error_no_memory(&cli->error);
    work->base = base ? base->number : 0;
    work->parts = parts;
    work->part_count = count;
    if (base && work->base == 0)
        return error_set(&cli->error, HF_INVALID, "--base is at least 1");
    enum hf_status status =
        parse_u64(cli_argument(cli, 1), UINT64_MAX, &work->level, &cli->error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = parse_writer(cli, cli_argument(cli, i + 2), &parts[i]);
    return status;
}

/* Work that somebody of a group is to do. */
struct ranking {
    struct cli *cli;
    struct hf_elect_work work;
    int64_t step_ms, due_for_ms;
    const char **present;
    size_t count, room;
    bool no_memory;
};

/* For how long the work has been due, by the calendar. */
static enum hf_status find_age(struct ranking *ranking)
{
    struct cli *cli = ranking->cli;
    const struct option_value *due = cli_option(cli, "due");
    struct wall_time now = env_wall(cli->env), since = now;
    enum hf_status status = due ? parse_time(due->text, &since, &cli->error) : HF_OK;
    ranking->due_for_ms = now.us > since.us ? (now.us - since.us) / 1000 : 0;
    return status;
}

static bool note_present(void *argument, const struct hf_elect_info *member)
{
    struct ranking *ranking = argument;
    struct arena *arena = &ranking->cli->arena;
    if (!member->present)
        return true;
    if (ranking->count == ranking->room) {
        size_t room = ranking->room > 0 ? 2 * ranking->room : 64;
        const char **more = arena_take(arena, room * sizeof *more);
        if (more && ranking->count > 0)
            memcpy(more, ranking->present, ranking->count * sizeof *more);
        ranking->present = more;
        ranking->room = room;
    }
    struct view name = arena_copy(arena, view_of(member->name));
    ranking->no_memory = !ranking->present || !name.data;
    if (!ranking->no_memory)
        ranking->present[ranking->count++] = name.data;
    return !ranking->no_memory;
}

static void write_rank(const struct ranking *ranking, size_t rank, uint64_t hash,
                       const char *member)
{
    struct cli *cli = ranking->cli;
    char score[32], starts[SPAN_TEXT_MAX];
    struct span left =
        SPAN_MS(hf_elect_starts_in_ms(rank, ranking->step_ms, ranking->due_for_ms));
    snprintf(score, sizeof score, "%016" PRIx64, hash);
    if (cli->json) {
        json_t *object = json_object();
        json_add_count(&object, "rank", rank);
        json_add_key(&object, "member", view_of(member));
        json_add(&object, "score", json_string(score));
        json_add_span(&object, "starts_in_ms", left);
        output_json(&cli->out, object);
    } else {
        output_print(&cli->out, "%4zu  %s  %-8s  %s\n", rank, score,
                     left.us > 0 ? brief_text(left, starts) : "now", member);
    }
}

static enum hf_status write_all(const struct ranking *ranking)
{
    struct cli *cli = ranking->cli;
    struct hf_elect_place *places =
        arena_take(&cli->arena, (ranking->count + 1) * sizeof *places);
    if (!places)
        return error_no_memory(&cli->error);
    enum hf_status status =
        hf_elect_order(&ranking->work, ranking->present, ranking->count, places, &cli->error);
    for (size_t i = 0; i < ranking->count && status == HF_OK; i++)
        write_rank(ranking, i, places[i].score, ranking->present[places[i].member]);
    return status;
}

/* One member, who need not have joined yet; HELD until it may start. */
static enum hf_status write_own(const struct ranking *ranking, const char *own)
{
    struct cli *cli = ranking->cli;
    char text[SPAN_TEXT_MAX];
    size_t rank;
    uint64_t score;
    enum hf_status status = hf_elect_rank(&ranking->work, ranking->present, ranking->count, own,
                                          &rank, &score, &cli->error);
    if (status != HF_OK)
        return status;
    write_rank(ranking, rank, score, own);
    struct span left =
        SPAN_MS(hf_elect_starts_in_ms(rank, ranking->step_ms, ranking->due_for_ms));
    if (left.us == 0)
        return HF_OK;
    cli->refusal = json_object();
    json_add_span(&cli->refusal, "retry_after_ms", left);
    return error_set(&cli->error, HF_HELD, "%zu %s first; %.64s may start in %s", rank,
                     rank == 1 ? "member comes" : "members come", own, brief_text(left, text));
}

static enum hf_status find_present(struct ranking *ranking)
{
    struct cli *cli = ranking->cli;
    struct hf_client *client = NULL;
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &client);
    if (status == HF_OK)
        status = hf_elect_members(client, cli->arguments[0], elect_beat_ms(cli), note_present,
                                  ranking, &cli->error);
    hf_client_close(client);
    return status == HF_OK && ranking->no_memory ? error_no_memory(&cli->error) : status;
}

static enum hf_status run_elect_rank(struct cli *cli)
{
    const struct option_value *as = cli_option(cli, "as");
    struct ranking ranking = { .cli = cli,
                               .work = HF_ELECT_WORK,
                               .step_ms = cli_span(cli, "step", ELECT_STEP).us / 1000 };
    enum hf_status status = parse_work(cli, &ranking.work);
    if (status == HF_OK)
        status = find_age(&ranking);
    if (status == HF_OK)
        status = find_present(&ranking);
    if (status != HF_OK)
        return status;
    return as ? write_own(&ranking, as->text.data) : write_all(&ranking);
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
