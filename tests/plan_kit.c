/* SPDX-License-Identifier: Apache-2.0 */
/* plan_kit.c: builds catalogs from one-line chunks, and prints plans as text. */
#include "plan_kit.h"

#include <stdio.h>

/* ---- Catalogs ------------------------------------------------------------------------ */

struct compact_settings small_settings(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.format = HF_MERGE_USV;
    settings.key = VIEW("1");
    settings.level0_count = 4;
    settings.level1_bytes = 1024 * 1024;
    settings.level_factor = 5;
    settings.group_max = 8;
    settings.cascade_base = 4;
    return settings;
}

struct catalog *new_catalog(const struct compact_settings *settings)
{
    struct catalog *catalog;
    struct hf_error error;
    assert_status(HF_OK,
                  catalog_new(VIEW("default"), VIEW(""), /* depth */ 0, settings, &catalog,
                              &error),
                  &error);
    return catalog;
}

const char *key_of(const struct piece *piece, char key[128])
{
    snprintf(key, 128, "data/%s/L%u/2026/01/%032u.usv", piece->home ? piece->home : "default",
             piece->level, piece->number);
    return key;
}

void add(struct catalog *catalog, struct piece piece)
{
    char key[128];
    struct hf_error error;
    int64_t min_ms = EPOCH_MS + piece.hour * HOUR_MS;
    struct chunk chunk = {
        .key = view_of(key_of(&piece, key)),
        .level = piece.level,
        .size = piece.size ? piece.size : 100,
        .rows_known = piece.number % 5 != 0,
        .rows = 10,
        .min_ms = min_ms + 1000,
        .max_ms = min_ms + 2000 + piece.span * HOUR_MS,
        .writer = VIEW("w"),
        .since = { .clock = 7, .us = piece.number },
        .tries = piece.tries,
        .tested = piece.tested,
        .quarantine = piece.quarantined ? VIEW("bad") : VIEW(""),
        .raw = VIEW("{}"),
    };
    assert_status(HF_OK, catalog_copy_entry(catalog, &chunk, &error), &error);
}

void add_hour(struct catalog *catalog, unsigned first, unsigned count, int hour)
{
    for (unsigned i = 0; i < count; i++)
        add(catalog, (struct piece){ .number = first + i, .hour = hour });
}

/* ---- Plans --------------------------------------------------------------------------- */

struct plan plan_with(const struct catalog *catalog, struct plan_options options)
{
    struct plan plan;
    struct hf_error error;
    assert_status(HF_OK, plan_make(catalog, &options, &plan, &error), &error);
    return plan;
}

struct plan plan_of(const struct catalog *catalog)
{
    return plan_with(catalog, (struct plan_options){ 0 });
}

struct plan forced_plan(const struct catalog *catalog)
{
    return plan_with(catalog, (struct plan_options){ .force = true });
}

unsigned number_of(const struct chunk *chunk)
{
    return (unsigned)chunk->since.us;
}

const char *in_words(const struct plan *plan)
{
    static char words[8192];
    size_t size = 0;
    words[0] = '\0';
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_group *group = &plan->groups[i];
        size += (size_t)snprintf(words + size, sizeof words - size, "%s%u%c", i ? " " : "",
                                 group->level, group->test ? '?' : ':');
        for (size_t k = 0; k < group->count; k++) {
            unsigned first = number_of(group->sources[k]), last = first;
            while (k + 1 < group->count && number_of(group->sources[k + 1]) == last + 1) {
                last++;
                k++;
            }
            if (first < last)
                size += (size_t)snprintf(words + size, sizeof words - size, "%u-", first);
            size += (size_t)snprintf(words + size, sizeof words - size, "%u%s", last,
                                     k + 1 < group->count ? "," : "");
            assert_true(size < sizeof words);
        }
    }
    return words;
}

void expect(const struct catalog *catalog, const char *words)
{
    for (int i = 0; i < 2; i++) {
        struct plan plan = plan_of(catalog);
        assert_string_equal(in_words(&plan), words);
        plan_release(&plan);
    }
}

void expect_forced(const struct catalog *catalog, const char *words)
{
    struct plan plan = forced_plan(catalog);
    assert_string_equal(in_words(&plan), words);
    for (size_t i = 0; i < plan.count; i++)
        assert_true(plan.groups[i].forced);
    plan_release(&plan);
}
