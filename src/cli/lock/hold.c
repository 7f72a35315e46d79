/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c: `acquire`, `renew` and `release`: a lease that outlives the command and is passed to
 * others as text. Also contains the functions with which other commands acquire a lock. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_MS_DEFAULT 60000
#define TELL_AFTER      SPAN_S(1) /* shorter store problems are not reported */
#define CANCEL_EACH     SPAN_MS(50)

/* ---- Options and clients ------------------------------------------------------------- */

const char *user_name(char text[USER_TEXT_MAX])
{
    char space[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, space, sizeof space, &found) == 0 && found)
        snprintf(text, USER_TEXT_MAX, "%.80s", found->pw_name);
    else
        snprintf(text, USER_TEXT_MAX, "uid-%ld", (long)geteuid());
    return text;
}

const char *user_text(char text[USER_TEXT_MAX])
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    user_name(text);
    size_t size = strlen(text);
    snprintf(text + size, USER_TEXT_MAX - size, "@%s", host);
    return text;
}

enum hf_status lock_options(struct cli *cli, bool has_modes, struct hf_lock_options *options)
{
    *options = HF_LOCK_OPTIONS;
    options->ttl_ms = option_ms(cli, "ttl", options->ttl_ms);
    if (!has_modes)
        return HF_OK;
    const char *mode = option_text(cli, "mode");
    const struct option_value *slots = cli_option(cli, "slots");
    if (mode && strcmp(mode, "shared") == 0)
        options->mode = HF_SHARED;
    else if (mode && strcmp(mode, "exclusive") != 0)
        return cli_invalid(cli, "--mode must be shared or exclusive, not '%.40s'", mode);
    if (slots && (slots->number == 0 || slots->number > UINT32_MAX))
        return cli_invalid(cli, "--slots must be between 1 and %" PRIu32, UINT32_MAX);
    if (slots) {
        options->mode = HF_SLOTS;
        options->slots = (uint32_t)slots->number;
    }
    if (!cli_has_option(cli, "once-per"))
        return HF_OK;
    const struct option_value *once_per = cli_option(cli, "once-per");
    const struct option_value *slack = cli_option(cli, "slack");
    options->once_per_ms = option_ms(cli, "once-per", 0);
    if (slack && !once_per)
        return cli_invalid(cli, "--slack requires --once-per");
    if (slack && slack->span.us >= once_per->span.us)
        return cli_invalid(cli, "--slack must be less than --once-per");
    if (slack)
        options->once_slack_ms = slack->span.us >= 1000 ? slack->span.us / 1000 : HF_NO_SLACK;
    return HF_OK;
}

/* ---- Conflicting leases -------------------------------------------------------------- */

void append_holder(struct buffer *text, const struct hf_lease_info *lease)
{
    char span[SPAN_TEXT_MAX];
    if (lease->barrier) {
        append_barrier(text, lease);
        return;
    }
    append_scopes(text, lease);
    buffer_append(text, VIEW(" has been held by "));
    escape_append(text, view_first(view_of(lease->holder), 60));
    buffer_print(text, " (token %" PRIu64 ") for %s", lease->token,
                 brief_text(SPAN_MS(lease->held_ms), span));
    if (lease->remaining_ms > 0)
        buffer_print(text, "; the lease expires in %s unless renewed",
                     brief_text(SPAN_MS(lease->remaining_ms), span));
}

void refusal_add_lease(json_t **refusal, const struct hf_lease_info *lease, const char *wanted)
{
    json_t *object = json_object();
    json_t *leased = *refusal ? json_incref(json_object_get(*refusal, "leased")) : json_array();
    json_int_t retry =
        *refusal ? json_integer_value(json_object_get(*refusal, "retry_after_ms")) : 0;
    if (wanted)
        json_add(&object, "scope", json_string(wanted));
    json_add_words(&object, "holder", view_of(lease->holder));
    json_add(&object, "expires_in_ms", json_integer(lease->remaining_ms));
    if (!*refusal)
        *refusal = json_copy(object);
    json_add(&object, "token", json_integer((json_int_t)lease->token));
    json_push(&leased, object);
    json_add(refusal, "leased", leased);
    int64_t later = lease->takeover_ms;
    json_add(refusal, "retry_after_ms", json_integer(later > retry ? later : retry));
}

struct blocking {
    struct buffer *text;  /* describes the first lease that was found */
    json_t **refusal;     /* the same as JSON; or NULL */
    size_t scopes_leased; /* how many of the requested scopes are leased */
};

static bool add_blocker(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    struct blocking *blocking = argument;
    if (blocking->scopes_leased++ == 0)
        append_holder(blocking->text, lease);
    if (blocking->refusal)
        refusal_add_lease(blocking->refusal, lease, scope);
    return true;
}

/* False if the store does not reply. */
static bool add_blockers(struct buffer *to, json_t **refusal, struct hf_lock *lock)
{
    struct blocking blocking = { to, refusal, 0 };
    char scope[HF_SCOPE_TEXT_MAX];
    size_t count = 0;
    enum hf_status status = hf_lock_blockers(lock, add_blocker, &blocking, /* error */ NULL);
    while (hf_lock_scope(lock, count, scope, /* error */ NULL) == HF_OK)
        count++;
    if (blocking.scopes_leased > 1)
        buffer_print(to, "; %zu of the %zu requested scopes are held", blocking.scopes_leased,
                     count);
    return status == HF_OK || status == HF_NOT_FOUND;
}

void append_blocker(struct buffer *to, struct hf_lock *lock)
{
    add_blockers(to, /* refusal */ NULL, lock);
}

void lock_explain(struct cli *cli, struct hf_lock *lock)
{
    char scope[HF_SCOPE_TEXT_MAX] = "";
    struct hf_blocker done = HF_BLOCKER;
    enum hf_status status = cli->error.status;
    if (status == HF_ALREADY && cli->json &&
        hf_lock_blocker(lock, &done, /* error */ NULL) == HF_OK &&
        done.state == HF_LEASE_COMPLETED) {
        cli->refusal = json_object();
        json_add_words(&cli->refusal, "holder", view_of(done.holder));
        json_add(&cli->refusal, "scope", json_string(done.scope));
        json_add(&cli->refusal, "retry_after_ms", json_integer(done.retry_ms));
    }
    if (status != HF_HELD && status != HF_TIMEOUT)
        return;
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
    bool replies = add_blockers(&text, cli->json ? &cli->refusal : NULL, lock);
    cli->conflict = status == HF_HELD || replies; /* otherwise, the TIMEOUT is the store's */
    hf_lock_scope(lock, 0, scope, /* error */ NULL);
    if (text.size > 0 && view_starts_with(view_of(scope), VIEW("chunk:")))
        cli->outcome = "chunks_already_leased";
    if (text.size > 0)
        error_set(&cli->error, status, "%s%.*s",
                  status == HF_TIMEOUT ? "gave up waiting: " : "",
                  VIEW_ARGS(view_first(buffer_view(&text), HF_WHY_MAX - 1)));
    buffer_release(&text);
}

/* ---- Acquiring ----------------------------------------------------------------------- */

struct waiting {
    const struct wait_call *call;
    int64_t wait_ms;
    struct hf_error error;
    struct env_mutex mutex; /* guards `over` */
    struct env_cond ended;
    bool over;
};

static void acquire_on_thread(void *argument)
{
    struct waiting *waiting = argument;
    waiting->call->acquire(waiting->call->argument, waiting->wait_ms, &waiting->error);
    env_mutex_lock(&waiting->mutex);
    waiting->over = true;
    env_cond_signal(&waiting->ended);
    env_mutex_unlock(&waiting->mutex);
}

bool tell_trouble_once(struct cli *cli, enum hf_status trouble, const struct hf_error *why,
                       bool told)
{
    if (told || cli->quiet || trouble == HF_OK)
        return told;
    struct hf_error said;
    error_set(&said, why->status, "waiting for the store: %.200s", why->why);
    cli_report(cli, cli_argument(cli, 0), &said);
    return true;
}

/* This thread waits for the thread that acquires the lock, and for signals. The cancellation is
 * repeated, because the wait may not have begun yet. */
static void wait_or_cancel(struct cli *cli, struct waiting *waiting)
{
    const struct wait_call *call = waiting->call;
    struct mono_time tell_at = mono_add(env_now(cli->env), TELL_AFTER);
    struct hf_error why;
    bool told = false;
    log_wait_begin(cli, call->lock);
    env_mutex_lock(&waiting->mutex);
    while (!waiting->over) {
        env_cond_wait_until(&waiting->ended, &waiting->mutex,
                            mono_add(env_now(cli->env), CANCEL_EACH));
        bool over = interrupted() || (call->gives_up && call->gives_up(call->argument));
        if (over && call->txn)
            hf_txn_interrupt(call->txn);
        else if (over)
            hf_lock_interrupt(call->lock);
        if (!over && !waiting->over && !mono_before(env_now(cli->env), tell_at))
            told = tell_trouble_once(cli,
                                     call->txn ? hf_txn_trouble(call->txn, &why)
                                               : hf_lock_trouble(call->lock, &why),
                                     &why, told);
    }
    env_mutex_unlock(&waiting->mutex);
    log_wait_end(cli);
}

enum hf_status wait_in_line(struct cli *cli, const struct wait_call *call)
{
    struct waiting waiting = { .call = call,
                               .wait_ms = option_ms(cli, "wait", WAIT_MS_DEFAULT) };
    struct env_task *task;
    if (cli_given(cli, "no-wait") || cli_span(cli, "wait", SPAN_S(1)).us == 0)
        return call->acquire(call->argument, 0, &cli->error);
    env_mutex_init(cli->env, &waiting.mutex);
    env_cond_init(cli->env, &waiting.ended);
    if (env_task_start(cli->env, acquire_on_thread, &waiting, &task, &waiting.error) == HF_OK) {
        wait_or_cancel(cli, &waiting);
        env_task_join(cli->env, task);
    }
    env_cond_release(&waiting.ended);
    env_mutex_release(&waiting.mutex);
    cli->error = waiting.error;
    return cli->error.status;
}

static enum hf_status acquire_lock(void *argument, int64_t wait_ms, struct hf_error *error)
{
    return hf_lock_acquire(argument, wait_ms, error);
}

enum hf_status lock_acquire(struct cli *cli, struct hf_lock *lock)
{
    wait_in_line(cli, &(struct wait_call){ acquire_lock, lock, .lock = lock });
    lock_explain(cli, lock);
    return cli->error.status;
}

/* ---- Output -------------------------------------------------------------------------- */

const struct field told_grant_record[] = TOLD_GRANT_RECORD;
const struct field told_lease_record[] = TOLD_LEASE_RECORD;

enum hf_status told_lease_fill(struct cli *cli, struct hf_lock *lock, struct told_lease *told)
{
    struct names scopes = { .arena = &cli->arena };
    char scope[HF_SCOPE_TEXT_MAX];
    *told = (struct told_lease){ .token = hf_lock_token(lock),
                                 .ttl_ms = hf_lock_ttl_ms(lock),
                                 .expires_in_ms = hf_lock_remaining_ms(lock) };
    while (hf_lock_scope(lock, scopes.count, scope, /* error */ NULL) == HF_OK)
        if (!names_add(&scopes, view_of(scope)))
            return error_no_memory(&cli->error);
    told->scopes = scopes.names;
    told->scope_count = scopes.count;
    return hf_lock_text(lock, told->lease, &cli->error);
}

enum hf_status lease_hand_over(struct cli *cli, struct hf_lock *lock)
{
    struct told_lease told;
    enum hf_status status = told_lease_fill(cli, lock, &told);
    if (status == HF_OK) {
        record_show(cli, told_lease_record, &told, "{lease}\n");
        status = output_flush_or_undo(&cli->out, &cli->error);
    }
    if (status == HF_OK)
        hf_lock_detach(lock);
    else
        hf_lock_free(lock);
    return status;
}

/* ---- acquire ------------------------------------------------------------------------- */

enum hf_status run_acquire(struct cli *cli)
{
    struct hf_lock *lock = NULL;
    struct hf_lock_options options;
    enum hf_status status = lock_options(cli, /* has_modes */ true, &options);
    options.no_renewal = true;
    options.note = option_text(cli, "note");
    if (status == HF_OK)
        status = cli_connect_as_user(cli);
    if (status == HF_OK)
        status = hf_lock_new_many(cli->client, cli->arguments, cli->argument_count, &options,
                                  &lock, &cli->error);
    if (status == HF_OK)
        status = lock_acquire(cli, lock);
    if (status == HF_OK)
        return lease_hand_over(cli, lock);
    hf_lock_free(lock);
    return status;
}

/* ---- renew, release ------------------------------------------------------------------ */

bool is_lease_text(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return strcmp(text, "-") == 0 || (digits > 0 && text[digits] == ':');
}

enum hf_status lease_text(struct cli *cli, const char *given, const char **ret_text)
{
    *ret_text = given ? given : getenv("HOLDFAST_LEASE");
    if (!given || strcmp(given, "-") != 0)
        return HF_OK;
    char *text = arena_take(&cli->arena, HF_LEASE_TEXT_MAX);
    size_t size = 0;
    ssize_t got = 1;
    if (!text)
        return error_no_memory(&cli->error);
    while (got != 0 && size < HF_LEASE_TEXT_MAX - 1 && !memchr(text, '\n', size)) {
        got = read(STDIN_FILENO, text + size, HF_LEASE_TEXT_MAX - 1 - size);
        if (got > 0)
            size += (size_t)got;
        else if (got < 0 && errno != EINTR)
            return error_from_errno(&cli->error, errno, "read the lease from stdin");
        else if (interrupted())
            return interrupt_check(&cli->error);
    }
    text[size] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *ret_text = text;
    return text[0] ? HF_OK : cli_invalid(cli, "there is no lease on stdin");
}

enum hf_status lease_adopt(struct cli *cli, const char *text, bool renew,
                           struct hf_lock **ret_lock)
{
    struct hf_lease_name name = HF_LEASE_NAME;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    enum hf_status status = lease_text(cli, text, &text);
    if (status == HF_OK && (!text || !text[0]))
        return cli_invalid(cli, cli_has_option(cli, "lock")
                                    ? "no lock was given: use --lock NAME, or run this under "
                                      "'holdfast run', which sets HOLDFAST_LEASE"
                                    : "no lease was given: pass the one that 'holdfast "
                                      "acquire' printed, or set HOLDFAST_LEASE");
    options.no_renewal = !renew;
    if (status == HF_OK)
        status = hf_lease_parse(text, &name, &cli->error);
    if (status == HF_OK)
        status = cli_connect_as(cli, name.ns, /* holder */ NULL);
    if (status == HF_OK)
        status = hf_lock_adopt(cli->client, text, &options, ret_lock, &cli->error);
    return status;
}

enum hf_status run_renew(struct cli *cli)
{
    struct hf_lock *lock = NULL;
    struct told_lease told;
    enum hf_status status =
        lease_adopt(cli, cli_argument(cli, 0).data, /* renew */ false, &lock);
    if (status == HF_OK)
        status = told_lease_fill(cli, lock, &told);
    if (status == HF_OK)
        record_tell(cli, told_lease_record, &told, "renewed for {ttl_ms}\n");
    hf_lock_detach(lock);
    return status;
}

struct released {
    bool released;
    uint64_t token;
};

const struct field released_record[] = RELEASED_RECORD;

enum hf_status run_release(struct cli *cli)
{
    struct hf_lock *lock = NULL;
    const char *note = option_text(cli, "note");
    bool complete = cli_given(cli, "complete"), fail = cli_given(cli, "fail");
    if (note && !complete && !fail)
        return cli_invalid(cli, "--note requires --complete or --fail");
    enum hf_status status =
        lease_adopt(cli, cli_argument(cli, 0).data, /* renew */ false, &lock);
    if (status == HF_OK) {
        struct released released = { true, hf_lock_token(lock) };
        status = complete ? hf_lock_complete(lock, note, &cli->error)
                 : fail   ? hf_lock_fail(lock, note, &cli->error)
                          : hf_lock_release(lock, &cli->error);
        if (status == HF_OK)
            record_tell(cli, released_record, &released, NULL);
    }
    hf_lock_detach(lock); /* a lease that could not be ended (a bad note) is left unchanged */
    return status;
}
