/* api_parts.h: what the calls of stores, indexes, election and sweeping are played with: their
 * options, right and wrong, and functions that they call back. */
#ifndef FUZZ_API_PARTS_H
#define FUZZ_API_PARTS_H

#include "api_play.h"

const struct hf_store_options *play_store_options(const struct play *play, int index);
const struct hf_store_get_options *play_get_options(const struct play *play, int index);
const struct hf_store_put_options *play_put_options(const struct play *play, int index);
const struct hf_store_delete_options *play_delete_options(const struct play *play, int index);
const struct hf_store_list_options *play_list_options(const struct play *play, int index);
const struct hf_store_copy_options *play_copy_options(const struct play *play, int index);
const struct hf_store_probe_options *play_probe_options(const struct play *play, int index);
const struct hf_store_restored_options *play_restored_options(const struct play *play,
                                                              int index);
bool each_deleted(void *argument, size_t index, const struct hf_error *error);
bool each_entry(void *argument, const struct hf_store_entry *entry);
bool each_epoch(void *argument, const struct hf_store_epoch_info *info);
bool each_name(void *argument, const char *name);

const struct hf_index_options *play_index_options(const struct play *play, int index);
const struct hf_index_load_options *play_load_options(const struct play *play, int index);
const struct hf_index_query *play_query(const struct play *play, int index);
const struct hf_index_compile_options *play_compile_options(const struct play *play, int index);
const struct hf_index_status_options *play_status_options(const struct play *play, int index);

/* Records: as values, and as bytes. */
const struct hf_index_value *play_values(const struct play *play, int index);
size_t play_value_count(const struct play *play, int index);
const struct hf_index_row *play_rows(const struct play *play, int index);
const struct hf_index_bytes *play_records(const struct play *play, int index);

const struct hf_elect_work *play_work(const struct play *play, int index);
const struct hf_elect_options *play_elect_options(const struct play *play, int index);
struct hf_elect_place *play_places(const struct play *play, int index);
struct hf_cascade *play_cascade(const struct play *play, int index);
bool each_change(void *argument, const char *name, bool present);
bool each_member(void *argument, const struct hf_elect_info *info);

const struct hf_sweep_options *play_sweep_options(const struct play *play, int index);
const struct hf_sweeper_options *play_sweeper_options(const struct play *play, int index);

#endif
