/* SPDX-License-Identifier: Apache-2.0 */
/* api_store_kit.h: a store of the kind under test, for programs that use only holdfast.h. */
#ifndef TESTS_API_STORE_KIT_H
#define TESTS_API_STORE_KIT_H

#include "holdfast.h"

#include "test.h"

/* mem or sqlite. */
extern const char *store_kind;

struct place {
    char *folder;
    char url[300];
    struct hf_store *store;
    struct hf_error error;
};

int place_set_up(void **state);
int place_tear_down(void **state);

/* Opens place->store by its URL. */
void place_open(struct place *place, const struct hf_store_options *options);

#define CASE(function) cmocka_unit_test_setup_teardown(function, place_set_up, place_tear_down)

#define OK(call)         assert_status(HF_OK, call, &place->error)
#define IS(status, call) assert_status(status, call, &place->error)

void put_object(struct place *place, const char *key, const char *text);
void assert_object_holds(struct hf_store *store, const char *key, const char *text);

/* The keys of a listing, each followed by a blank. */
struct listed {
    char names[4000];
    size_t count;
    size_t stop_after;
    size_t pages;
};
bool see_entry(void *argument, const struct hf_store_entry *entry);
void assert_lists(struct place *place, const char *prefix,
                  const struct hf_store_list_options *options, const char *names);

/* Progress functions: one counts its calls in an unsigned, the other stops at once. */
bool count_steps(void *argument, const struct hf_progress *progress);
bool say_stop(void *argument, const struct hf_progress *progress);

#endif
