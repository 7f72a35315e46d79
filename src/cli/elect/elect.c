/* SPDX-License-Identifier: Apache-2.0 */
/* elect.c: `elect join`, `elect ls` and `elect rank`: the members of a group, and the order in
 * which they may start a piece of work. */
#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/run/run.h"

#include <inttypes.h>
#include <stdio.h>

/* How often signals are checked. */
#define NAP SPAN_MS(50)

#define ELECT_STEP_MS 10000

int64_t elect_beat_ms(struct cli *cli)
{
    int64_t beat_ms = option_ms(cli, "beat", HF_ELECT_BEAT_MS);
    return beat_ms > 0 ? beat_ms : -1; /* 0 would mean the default */
}

struct joining {
    struct cli *cli;
    struct hf_elect_member *member;
};

struct event {
    const char *event, *group, *member;
    int64_t at_ms;
};

const struct field elect_event_record[] = ELECT_EVENT_RECORD;

static void print_event(struct joining *joining, const char *event, const char *member)
{
    struct cli *cli = joining->cli;
    struct event told = { event, cli->arguments[0], member, env_wall(cli->env).us / 1000 };
    record_show(cli, elect_event_record, &told, "{at}  {event<8} {member}\n");
}

static bool print_presence(void *argument, const char *name, bool present)
{
    print_event(argument, present ? "present" : "gone", name);
    return true;
}

static enum hf_status print_changes(struct joining *joining)
{
    struct cli *cli = joining->cli;
    enum hf_status status =
        hf_elect_changes(joining->member, print_presence, joining, &cli->error);
    return status == HF_OK ? output_flush(&cli->out, &cli->error) : status;
}

/* A temporary store error only leaves the roster stale, and is reported. Any other error ends the
 * command. */
static enum hf_status stay_in_group(struct joining *joining)
{
    struct cli *cli = joining->cli;
    struct mono_time end = { MOMENT_FAR };
    struct hf_error error;
    if (cli_given(cli, "for"))
        end = mono_add(env_now(cli->env), cli_option(cli, "for")->span);
    print_event(joining, "joined", hf_elect_name(joining->member));
    enum hf_status status = print_changes(joining);
    while (status == HF_OK && mono_before(env_now(cli->env), end)) {
        env_sleep_until(cli->env, mono_earlier(end, mono_add(env_now(cli->env), NAP)));
        status = interrupt_check(&cli->error);
        if (status != HF_OK)
            return status;
        status = hf_elect_keep(joining->member, &error);
        if (status_is_temporary(status)) {
            cli_report(cli, cli_argument(cli, 0), &error);
        } else if (status != HF_OK) {
            cli->error = error;
            return status;
        }
        status = print_changes(joining);
    }
    return status;
}

enum hf_status run_elect_join(struct cli *cli)
{
    struct joining joining = { .cli = cli };
    struct hf_elect_options options = HF_ELECT_OPTIONS;
    options.name = option_text(cli, "as");
    options.beat_ms = elect_beat_ms(cli);
    options.by_hand = true;
    if (options.name && !options.name[0])
        return cli_invalid(cli, "--as must not be empty");
    enum hf_status status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_elect_join(cli->client, cli->arguments[0], &options, &joining.member,
                               &cli->error);
    if (status == HF_OK) {
        status = stay_in_group(&joining);
        if (status == HF_OK || status == HF_CANCELLED)
            print_event(&joining, "left", hf_elect_name(joining.member));
    }
    hf_elect_leave(joining.member);
    return status;
}

const struct field elect_member_record[] = ELECT_MEMBER_RECORD;

static bool print_member(void *argument, const struct hf_elect_info *member)
{
    record_show(argument, elect_member_record, member,
                "[{present?}present|absent ]  {modified_at}  {member}\n");
    return true;
}

enum hf_status run_elect_ls(struct cli *cli)
{
    return hf_elect_members(cli->client, cli->arguments[0], elect_beat_ms(cli), print_member,
                            cli, &cli->error);
}

/* Each argument after the group and the level is WRITER=SEQUENCE. The name of a writer may contain
 * an equals sign. */
static enum hf_status parse_work(struct cli *cli, struct hf_elect_work *work)
{
    size_t count = cli->argument_count - 2;
    struct hf_elect_part *parts = arena_take(&cli->arena, (count + 1) * sizeof *parts);
    if (!parts)
        return error_no_memory(&cli->error);
    work->base = option_number(cli, "base", 0);
    work->parts = parts;
    work->part_count = count;
    if (cli_given(cli, "base") && work->base == 0)
        return cli_invalid(cli, "--base must be at least 1");
    enum hf_status status =
        parse_u64(cli_argument(cli, 1), UINT64_MAX, &work->level, &cli->error);
    for (size_t i = 0; i < count; i++) {
        struct view text = cli_argument(cli, i + 2);
        size_t at = text.size;
        while (at > 0 && text.data[at - 1] != '=')
            at--;
        if (status != HF_OK)
            return status;
        if (at < 2)
            return cli_invalid(cli, "'%.*s' is not of the form WRITER=SEQUENCE",
                               VIEW_ARGS(view_first(text, 60)));
        parts[i].writer = arena_copy(&cli->arena, view_first(text, at - 1)).data;
        if (!parts[i].writer)
            return error_no_memory(&cli->error);
        status = parse_u64(view_from(text, at), UINT64_MAX, &parts[i].sequence, &cli->error);
    }
    return status;
}

/* A piece of work, and the members that could do it. */
struct ranking {
    struct cli *cli;
    struct hf_elect_work work;
    int64_t step_ms, due_for_ms;
    struct names present;
};

static bool add_present(void *argument, const struct hf_elect_info *member)
{
    struct ranking *ranking = argument;
    return !member->present || names_add(&ranking->present, view_of(member->name));
}

struct rank {
    size_t rank;
    const char *member;
    char score[17];
    int64_t starts_in_ms;
};

static void append_start(struct buffer *to, const struct rank *rank)
{
    char text[SPAN_TEXT_MAX];
    struct span left = SPAN_MS(rank->starts_in_ms);
    buffer_append(to, view_of(left.us > 0 ? brief_text(left, text) : "now"));
}

const struct field elect_rank_record[] = ELECT_RANK_RECORD;

/* Returns the time until the member may start. */
static struct span print_rank(const struct ranking *ranking, size_t rank, uint64_t hash,
                              const char *member)
{
    struct rank told = { .rank = rank,
                         .member = member,
                         .starts_in_ms = hf_elect_starts_in_ms(rank, ranking->step_ms,
                                                               ranking->due_for_ms) };
    snprintf(told.score, sizeof told.score, "%016" PRIx64, hash);
    record_show(ranking->cli, elect_rank_record, &told,
                "{rank>4}  {score}  {start<8}  {member}\n");
    return SPAN_MS(told.starts_in_ms);
}

static enum hf_status print_all_ranks(const struct ranking *ranking)
{
    struct cli *cli = ranking->cli;
    const char *const *names = ranking->present.names;
    size_t count = ranking->present.count;
    struct hf_elect_place *places = arena_take(&cli->arena, (count + 1) * sizeof *places);
    if (!places)
        return error_no_memory(&cli->error);
    enum hf_status status = hf_elect_order(&ranking->work, names, count, places, &cli->error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        print_rank(ranking, i, places[i].score, names[places[i].member]);
    return HF_OK;
}

/* Prints the rank of one member, which need not have joined. HELD until the member may start. */
static enum hf_status print_own_rank(const struct ranking *ranking, const char *own)
{
    struct cli *cli = ranking->cli;
    char text[SPAN_TEXT_MAX];
    size_t rank;
    uint64_t score;
    enum hf_status status =
        hf_elect_rank(&ranking->work, ranking->present.names, ranking->present.count, own,
                      &rank, &score, &cli->error);
    if (status != HF_OK)
        return status;
    struct span left = print_rank(ranking, rank, score, own);
    if (left.us == 0)
        return HF_OK;
    cli->refusal = json_object();
    json_add(&cli->refusal, "retry_after_ms", json_integer(left.us / 1000));
    return error_set(&cli->error, HF_HELD, "%zu %s first; %.64s may start in %s", rank,
                     rank == 1 ? "member comes" : "members come", own, brief_text(left, text));
}

/* The time that the work has been due is measured by the wall clock. */
enum hf_status run_elect_rank(struct cli *cli)
{
    const char *as = option_text(cli, "as"), *due = option_text(cli, "due");
    struct wall_time now = env_wall(cli->env), since = now;
    struct ranking ranking = { .cli = cli,
                               .work = HF_ELECT_WORK,
                               .present = { .arena = &cli->arena },
                               .step_ms = option_ms(cli, "step", ELECT_STEP_MS) };
    enum hf_status status = parse_work(cli, &ranking.work);
    if (status == HF_OK && due)
        status = parse_time(view_of(due), &since, &cli->error);
    ranking.due_for_ms = now.us > since.us ? (now.us - since.us) / 1000 : 0;
    if (status == HF_OK)
        status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_elect_members(cli->client, cli->arguments[0], elect_beat_ms(cli),
                                  add_present, &ranking, &cli->error);
    if (status == HF_OK && ranking.present.no_memory)
        status = error_no_memory(&cli->error);
    if (status != HF_OK)
        return status;
    return as ? print_own_rank(&ranking, as) : print_all_ranks(&ranking);
}
