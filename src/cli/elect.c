/* elect.c: `elect join`, `elect ls` and `elect rank`: members of a group, and who of them comes
 * first for a piece of work. */
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "elect/cascade.h"
#include "elect/ladder.h"
#include "elect/roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BEAT_DEFAULT SPAN_S(10)

/* Signals are noticed within this. */
#define NAP SPAN_MS(50)

#define WRITERS_MAX 4096

static struct span beat_of(struct cli *cli)
{
    const struct option_value *beat = cli_option(cli, "beat");
    return beat ? beat->span : BEAT_DEFAULT;
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

/* Whom people should look for: host and process. */
static struct view own_label(char *text, size_t size)
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    snprintf(text, size, "%s-%ld", host, (long)getpid());
    return view_of(text);
}

static enum hf_status run_elect_join(struct cli *cli)
{
    char label[128];
    const struct option_value *name = cli_option(cli, "as");
    struct joining joining = { .cli = cli };
    if (name && name->text.size == 0)
        return error_set(&cli->error, HF_INVALID, "--as takes a name");
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status = roster_join(&joining.roster, cli->store, cli_argument(cli, 0),
                             name ? name->text : VIEW(""), own_label(label, sizeof label),
                             beat_of(cli), &cli->error);
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
    return status;
}

static void write_rank(struct cli *cli, size_t rank, struct view member, uint64_t score)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, score);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:I, s:s%, s:s}", "rank", (json_int_t)rank, "member",
                                         member.data, member.size, "score", text));
    else
        output_print(&cli->out, "%4zu  %s  %.*s\n", rank, text, VIEW_ARGS(member));
}

static enum hf_status write_ranks(struct cli *cli, const struct work *work,
                                  const struct member *members, size_t count)
{
    struct view *present = arena_take(&cli->arena, (count + 1) * sizeof *present);
    size_t *order = arena_take(&cli->arena, (count + 1) * sizeof *order);
    size_t present_count = 0;
    if (!present || !order)
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < count; i++)
        if (members[i].present)
            present[present_count++] = members[i].fingerprint;
    ladder_order(present, present_count, work, order);
    for (size_t i = 0; i < present_count; i++)
        write_rank(cli, i, present[order[i]], ladder_score(present[order[i]], work));
    return HF_OK;
}

static enum hf_status run_elect_rank(struct cli *cli)
{
    struct work work;
    struct member *members = NULL;
    size_t count = 0;
    enum hf_status status = parse_work(cli, &work);
    if (status == HF_OK)
        status = cli_open_store(cli);
    if (status == HF_OK)
        status = roster_members(cli->store, cli_argument(cli, 0), beat_of(cli), &cli->arena,
                                &members, &count, &cli->error);
    return status == HF_OK ? write_ranks(cli, &work, members, count) : status;
}

/* ---- The table ----------------------------------------------------------------------- */

#define GROUP_ARGUMENT                                     \
    {                                                      \
        "GROUP", ARGUMENT_ONE, COMPLETE_GROUP, "the group" \
    }
#define BEAT_OPTION                                                                     \
    {                                                                                   \
        .name = "beat", .type = OPTION_SPAN, .value = "SPAN",                           \
        .summary = "how often members write; the same for all of them; 10s if left out" \
    }

const struct command elect_commands[] = {
    {
        .path = "elect join",
        .summary = "be a member of a group, and watch the others",
        .arguments = { GROUP_ARGUMENT },
        .options = { { .name = "as",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "the member's name; drawn if left out" },
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
        .summary = "show who of a group comes first for a piece of work",
        .arguments = { GROUP_ARGUMENT,
                       { "LEVEL", ARGUMENT_ONE, COMPLETE_NOTHING, "the level of the work" },
                       { "WRITER=SEQUENCE", ARGUMENT_ANY, COMPLETE_NOTHING,
                         "how far each writer is, in the order of the document" } },
        .options = { { .name = "base",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "sequences count in steps of this; 20 if left out" },
                     BEAT_OPTION },
        .details = { "Rank 0 starts at once, rank k after k steps, if nobody has begun by "
                     "then. "
                     "Each present member is shown with its rank and its score, by which all "
                     "rank alike." },
        .json = "JSON lines, one a member, with `rank`, `member` and `score`",
        .examples = { { "holdfast elect rank builders 1 w1=40 w2=7", "for work at level 1" } },
        .only_reads = true,
        .run = run_elect_rank,
    },
    { .path = NULL },
};
