/* SPDX-License-Identifier: Apache-2.0 */
/* merge_core_test.c: the internals of merging: codes of keys, the tree, the memory budget, and
 * every failing allocation. merge_test.py compares whole merges with a reference. */
#include "alloc.h"
#include "base/prng.h"
#include "env/env.h"
#include "merge/job.h"
#include "merge/tree.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Codes and the tree -------------------------------------------------------------- */

#define KEY_ROOM 96

struct key {
    char bytes[KEY_ROOM + KEY_SLACK];
    size_t size;
};

static struct view key_view(const struct key *key)
{
    return (struct view){ key->bytes, key->size };
}

/* Few different bytes, much in common, ends everywhere: around the edges of columns too. */
static void draw_key(struct prng *prng, struct key *key)
{
    size_t sizes[] = { 0, 1, 2, 13, 14, 15, 27, 28, 29, 30, 42, 60 };
    key->size = sizes[prng_below(prng, sizeof sizes / sizeof sizes[0])];
    memset(key->bytes, (int)prng_below(prng, 256), sizeof key->bytes);
    memset(key->bytes, 'a', key->size);
    if (prng_below(prng, 50) == 0)
        memset(key->bytes, '\xff', key->size);
    for (unsigned changes = 0; key->size && changes < 2; changes++)
        key->bytes[prng_below(prng, key->size)] = "\0ab\xff"[prng_below(prng, 4)];
}

static int compare_keys(const void *a, const void *b)
{
    return view_compare(key_view(a), key_view(b));
}

static void codes_order_keys_and_stay_right_for_the_loser(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(1);
    for (int round = 0; round < 200000; round++) {
        struct key keys[3];
        for (int i = 0; i < 3; i++)
            draw_key(&prng, &keys[i]);
        qsort(keys, 3, sizeof keys[0], compare_keys);
        struct view base = key_view(&keys[0]), a = key_view(&keys[1]), b = key_view(&keys[2]);
        order_code code_a = 0, code_b = 0, against_a = 0, backward;
        assert_true(order_against(base, a, 0, &code_a));
        assert_true(order_against(base, b, 0, &code_b));
        assert_true(order_against(a, b, 0, &against_a));
        assert_true(code_a <= code_b && code_b < CODE_END);
        assert_int_equal(code_a == CODE_EQUAL, view_equal(base, a));
        if (code_a < code_b)
            assert_true(against_a == code_b);
        else
            assert_true(common_prefix(a, b, 0) >= order_offset(code_a));
        if (!view_equal(base, b))
            assert_false(order_against(b, base, 0, &backward));
    }
}

#define LISTS_MAX 9
#define LIST_KEYS 12

struct lists {
    struct key keys[LISTS_MAX][LIST_KEYS];
    size_t at[LISTS_MAX];
};

static bool list_first(void *context, struct player *a, struct player *b)
{
    struct lists *lists = context;
    struct view key_a = key_view(&lists->keys[a->input][lists->at[a->input]]);
    struct view key_b = key_view(&lists->keys[b->input][lists->at[b->input]]);
    bool first = view_compare(key_a, key_b) <= 0;
    if (first)
        assert_true(order_against(key_a, key_b, 0, &b->code));
    else
        assert_true(order_against(key_b, key_a, 0, &a->code));
    return first;
}

static order_code list_code(struct lists *lists, size_t list)
{
    order_code code = 0;
    size_t at = lists->at[list];
    if (at == LIST_KEYS)
        return CODE_END;
    struct view base = at ? key_view(&lists->keys[list][at - 1]) : VIEW("");
    assert_true(order_against(base, key_view(&lists->keys[list][at]), 0, &code));
    return code;
}

static void merge_lists(struct prng *prng, size_t count)
{
    static struct lists lists;
    struct player players[2 * LISTS_MAX];
    memset(lists.at, 0, sizeof lists.at);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < LIST_KEYS; k++)
            draw_key(prng, &lists.keys[i][k]);
        qsort(lists.keys[i], LIST_KEYS, sizeof(struct key), compare_keys);
        players[count + i] = (struct player){ list_code(&lists, i), i };
    }
    struct tree tree = { .first = list_first, .context = &lists };
    tree_build(&tree, players, count);
    struct view last = VIEW("");
    size_t taken = 0;
    for (; tree.winner.code != CODE_END; taken++) {
        size_t list = tree.winner.input;
        struct view key = key_view(&lists.keys[list][lists.at[list]]);
        assert_true(view_compare(last, key) <= 0);
        assert_int_equal(tree.winner.code == CODE_EQUAL, view_equal(last, key));
        last = key;
        lists.at[list]++;
        tree_replay(&tree, list_code(&lists, list));
    }
    assert_int_equal(taken, count * LIST_KEYS);
}

static void the_tree_gives_all_keys_in_order_and_tells_equal_ones(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(2);
    for (int round = 0; round < 3000; round++)
        merge_lists(&prng, 1 + (size_t)prng_below(&prng, LISTS_MAX));
}

/* ---- Files --------------------------------------------------------------------------- */

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = test_dir_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_dir_remove(folder);
    return 0;
}

static const char *in_folder(const char *name)
{
    static char paths[512][300];
    static size_t next;
    char *path = paths[next++ % 512];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_text(const char *name, struct view text)
{
    const char *path = in_folder(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void assert_text(const char *path, struct view expected)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_int_equal(size, expected.size);
    assert_memory_equal(text, expected.data, size);
}

static size_t files_in_folder(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static struct merge_options latest_usv(void)
{
    struct merge_options options = MERGE_OPTIONS;
    options.format = HF_MERGE_USV;
    options.key = VIEW("1");
    options.time = VIEW("2");
    options.rejects_max = HF_MERGE_REJECTS_ANY;
    options.reject_path = in_folder("out.rejects");
    return options;
}

static enum hf_status merge(const struct merge_options *options, const char *const *inputs,
                            size_t count, struct merge_result *ret_result,
                            struct hf_error *error)
{
    return merge_files(env_real(), options,
                       &(struct merge_paths){ inputs, count, in_folder("out") }, ret_result,
                       error);
}

static void when_an_allocation_fails_nothing_is_left_behind(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    const char *inputs[] = {
        write_text("a", VIEW("a\x1f"
                             "1\nc\x1f"
                             "1\nc\x1f"
                             "2\nbad\n")),
        write_text("b", VIEW("b\x1f"
                             "1\na\x1f"
                             "2\n")),
        write_text("c", VIEW("b\x1f"
                             "3\n")),
    };
    for (options.threads = 1; options.threads <= 2; options.threads++) {
        for (long n = 0;; n++) {
            alloc_fail_after(n);
            enum hf_status status = merge(&options, inputs, 3, &result, &error);
            if (!alloc_stop())
                break;
            if (status != HF_UNAVAILABLE)
                fail_msg("allocation %ld: %s", n, hf_status_name(status));
            assert_int_equal(files_in_folder(), 3);
            assert_true(n < 10000);
        }
        assert_text(in_folder("out"), VIEW("a\x1f"
                                           "2\nb\x1f"
                                           "3\nc\x1f"
                                           "2\n"));
        assert_text(in_folder("out.rejects"), VIEW("bad\n"));
        assert_int_equal(result.inputs_unsorted, 1);
        unlink(in_folder("out"));
        unlink(in_folder("out.rejects"));
    }
}

/* The output of before stays as it was, beside the rows that stopped it. */
static void rejects_that_may_not_be_are_all_that_is_left(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    const char *inputs[] = { write_text("a", VIEW("b\x1f"
                                                  "1\nbad\na\x1f"
                                                  "1\n")),
                             write_text("b", VIEW("worse\n")) };
    write_text("out", VIEW("old"));
    options.rejects_max = 1;
    for (options.threads = 1; options.threads <= 2; options.threads++) {
        assert_status(HF_INVALID, merge(&options, inputs, 2, &result, &error), &error);
        assert_non_null(strstr(error.why, "2 rows cannot be merged, 1 may be rejected"));
        assert_non_null(strstr(error.why, "record "));
        assert_true(result.rejects_kept && result.rows_rejected == 2);
        assert_text(in_folder("out"), VIEW("old"));
        assert_text(in_folder("out.rejects"), VIEW("bad\nworse\n"));
        assert_int_equal(files_in_folder(), 4);
        unlink(in_folder("out.rejects"));
    }
    options.intermediate = true;
    assert_status(HF_INVALID, merge(&options, inputs, 2, &result, &error), &error);
    assert_false(result.rejects_kept);
    assert_int_equal(files_in_folder(), 3);
}

/* Headers that differ are told, whatever else is wrong. */
static void rejects_hide_no_other_reason(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    const char *inputs[] = { write_text("a", VIEW("k,t\nbad\na,1\n")),
                             write_text("b", VIEW("k,u\na,1\n")) };
    options.format = HF_MERGE_CSV;
    options.rejects_max = 0;
    assert_status(HF_INVALID, merge(&options, inputs, 2, &result, &error), &error);
    assert_non_null(strstr(error.why, "its field 2 is 'u'"));
    assert_false(result.rejects_kept);
    assert_int_equal(files_in_folder(), 2);
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    return done > total;
}

/* Enough for progress to be asked for. */
static const char *write_rows(const char *name, size_t rows, bool descending)
{
    struct buffer text = BUFFER_INIT(64 * MIB);
    for (size_t i = 0; i < rows; i++)
        buffer_print(&text, "%08zu\x1f%zu\x1f%-80s\n", descending ? rows - i : i, i, name);
    assert_false(text.failed);
    const char *path = write_text(name, buffer_view(&text));
    buffer_release(&text);
    return path;
}

static void a_merge_that_is_stopped_leaves_nothing_behind(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    options.progress.step = stop_at_once;
    const char *inputs[] = { write_rows("a", 20000, false), write_rows("b", 20000, false) };
    for (options.threads = 1; options.threads <= 3; options.threads++)
        assert_status(HF_CANCELLED, merge(&options, inputs, 2, &result, &error), &error);
    inputs[1] = write_rows("b", 20000, true);
    assert_status(HF_CANCELLED, merge(&options, inputs, 2, &result, &error), &error);
    assert_int_equal(files_in_folder(), 2);
}

/* Each of `count` inputs has one record of `size` bytes, in the middle of short ones. */
static void write_long_rows(const char **inputs, size_t count, size_t size)
{
    char *text = malloc(size + 100);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "long-%zu", i);
        size_t at = (size_t)snprintf(text, 50,
                                     "a%zu\x1f"
                                     "1\nk%zu\x1f"
                                     "1\x1f",
                                     i, i);
        memset(text + at, 'x', size);
        at += size;
        at += (size_t)snprintf(text + at, 50,
                               "\nz%zu\x1f"
                               "1\n",
                               i);
        inputs[i] = write_text(name, (struct view){ text, at });
    }
    free(text);
}

static void long_records_in_many_inputs_are_merged_fewer_at_a_time(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    const char *inputs[24];
    options.memory_bytes = 8 * MIB;
    write_long_rows(inputs, 24, MIB);
    assert_status(HF_OK, merge(&options, inputs, 24, &result, &error), &error);
    assert_int_equal(result.rows_out, 72);
    assert_true(result.bytes_spilled > 20 * MIB);
    options.memory_bytes = 256 * MIB;
    assert_status(HF_OK, merge(&options, inputs, 24, &result, &error), &error);
    assert_int_equal(result.rows_out, 72);
    assert_int_equal(result.bytes_spilled, 0);
}

/* Rows of `size` bytes, with keys that fall, so that they must be sorted. */
static const char *write_falling_rows(const char *name, size_t rows, size_t size)
{
    struct buffer text = BUFFER_INIT(256 * MIB);
    for (size_t i = 0; i < rows; i++)
        buffer_print(&text,
                     "%08zu\x1f"
                     "1\x1f%0*d\n",
                     rows - i, (int)size, 0);
    assert_false(text.failed);
    const char *path = write_text(name, buffer_view(&text));
    buffer_release(&text);
    return path;
}

/* A quarter of the memory is what a record may have, sorted or not, with any threads. */
static void records_of_the_longest_size_fit(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    options.memory_bytes = SANITIZED ? 8 * MIB : 16 * MIB; /* less for it to watch */
    size_t longest = options.memory_bytes / 4 - 100;
    const char *rising[3], *falling = write_falling_rows("falling", 8, longest);
    write_long_rows(rising, 3, longest);
    /* ThreadSanitizer sees the most where there are the most threads. */
    for (options.threads = WITH_TSAN ? 3 : 1; options.threads <= 3; options.threads++) {
        assert_status(HF_OK, merge(&options, &falling, 1, &result, &error), &error);
        assert_int_equal(result.rows_out, 8);
        assert_int_equal(result.inputs_unsorted, 1);
        assert_status(HF_OK, merge(&options, rising, 3, &result, &error), &error);
        assert_int_equal(result.rows_out, 9);
    }
}

/* More runs than are kept, all with little memory. A sanitizer watches every byte, and sees the
 * same calls and threads in a quarter of them. */
static void many_runs_become_one(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    options.memory_bytes = 8 * MIB;
    size_t rows = SANITIZED ? 50 : 200;
    const char *input = write_falling_rows("falling", rows, MIB);
    assert_status(HF_OK, merge(&options, &input, 1, &result, &error), &error);
    assert_int_equal(result.rows_out, rows);
    assert_true(result.bytes_spilled > rows * MIB);
}

struct shortening {
    const char *path;
    uint64_t after; /* eighths of the work; the first half reads an unsorted input */
};

static bool shorten(void *context, uint64_t done, uint64_t total)
{
    struct shortening *shortening = context;
    if (done * 8 >= shortening->after * total)
        assert_int_equal(truncate(shortening->path, 1000), 0);
    return true;
}

static void an_input_that_is_cut_short_meanwhile_fails_the_merge(void **state)
{
    (void)state;
    struct merge_result result;
    struct hf_error error;
    for (int descending = 0; descending < 2; descending++) {
        for (uint64_t after = 0; after < 3; after++) {
            struct merge_options options = latest_usv();
            const char *input = write_rows("a", 40000, descending);
            struct shortening shortening = { input, after };
            options.progress.step = shorten;
            options.progress.context = &shortening;
            assert_status(HF_UNAVAILABLE, merge(&options, &input, 1, &result, &error), &error);
            assert_int_equal(files_in_folder(), 1);
        }
    }
}

static void a_time_is_a_key_of_its_own_size(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    options.key = (struct view){ NULL, 0 };
    options.time = VIEW("1");
    options.record_bytes_max = 3;
    const char *input = write_text("in", VIEW("5\n7\n6\n1234\n"));
    assert_status(HF_OK, merge(&options, &input, 1, &result, &error), &error);
    assert_text(in_folder("out"), VIEW("5\n6\n7\n"));
    assert_text(in_folder("out.rejects"), VIEW("1234\n"));
}

static void rows_that_are_equal_in_order_do_not_depend_on_memory_or_threads(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    const char *inputs[300];
    struct prng prng = prng_seeded(3);
    options.key = (struct view){ NULL, 0 };
    for (size_t i = 0; i < 300; i++) {
        struct buffer text = BUFFER_INIT(MIB);
        char name[20];
        snprintf(name, sizeof name, "tie-%zu", i);
        for (int row = 0; row < 8; row++)
            buffer_print(&text, "%u\x1f%d\n", (unsigned)prng_below(&prng, 4), row / 3);
        inputs[i] = write_text(name, buffer_view(&text));
        buffer_release(&text);
    }
    char first[40000];
    for (int round = 0; round < 4; round++) {
        options.threads = 1 + (size_t)round % 3;
        options.memory_bytes = (round & 1 ? 8 : 64) * MIB;
        assert_status(HF_OK, merge(&options, inputs, 300, &result, &error), &error);
        assert_int_equal(result.rows_out, 2400);
        assert_int_equal(result.bytes_out, 9600);
        if (round == 0) {
            FILE *file = fopen(in_folder("out"), "r");
            assert_int_equal(fread(first, 1, sizeof first, file), 9600);
            fclose(file);
        }
        assert_text(in_folder("out"), (struct view){ first, 9600 });
        const char *swapped = inputs[round];
        inputs[round] = inputs[299 - round];
        inputs[299 - round] = swapped;
    }
}

static void the_file_keeps_its_mode_and_a_link_its_target(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    struct stat info;
    const char *input = write_text("in", VIEW("a\x1f"
                                              "1\n"));
    const char *target = write_text("target", VIEW("old"));
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink(target, in_folder("out")), 0);
    assert_status(HF_OK, merge(&options, &input, 1, &result, &error), &error);
    assert_text(target, VIEW("a\x1f"
                             "1\n"));
    assert_int_equal(lstat(in_folder("out"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
}

/* Whoever removes unfinished files by force knows their names as long as they may exist: it is told
 * before they are made and after they are gone. */
static int names_told, names_taken_back;

static void see_name(void *context, int which, const char *path)
{
    (void)context;
    static char told[2][PATH_MAX];
    if (path) {
        assert_int_equal(access(path, F_OK), -1);
        snprintf(told[which], PATH_MAX, "%s", path);
        names_told++;
    } else {
        assert_int_equal(access(told[which], F_OK), -1);
        names_taken_back++;
    }
}

static bool stop_after_names(void *context, uint64_t bytes_done, uint64_t bytes_total)
{
    (void)context, (void)bytes_done, (void)bytes_total;
    return names_told < 2;
}

static void unfinished_files_are_told_before_they_exist_until_they_are_gone(void **state)
{
    (void)state;
    struct merge_options options = latest_usv();
    struct merge_result result;
    struct hf_error error;
    struct buffer text = BUFFER_INIT(8 * MIB);
    buffer_append(&text, VIEW("no time\n"));
    for (int row = 0; row < 400000; row++)
        buffer_print(&text,
                     "%08d\x1f"
                     "1\n",
                     row);
    const char *input = write_text("in", buffer_view(&text));
    buffer_release(&text);
    options.reject_path = in_folder("rejects");
    options.coding = HF_MERGE_GZIP;
    options.progress = (struct merge_progress){ stop_after_names, see_name, NULL };
    assert_status(HF_CANCELLED, merge(&options, &input, 1, &result, &error), &error);
    assert_int_equal(names_told, 2);
    assert_int_equal(names_taken_back, 2);
    options.progress.step = NULL;
    assert_status(HF_OK, merge(&options, &input, 1, &result, &error), &error);
    assert_int_equal(result.rows_rejected, 1);
    assert_int_equal(names_told, 4);
    assert_int_equal(names_taken_back, 4);
}

int main(void)
{
#define FILES(sentence, function)                                \
    {                                                            \
        (sentence), (function), make_folder, remove_folder, NULL \
    }
    const struct CMUnitTest tests[] = {
        IT("codes order keys, and a loser's code stays right against the winner",
           codes_order_keys_and_stay_right_for_the_loser),
        IT("the tree gives all keys in order and tells equal ones",
           the_tree_gives_all_keys_in_order_and_tells_equal_ones),
        FILES("when an allocation fails nothing is left behind",
              when_an_allocation_fails_nothing_is_left_behind),
        FILES("rejects that may not be are all that is left behind",
              rejects_that_may_not_be_are_all_that_is_left),
        FILES("rejects hide no other reason", rejects_hide_no_other_reason),
        FILES("a merge that is stopped leaves nothing behind",
              a_merge_that_is_stopped_leaves_nothing_behind),
        FILES("unfinished files are told before they exist, until they are gone",
              unfinished_files_are_told_before_they_exist_until_they_are_gone),
        FILES("long records in many inputs are merged fewer at a time",
              long_records_in_many_inputs_are_merged_fewer_at_a_time),
        FILES("records of the longest size fit, sorted or not, with any threads",
              records_of_the_longest_size_fit),
        FILES("many runs become one", many_runs_become_one),
        FILES("an input that is cut short meanwhile fails the merge",
              an_input_that_is_cut_short_meanwhile_fails_the_merge),
        FILES("a time is a key of its own size, whatever the records have",
              a_time_is_a_key_of_its_own_size),
        FILES("rows that are equal in order do not depend on memory or threads",
              rows_that_are_equal_in_order_do_not_depend_on_memory_or_threads),
        FILES("the file keeps its mode, and a link its target",
              the_file_keeps_its_mode_and_a_link_its_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
