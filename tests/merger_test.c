/* SPDX-License-Identifier: Apache-2.0 */
/* merger_test.c: the real merger on files: its output, the source that it blames for a failure,
 * and what it leaves behind. */
#include "base/hash.h"
#include "base/layout.h"
#include "merger_kit.h"
#include "scripted_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What goes well ------------------------------------------------------------------ */

static void test_merges(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    expect_output(&smithy, MERGED);
    assert_int_equal(smithy.product.rows_in, 6);
    assert_int_equal(smithy.product.rows_out, 6);
    assert_int_equal(smithy.product.bytes_read, 24);
    assert_int_equal(smithy.last_done, smithy.last_total);
    smithy_close(&smithy);
}

static void test_rejects_are_kept(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    smithy.settings.time = VIEW("2");
    smithy.settings.rejects_max = 1;
    put_source(&smithy, 0, VIEW("a" US "no time\nd" US "1763200800\n"), 2);
    put_source(&smithy, 1, VIEW("b" US "1763200800\ne" US "1763200800\n"), 2);
    put_source(&smithy, 2, VIEW("b" US "1763200801\nf" US "1763200800\n"), 2);
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.rows_rejected, 1);
    assert_int_equal(smithy.product.rows_superseded, 1);
    assert_int_equal(smithy.product.rows_out, 4);
    assert_string_equal(smithy.product.rejects, LAYOUT_KEPT_FOLDER OUTPUT LAYOUT_REJECTS);
    char *text = world_text(&smithy.world, smithy.product.rejects);
    assert_non_null(text);
    assert_non_null(strstr(text, "no time"));
    free(text);
    smithy_close(&smithy);
}

static void test_lost_reply_of_the_put(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    for (long n = 0; n < 8; n++) {
        struct delete_call call = { .key = VIEW(OUTPUT) };
        way_fail(&smithy.peer.way, n, LOSE_REPLY);
        enum hf_status status = merger(&smithy);
        bool failed = way_has_failed(&smithy.peer.way);
        assert_status(HF_OK, status, &smithy.error);
        expect_output(&smithy, MERGED);
        assert_int_equal(store_delete(smithy.world.truth, &call), HF_OK);
        if (!failed)
            break;
    }
    smithy_close(&smithy);
}

static void use_store(struct smithy *smithy, struct store *store)
{
    file_merger_free(smithy->merger);
    smithy->merger = file_merger_new(env_real(), store, smithy->scratch, 1, &smithy->error);
    assert_non_null(smithy->merger);
    file_merger_allow(smithy->merger, &smithy_programs);
}

/* As a store whose multipart uploads ignore conditions answers for more than 5 GiB. */
static struct fate refuse_conditions(void *argument, struct script_call *call)
{
    (void)argument;
    return call->put->condition.kind == CONDITION_ALWAYS ? PASS : REFUSE(HF_UNSUPPORTED);
}

static void test_output_too_large_for_conditions(void **state)
{
    struct smithy smithy;
    struct script script;
    (void)state;
    smithy_open(&smithy);
    script_init(&script, &smithy.peer.way.base);
    script_rule(&script, .on = ON_PUT_FILE, .decide = refuse_conditions);
    use_store(&smithy, &script.base);
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    expect_output(&smithy, MERGED);
    use_store(&smithy, &smithy.peer.way.base);
    store_close(&script.base);
    smithy_close(&smithy);
}

/* ---- Bad sources --------------------------------------------------------------------- */

static void test_wrong_checksum(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    world_write(&smithy.world, smithy.keys[1], VIEW("b" US "2\ne" US "9\n"));
    assert_status(HF_CORRUPT, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 1);
    assert_null(world_text(&smithy.world, OUTPUT));
    smithy_close(&smithy);
}

static void test_wrong_size(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    world_write(&smithy.world, smithy.keys[2], VIEW(""));
    assert_status(HF_CORRUPT, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 2);
    assert_non_null(strstr(smithy.error.why, "0 bytes"));
    smithy_close(&smithy);
}

static void test_missing(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    struct delete_call call = { .key = view_of(smithy.keys[0]) };
    assert_int_equal(store_delete(smithy.world.truth, &call), HF_OK);
    assert_status(HF_NOT_FOUND, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 0);
    smithy_close(&smithy);
}

static void test_wrong_rows(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    smithy.sources[1].rows = 3;
    assert_status(HF_CORRUPT, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 1);
    assert_null(world_text(&smithy.world, OUTPUT));
    smithy_close(&smithy);
}

/* What came damaged has the checksum of what came. */
static void test_damaged_from_the_start(void **state)
{
    static const char gzip[] = "\x1f\x8b\x08\x00 and then nothing of that kind";
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    put_source(&smithy, 1, (struct view){ gzip, sizeof gzip - 1 }, 2);
    assert_int_not_equal(merger(&smithy), HF_OK);
    assert_int_equal(smithy.product.culprit, 1);
    assert_non_null(strstr(smithy.error.why, smithy.keys[1]));
    assert_null(strstr(smithy.error.why, smithy.scratch));
    smithy_close(&smithy);
}

static void test_rejects_name_the_key(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    smithy.settings.time = VIEW("2");
    smithy.settings.rejects_max = 0;
    put_source(&smithy, 2, VIEW("b" US "never\nf" US "6\n"), 2);
    assert_status(HF_INVALID, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 2);
    assert_non_null(strstr(smithy.error.why, smithy.keys[2]));
    assert_null(strstr(smithy.error.why, smithy.scratch));
    smithy_close(&smithy);
}

/* Each chunk may have as many as were let in: together they are more. */
static void test_rejects_count_by_chunk(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    smithy.settings.time = VIEW("2");
    smithy.settings.rejects_max = 1;
    for (size_t i = 0; i < SOURCES; i++)
        put_source(&smithy, i, VIEW("b" US "never\nf" US "6\n"), 2);
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.rows_rejected, SOURCES);
    smithy_close(&smithy);
}

/* A worker with little memory must not reject what another merges. */
static void test_long_rows_are_rows_in_any_memory(void **state)
{
    struct smithy smithy;
    char *text = malloc(5 * MIB + 1);
    (void)state;
    ASSERT(text);
    memset(text, 'x', 5 * MIB);
    text[1] = US[0];
    text[5 * MIB] = '\n';
    smithy_open(&smithy);
    smithy.settings.rejects_max = HF_MERGE_REJECTS_ANY;
    put_source(&smithy, 2, (struct view){ text, 5 * MIB + 1 }, 1);
    smithy.memory_bytes = HF_MERGE_MEMORY_MIN;
    assert_status(HF_UNAVAILABLE, merger(&smithy), &smithy.error);
    assert_non_null(strstr(smithy.error.why, "memory"));
    assert_int_equal(smithy.product.culprit, MERGE_NO_CULPRIT);
    assert_false(smithy.product.group_fault);
    smithy.memory_bytes = 16 * MIB;
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.rows_rejected, 0);
    assert_int_equal(smithy.product.rows_out, 5);
    smithy_close(&smithy);
    free(text);
}

/* What was let in before times needed a zone is left alone by itself. */
static void test_no_zone(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    smithy.settings.time = VIEW("2");
    smithy.settings.rejects_max = HF_MERGE_REJECTS_ANY;
    put_source(&smithy, 1, VIEW("b" US "2026-01-01 00:00:00\nf" US "6\n"), 2);
    assert_status(HF_INVALID, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, 1);
    assert_non_null(strstr(smithy.error.why, "record 1 has a time without a zone"));
    assert_non_null(strstr(smithy.error.why, smithy.keys[1]));
    smithy_close(&smithy);
}

/* A smithy on a store of files, which lends them as they lie. */
struct workshop {
    struct smithy smithy;
    struct merger *own_merger;
    struct store *own_truth;
    char *folder;
};

static void workshop_open(struct workshop *workshop)
{
    struct hf_error error;
    struct smithy *smithy = &workshop->smithy;
    struct store *store;
    char url[4400];
    smithy_open(smithy);
    workshop->folder = test_dir_make();
    snprintf(url, sizeof url, "dir:%s/b", workshop->folder);
    MUST(store_open(env_real(), view_of(url), &store, &error));
    workshop->own_merger = smithy->merger;
    workshop->own_truth = smithy->world.truth;
    smithy->merger = file_merger_new(env_real(), store, smithy->scratch, 1, &error);
    ASSERT(smithy->merger);
    smithy->world.truth = store;
    for (size_t i = 0; i < SOURCES; i++)
        put_source(smithy, i, view_of(smithy_bodies[i]), 2);
}

static void workshop_close(struct workshop *workshop)
{
    struct smithy *smithy = &workshop->smithy;
    file_merger_free(smithy->merger);
    store_close(smithy->world.truth);
    smithy->merger = workshop->own_merger;
    smithy->world.truth = workshop->own_truth;
    test_dir_remove(workshop->folder);
    smithy_close(smithy);
}

/* What a store lends has no name of its own. */
static void test_lent_source_is_named_by_its_key(void **state)
{
    struct workshop workshop;
    struct smithy *smithy = &workshop.smithy;
    (void)state;
    workshop_open(&workshop);
    put_source(smithy, 1, VIEW("\x1f\x8b\x08 and then nothing of that kind"), 2);
    assert_int_not_equal(merger(smithy), HF_OK);
    assert_non_null(strstr(smithy->error.why, smithy->keys[1]));
    assert_null(strstr(smithy->error.why, "/proc/"));
    workshop_close(&workshop);
}

/* An object that somebody has made a link of is not read, and not certainly damaged. */
static void test_unreadable(void **state)
{
    struct workshop workshop;
    struct smithy *smithy = &workshop.smithy;
    char path[4600];
    (void)state;
    workshop_open(&workshop);
    snprintf(path, sizeof path, "%s/b/%s", workshop.folder, smithy->keys[1]);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    enum hf_status status = merger(smithy);
    assert_true(status == HF_INVALID || status == HF_DENIED);
    assert_non_null(strstr(smithy->error.why, smithy->keys[1]));
    assert_int_equal(smithy->product.culprit, MERGE_NO_CULPRIT);
    assert_true(smithy->product.group_fault);
    workshop_close(&workshop);
}

/* Damage may make a merge fail in any way: rows that cannot be merged, rows out of order, other
 * numbers of rows, and none of it. In each case the damaged source is blamed, for its checksum, and
 * not one that is only unlike the others. */
static void test_damage_is_blamed_however_it_shows(void **state)
{
    static const char *const damaged[] = {
        "b" US "2\ne" US "9\n",          /* a merge would not notice */
        "b" US "2\na" US "5\n",          /* out of order */
        "b" US "2\ne" US "x\n",          /* no time */
        "b" US "2xe" US "5\n",           /* one row less */
        "\x1f\x8b\x08" US "e" US "\n\n", /* as if it were compressed */
    };
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        for (int lends = 0; lends < 2; lends++) {
            struct workshop workshop;
            struct smithy *smithy = &workshop.smithy;
            if (lends)
                workshop_open(&workshop);
            else
                smithy_open(smithy);
            smithy->settings.time = VIEW("2");
            smithy->settings.rejects_max = 0;
            assert_int_equal(strlen(damaged[i]), strlen(smithy_bodies[1]));
            world_write(&smithy->world, smithy->keys[1], view_of(damaged[i]));
            assert_status(HF_CORRUPT, merger(smithy), &smithy->error);
            assert_int_equal(smithy->product.culprit, 1);
            assert_non_null(strstr(smithy->error.why, "checksum"));
            assert_non_null(strstr(smithy->error.why, smithy->keys[1]));
            assert_false(smithy->product.put_sent);
            assert_null(world_text(&smithy->world, OUTPUT));
            if (lends)
                workshop_close(&workshop);
            else
                smithy_close(smithy);
        }
}

/* Damages what is read, so many times. Objects that could be lent are not. */
static void flip_a_byte(void *argument, struct script_call *call)
{
    unsigned *left = argument;
    if (call->ret_fd || *left == 0)
        return;
    ASSERT(pwrite(call->fd, "X", 1, 2) == 1);
    --*left;
}

/* A source that comes damaged is read again, twice, before it is blamed. */
static void test_damaged_on_its_way(void **state)
{
    (void)state;
    for (unsigned times = 1; times <= 3; times++) {
        struct smithy smithy;
        smithy_open(&smithy);
        unsigned left = times;
        script_rule(&smithy.peer.way, .on = ON_GET_FILE, .part = smithy.keys[1],
                    .reply = flip_a_byte, .argument = &left);
        enum hf_status status = merger(&smithy);
        assert_int_equal(left, 0);
        if (times < 3) {
            assert_status(HF_OK, status, &smithy.error);
            expect_output(&smithy, MERGED);
            assert_int_equal(smithy.product.bytes_read, 24 + 8 * times);
        } else {
            assert_status(HF_CORRUPT, status, &smithy.error);
            assert_int_equal(smithy.product.culprit, 1);
            assert_null(world_text(&smithy.world, OUTPUT));
        }
        smithy_close(&smithy);
    }
}

static void test_right_sources_are_read_once(void **state)
{
    struct workshop workshop;
    struct smithy *smithy = &workshop.smithy;
    (void)state;
    workshop_open(&workshop);
    assert_status(HF_OK, merger(smithy), &smithy->error);
    expect_output(smithy, MERGED);
    assert_int_equal(smithy->product.bytes_read, 24);
    workshop_close(&workshop);
}

/* ---- The output ---------------------------------------------------------------------- */

static void test_output_exists(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    world_write(&smithy.world, OUTPUT, VIEW("somebody else's"));
    assert_status(HF_CONFLICT, merger(&smithy), &smithy.error);
    assert_int_equal(smithy.product.culprit, MERGE_NO_CULPRIT);
    assert_false(smithy.product.group_fault);
    char *text = world_text(&smithy.world, OUTPUT);
    assert_string_equal(text, "somebody else's");
    free(text);
    smithy_close(&smithy);
}

static void test_output_is_there(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    world_write(&smithy.world, OUTPUT, VIEW(MERGED));
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    smithy_close(&smithy);
}

static void test_cancelled(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    for (smithy.stop_after = 1;; smithy.stop_after++) {
        enum hf_status status = merger(&smithy);
        if (status == HF_OK)
            break;
        assert_status(HF_CANCELLED, status, &smithy.error);
        assert_false(smithy.product.group_fault);
        assert_int_equal(files_in(smithy.scratch), 0);
        ASSERT(smithy.stop_after < 100);
    }
    assert_true(smithy.stop_after > 1);
    smithy_close(&smithy);
}

/* As on a disk that is full, nothing more can be written. */
static void test_no_room(void **state)
{
    struct smithy smithy;
    struct rlimit before, none;
    (void)state;
    smithy_open(&smithy);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 4;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    enum hf_status status = merger(&smithy);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_not_equal(status, HF_OK);
    assert_int_equal(smithy.product.culprit, MERGE_NO_CULPRIT);
    assert_false(smithy.product.group_fault);
    assert_status(HF_OK, merger(&smithy), &smithy.error);
    smithy_close(&smithy);
}

/* ---- Commands ------------------------------------------------------------------------ */

static void judge_command(const char *line, enum hf_status expected, bool group_fault,
                          const char *why)
{
    struct smithy smithy;
    smithy_open(&smithy);
    smithy.settings.command = view_of(line);
    smithy.settings.command_limit_ms = expected == HF_TIMEOUT ? 300 : 60000;
    enum hf_status status = merger(&smithy);
    if (status != expected)
        FAIL("%s: %s: %s", line, hf_status_name(status), smithy.error.why);
    assert_true(smithy.product.group_fault == group_fault);
    assert_int_equal(smithy.product.culprit, MERGE_NO_CULPRIT);
    if (why && !strstr(smithy.error.why, why))
        FAIL("%s: '%s' is not in '%s'", line, why, smithy.error.why);
    char *text = world_text(&smithy.world, OUTPUT);
    assert_true((text != NULL) == (status == HF_OK));
    free(text);
    smithy_close(&smithy);
}

static void expect_command(const char *line, enum hf_status expected, const char *why)
{
    judge_command(line, expected, /* group_fault */ expected != HF_OK, why);
}

static void test_command(void **state)
{
    (void)state;
    expect_command("sort -o {output} {inputs}", HF_OK, NULL);
    expect_command("sh -c 'head -n 1 -q \"$@\" > {output}' x {inputs}", HF_OK, NULL);
}

static void test_command_fails(void **state)
{
    (void)state;
    expect_command("sh -c 'echo bad data >&2; exit 3' {output}", HF_UNAVAILABLE, "bad data");
    expect_command("sh -c 'exit 0' {output}", HF_UNAVAILABLE, NULL);
}

/* More than its sources hold it cannot have made of them. */
static void test_command_writes_too_much(void **state)
{
    (void)state;
    expect_command("sh -c 'head -c 18000000 /dev/zero > $0' {output} {inputs}", HF_UNAVAILABLE,
                   NULL);
}

static void test_command_cannot_start(void **state)
{
    (void)state;
    judge_command("no-such-program {output} {inputs}", HF_INVALID, false, "no program");
    judge_command("/dev/null {output} {inputs}", HF_INVALID, false, "cannot run");
    judge_command("sh 'x {output} {inputs}", HF_INVALID, false, "unclosed");
}

static void test_command_hangs(void **state)
{
    (void)state;
    expect_command("sh -c 'sleep 100' {output}", HF_TIMEOUT, NULL);
}

static void test_command_lies(void **state)
{
    (void)state;
    expect_command("sh -c ': > {output}'", HF_CORRUPT, "its output file is empty");
    expect_command("sh -c 'cat \"$@\" \"$@\" > {output}' x {inputs}", HF_CORRUPT,
                   "12 rows from 6");
    expect_command("sh -c 'cat \"$@\" > {output}; echo x >> $1' x {inputs}", HF_CORRUPT,
                   "changed or removed its input");
}

/* A command that leaves a file behind when it runs. */
static void expect_refusal(const struct allow_exec *some, const char *program)
{
    struct smithy smithy;
    char line[4600], marker[4200];
    smithy_open(&smithy);
    snprintf(marker, sizeof marker, "%s.ran", smithy.scratch);
    snprintf(line, sizeof line, "%s -c 'touch %s; cat \"$@\" > {output}' x {inputs}", program,
             marker);
    smithy.settings.command = view_of(line);
    file_merger_allow(smithy.merger, some);
    assert_status(HF_DENIED,
                  smithy.merger->allows(smithy.merger, &smithy.settings, &smithy.error),
                  &smithy.error);
    assert_status(HF_DENIED, merger(&smithy), &smithy.error);
    assert_non_null(strstr(smithy.error.why, "needs allow_exec"));
    assert_non_null(strstr(smithy.error.why, program));
    assert_false(smithy.product.group_fault || smithy.product.put_sent);
    assert_int_equal(smithy.product.culprit, MERGE_NO_CULPRIT);
    if (access(marker, F_OK) == 0) {
        unlink(marker);
        FAIL("%s was run", program);
    }
    smithy_close(&smithy);
}

static void test_command_is_not_allowed(void **state)
{
    static const char *const sort_only[] = { "/usr/bin/sort" };
    const struct allow_exec none = { .count = 0 }, some = { .programs = sort_only, .count = 1 };
    (void)state;
    expect_refusal(&none, "sh");
    expect_refusal(&none, "/bin/sh");
    expect_refusal(&some, "sh");
    expect_refusal(&smithy_programs, "/usr/bin/../bin/sh");
    expect_refusal(&smithy_programs, "/tmp/sh");
    expect_refusal(&smithy_programs, "./sh");
    expect_command("/usr/bin/sort -o {output} {inputs}", HF_OK, NULL);
}

/* What a shell sets by itself is not of our environment. */
static bool is_listed(const char *variable)
{
    static const char *const names[] = { "PATH=",       "HOME=",     "LANG=",  "LC_ALL=",
                                         "LC_COLLATE=", "LC_CTYPE=", "TZ=",    "TMPDIR=",
                                         "PWD=",        "OLDPWD=",   "SHLVL=", "_=" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void test_command_environment(void **state)
{
    char line[4600], *folder = test_dir_make(), seen[4200], variable[4096];
    bool has_path = false;
    (void)state;
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "hunter2", 1), 0);
    assert_int_equal(setenv("HOLDFAST_STORE", "dir:secret", 1), 0);
    assert_int_equal(setenv("LD_PRELOAD_OF_A_TEST", "x", 1), 0);
    snprintf(seen, sizeof seen, "%s/seen", folder);
    snprintf(line, sizeof line,
             "sh -c '(env; ulimit -c) > %s; head -n 1 -q \"$@\" > {output}' x {inputs}", seen);
    expect_command(line, HF_OK, NULL);
    FILE *file = fopen(seen, "r");
    assert_non_null(file);
    while (fgets(variable, sizeof variable, file)) {
        has_path |= strncmp(variable, "PATH=", 5) == 0;
        if (!is_listed(variable) && strcmp(variable, "0\n") != 0)
            FAIL("it saw %s", variable);
    }
    fclose(file);
    assert_true(has_path);
    assert_int_equal(unsetenv("AWS_SECRET_ACCESS_KEY") | unsetenv("HOLDFAST_STORE") |
                         unsetenv("LD_PRELOAD_OF_A_TEST"),
                     0);
    test_dir_remove(folder);
}

static void test_command_limits(void **state)
{
    struct allow_exec small = smithy_programs;
    (void)state;
    small.file_bytes_max = 4096;
    struct smithy smithy;
    smithy_open(&smithy);
    file_merger_allow(smithy.merger, &small);
    smithy.settings.command = VIEW("sh -c 'head -c 100000 /dev/zero > {output}' x {inputs}");
    assert_status(HF_UNAVAILABLE, merger(&smithy), &smithy.error);
    assert_non_null(strstr(smithy.error.why, "/bin/sh"));
    smithy_close(&smithy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("sources are merged into one output, and no file is left", test_merges),
        IT("rows that cannot be read are kept aside", test_rejects_are_kept),
        IT("a put whose reply is lost is found to have happened", test_lost_reply_of_the_put),
        IT("an output that is too large for a conditional put is put without a condition",
           test_output_too_large_for_conditions),
        IT("a source with a wrong checksum is blamed", test_wrong_checksum),
        IT("a source that was emptied is blamed", test_wrong_size),
        IT("a damaged source is blamed for its checksum, however the damage shows",
           test_damage_is_blamed_however_it_shows),
        IT("a source that comes damaged is read twice more before it is blamed",
           test_damaged_on_its_way),
        IT("sources that are lent and right are merged, and read once",
           test_right_sources_are_read_once),
        IT("a source that is gone is told as such", test_missing),
        IT("a source with other rows than the catalog says is blamed", test_wrong_rows),
        IT("a source that came damaged is found", test_damaged_from_the_start),
        IT("too many rows that cannot be read are told with the key",
           test_rejects_name_the_key),
        IT("so many rows that cannot be read may each source have",
           test_rejects_count_by_chunk),
        IT("a long row is a row, whatever memory a worker has",
           test_long_rows_are_rows_in_any_memory),
        IT("a source with a time without a zone is blamed", test_no_zone),
        IT("a source that is read where it lies is told by its key",
           test_lent_source_is_named_by_its_key),
        IT("a source that cannot be read counts against its group", test_unreadable),
        IT("an object of somebody else under the output's name is left", test_output_exists),
        IT("an output that is there already counts as put", test_output_is_there),
        IT("it can be stopped at every step, and leaves nothing", test_cancelled),
        IT("no room to write is nobody's fault", test_no_room),
        IT("a command merges", test_command),
        IT("a command that fails is told with its words", test_command_fails),
        IT("a command that writes more than there can be is stopped",
           test_command_writes_too_much),
        IT("a command that cannot be started is nobody's fault", test_command_cannot_start),
        IT("a command that hangs is ended", test_command_hangs),
        IT("a command that lies is found out", test_command_lies),
        IT("a command runs only if its program is allowed", test_command_is_not_allowed),
        IT("a command sees what is listed of the environment, and no credentials",
           test_command_environment),
        IT("limits hold for a command of the bucket", test_command_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
