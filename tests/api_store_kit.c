/* SPDX-License-Identifier: Apache-2.0 */
/* api_store_kit.c: opens a store of the kind under test through the public headers. */
#include "api_store_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *store_kind;

void place_open(struct place *place, const struct hf_store_options *options)
{
    assert_status(HF_OK, hf_store_open(place->url, options, &place->store, &place->error),
                  &place->error);
}

int place_set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->folder = test_dir_make();
    snprintf(place->url, sizeof place->url,
             strcmp(store_kind, "mem") == 0 ? "mem:" : "sqlite:%s/s.db", place->folder);
    place_open(place, NULL);
    *state = place;
    return 0;
}

int place_tear_down(void **state)
{
    struct place *place = *state;
    hf_store_close(place->store);
    test_dir_remove(place->folder);
    free(place);
    return 0;
}

void put_object(struct place *place, const char *key, const char *text)
{
    OK(hf_store_put(place->store, key, text, strlen(text), NULL, NULL, &place->error));
}

void assert_object_holds(struct hf_store *store, const char *key, const char *text)
{
    void *data;
    size_t size;
    struct hf_error error;
    assert_status(HF_OK, hf_store_get(store, key, 1000, NULL, &data, &size, NULL, &error),
                  &error);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    hf_free(data);
}

bool see_entry(void *argument, const struct hf_store_entry *entry)
{
    struct listed *listed = argument;
    size_t used = strlen(listed->names);
    assert_int_equal(entry->key_size, strlen(entry->key));
    assert_true(entry->is_prefix || (entry->etag[0] != '\0' && entry->modified_ms > 0));
    if (used < sizeof listed->names - 20)
        snprintf(listed->names + used, sizeof listed->names - used, "%s ", entry->key);
    listed->pages += entry->last_of_page;
    return ++listed->count != listed->stop_after;
}

void assert_lists(struct place *place, const char *prefix,
                  const struct hf_store_list_options *options, const char *names)
{
    struct listed listed = { .count = 0 };
    OK(hf_store_list(place->store, prefix, options, see_entry, &listed, &place->error));
    assert_string_equal(listed.names, names);
}

bool count_steps(void *argument, const struct hf_progress *progress)
{
    unsigned *steps = argument;
    assert_true(progress->total_bytes == 0 || progress->done_bytes <= progress->total_bytes);
    ++*steps;
    return true;
}

bool say_stop(void *argument, const struct hf_progress *progress)
{
    (void)argument, (void)progress;
    return false;
}
