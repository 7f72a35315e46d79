/* SPDX-License-Identifier: Apache-2.0 */
/* api_parts.h: options, right and wrong, and callbacks for the calls of each part. Those of
 * merging, compaction and observation are in api_work.c. */
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
const struct hf_store_scrub_options *play_scrub_options(const struct play *play, int index);
const struct hf_store_upgrade_options *play_upgrade_options(const struct play *play, int index);
const struct hf_store_restored_options *play_restored_options(const struct play *play,
                                                              int index);
const struct hf_placement *play_placement(const struct play *play, int index);
bool each_deleted(void *argument, size_t index, const struct hf_error *error);
bool each_entry(void *argument, const struct hf_store_entry *entry);
bool each_epoch(void *argument, const struct hf_store_epoch_info *info);
bool each_name(void *argument, const char *name);
bool each_got(void *argument, size_t number, struct hf_index_record *record,
              const struct hf_error *why);

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

/* Files of records, good and bad, in a folder that is made when it is first asked for; and a name
 * in it for an output. */
const char *const *play_paths(const struct play *play, int index);
const char *play_output_path(const struct play *play, int index);

/* Checks that the folder contains only inputs and outputs, and then removes it. */
void play_remove_files(void);

const struct hf_merge_options *play_merge_options(const struct play *play, int index);
const struct hf_merge_file *play_merge_inputs(const struct play *play, int index);
const struct hf_merge_file *play_merge_output(const struct play *play, int index);

const struct hf_compact_options *play_compact_options(const struct play *play, int index);
const struct hf_compact_settings *play_settings(const struct play *play, int index);
const struct hf_compact_ingest_options *play_ingest_options(const struct play *play, int index);
const struct hf_compact_adopt_options *play_adopt_options(const struct play *play, int index);
const struct hf_compact_reader_options *play_reader_options(const struct play *play, int index);
const struct hf_compact_export_options *play_export_options(const struct play *play, int index);
bool (*play_on_row(const struct play *play, int index))(void *argument,
                                                        const struct hf_compact_row *row);

/* Of a run, which ends by itself, and of any worker. */
const struct hf_compact_worker_options *play_run_options(const struct play *play, int index);
const struct hf_compact_worker_options *play_worker_options(const struct play *play, int index);
const struct hf_compact_status_options *play_overview_options(const struct play *play,
                                                              int index);
const struct hf_compact_drop_options *play_drop_options(const struct play *play, int index);
const struct hf_fsck_options *play_fsck_options(const struct play *play, int index);
bool each_chunk(void *play, const struct hf_chunk_info *chunk);
bool each_group(void *argument, const struct hf_compact_group *group);

/* Keys of chunks: the last that was listed, and some that there are not. */
const char *play_chunk(const struct play *play, int index);
const char *const *play_chunks(const struct play *play, int index);

const struct hf_list_options *play_look_options(const struct play *play, int index);
bool each_lease(void *argument, const struct hf_lease_info *lease);
bool each_audit(void *argument, const char *json);
bool each_hold(void *argument, const struct hf_hold *hold);
bool each_lease_change(void *argument, enum hf_change change,
                       const struct hf_lease_info *lease);
bool each_path(void *argument, const struct hf_compact_path *path);
bool each_blocker(void *argument, const char *scope, const struct hf_lease_info *lease);
bool each_key(void *argument, const char *name, const struct hf_key_info *info,
              const struct hf_key_status *status);
bool each_txn(void *argument, const struct hf_txn_info *txn);

#endif
