/* SPDX-License-Identifier: Apache-2.0 */
/* api_calls.h: the public calls as the fuzzer makes them, one row each: a name and the call. A
 * number is the index of the byte from which an argument is drawn (api_play.h).
 * tests/api_docs_test.py checks that no call is missing. */
#ifndef FUZZ_API_CALLS_H
#define FUZZ_API_CALLS_H

#define CLIENT(i)     ((struct hf_client *)play_handle(play, KIND_CLIENT, i))
#define LOCK(i)       ((struct hf_lock *)play_handle(play, KIND_LOCK, i))
#define KEY(i)        ((struct hf_key *)play_handle(play, KIND_KEY, i))
#define TXN(i)        ((struct hf_txn *)play_handle(play, KIND_TXN, i))
#define TAKE(kind, i) play_take(play, KIND_##kind, i)

#define MADE_AT(i, type) ((struct type **)play_output(play, i, &play->made))
#define OUT(i, member)   play_output(play, i, &play->member)
#define TEXT(i)          play_text(play, i)
#define LEASE(i)         play_lease(play, i)
#define NAMES(i)         play_names(play, i)
#define NAME_COUNT(i)    play_count(play, i)
#define BYTES(i)         play_bytes(play, i), play_bytes_size(play, i)
#define SIZE_MAX_OF(i)   ((size_t)play_byte(play, i) << 8)
#define WAIT_MS(i)       play_wait_ms(play, i)
#define FILE_AT(i)       play_file(play, i)
#define INFO(i)          play_key_info(play, i)
#define IF(i)            play_key_if(play, i)
#define DECISION(i)      ((enum hf_decision)(play_byte(play, i) % 3))
#define TXN_TEXT(i)      (play_byte(play, i) < 0x80 ? play->txn_id : play_text(play, i))
#define REPORT(i, type)  ((struct type *)play_report(play, i, sizeof(struct type)))
#define DECIDED(i)       ((enum hf_decision *)OUT(i, word))
#define ERROR(i)         play_error(play, i)

#define BASE_CALLS(ROW)                                                               \
    ROW(hf_version, hf_version())                                                     \
    ROW(hf_version_number, hf_version_number())                                       \
    ROW(hf_status_name, hf_status_name((enum hf_status)play_byte(play, 0)))           \
    ROW(hf_status_text, hf_status_text((enum hf_status)play_byte(play, 0)))           \
    ROW(hf_status_exit_code, hf_status_exit_code((enum hf_status)play_byte(play, 0))) \
    ROW(hf_free, hf_free(NULL))                                                       \
    ROW(hf_client_open,                                                               \
        play_made(play, KIND_CLIENT, 0,                                               \
                  hf_client_open(play_url(play, 1), play_client_options(play, 2),     \
                                 MADE_AT(3, hf_client), ERROR(4))))                   \
    ROW(hf_client_close, hf_client_close(TAKE(CLIENT, 0)))

#define LOCK_CALLS(ROW)                                                                        \
    ROW(hf_lock_interrupt, hf_lock_interrupt(LOCK(0)))                                         \
    ROW(hf_lock_trouble, play_status(play, hf_lock_trouble(LOCK(0), ERROR(1))))                \
    ROW(hf_lock_ttl_ms, hf_lock_ttl_ms(play_any_lock(play, 0)))                                \
    ROW(hf_lock_scope,                                                                         \
        play_status(play, hf_lock_scope(play_any_lock(play, 0), play_byte(play, 1),            \
                                        OUT(2, url[0]), ERROR(3))))                            \
    ROW(hf_lease_parse,                                                                        \
        play_status(play, hf_lease_parse(LEASE(0), REPORT(1, hf_lease_name), ERROR(2))))       \
    ROW(hf_lock_new, play_made(play, KIND_LOCK, 0,                                             \
                               hf_lock_new(CLIENT(1), TEXT(2), play_lock_options(play, 3),     \
                                           MADE_AT(4, hf_lock), ERROR(5))))                    \
    ROW(hf_lock_new_many, play_made(play, KIND_LOCK, 0,                                        \
                                    hf_lock_new_many(CLIENT(1), NAMES(2), NAME_COUNT(2),       \
                                                     play_lock_options(play, 3),               \
                                                     MADE_AT(4, hf_lock), ERROR(5))))          \
    ROW(hf_lock_free, hf_lock_free(TAKE(LOCK, 0)))                                             \
    ROW(hf_lock_detach, hf_lock_detach(TAKE(LOCK, 0)))                                         \
    ROW(hf_lock_acquire, play_status(play, hf_lock_acquire(LOCK(0), WAIT_MS(1), ERROR(2))))    \
    ROW(hf_lock_begin, play_status(play, hf_lock_begin(LOCK(0), ERROR(1))))                    \
    ROW(hf_lock_poll, play_status(play, hf_lock_poll(LOCK(0), ERROR(1))))                      \
    ROW(hf_lock_cancel, play_status(play, hf_lock_cancel(LOCK(0), ERROR(1))))                  \
    ROW(hf_lock_blocked, hf_lock_blocked(LOCK(0), (size_t)play_byte(play, 1) - 1))             \
    ROW(hf_lock_check, play_status(play, hf_lock_check(play_any_lock(play, 0), ERROR(1))))     \
    ROW(hf_lock_remaining_ms, hf_lock_remaining_ms(play_any_lock(play, 0)))                    \
    ROW(hf_lock_token, hf_lock_token(play_any_lock(play, 0)))                                  \
    ROW(hf_lock_renew, play_status(play, hf_lock_renew(LOCK(0), ERROR(1))))                    \
    ROW(hf_lock_release, play_status(play, hf_lock_release(LOCK(0), ERROR(1))))                \
    ROW(hf_lock_complete, play_status(play, hf_lock_complete(LOCK(0), TEXT(1), ERROR(2))))     \
    ROW(hf_lock_fail, play_status(play, hf_lock_fail(LOCK(0), TEXT(1), ERROR(2))))             \
    ROW(hf_lock_text,                                                                          \
        play_status(play, hf_lock_text(play_any_lock(play, 0),                                 \
                                       OUT(1, leases[play_byte(play, 1) % SLOTS]), ERROR(2)))) \
    ROW(hf_lock_adopt,                                                                         \
        play_made(play, KIND_LOCK, 0,                                                          \
                  hf_lock_adopt(CLIENT(1), LEASE(2), play_lock_options(play, 3),               \
                                MADE_AT(4, hf_lock), ERROR(5))))                               \
    ROW(hf_break,                                                                              \
        play_status(play, hf_break(CLIENT(0), LEASE(1), TEXT(2), TEXT(3), ERROR(4))))          \
    ROW(hf_chunks_unleased,                                                                    \
        play_status(play, hf_chunks_unleased(CLIENT(0), NAMES(1), NAME_COUNT(1),               \
                                             OUT(2, flags[0]), ERROR(3))))

#define FENCED_CALLS(ROW)                                                                      \
    ROW(hf_fenced_put, play_status(play, hf_fenced_put(LOCK(0), TEXT(1), BYTES(2), ERROR(3)))) \
    ROW(hf_fenced_put_file,                                                                    \
        play_status(play, hf_fenced_put_file(LOCK(0), TEXT(1), FILE_AT(2), ERROR(3))))         \
    ROW(hf_fenced_delete, play_status(play, hf_fenced_delete(LOCK(0), TEXT(1), ERROR(2))))     \
    ROW(hf_fenced_get,                                                                         \
        play_made_data(play, hf_fenced_get(CLIENT(0), TEXT(1), SIZE_MAX_OF(2), OUT(3, data),   \
                                           OUT(4, size), OUT(5, number), ERROR(6))))           \
    ROW(hf_fenced_get_file,                                                                    \
        play_status(play, hf_fenced_get_file(CLIENT(0), TEXT(1), FILE_AT(2), OUT(3, number),   \
                                             ERROR(4))))

#define KEY_CALLS(ROW)                                                                         \
    ROW(hf_key_name, hf_key_name(KEY(0)))                                                      \
    ROW(hf_key_seen, play_status(play, hf_key_seen(KEY(0), INFO(1), ERROR(2))))                \
    ROW(hf_txn_interrupt, hf_txn_interrupt(TXN(0)))                                            \
    ROW(hf_txn_trouble, play_status(play, hf_txn_trouble(TXN(0), ERROR(1))))                   \
    ROW(hf_txn_adopt, play_made(play, KIND_KEY, 0,                                             \
                                hf_txn_adopt(TXN(1), LEASE(2), play_key_options(play, 3),      \
                                             MADE_AT(4, hf_key), ERROR(5))))                   \
    ROW(hf_txn_open, play_status(play, hf_txn_open(CLIENT(0), OUT(1, txn_id[0]), ERROR(2))))   \
    ROW(hf_txn_decide, play_status(play, hf_txn_decide(CLIENT(0), TXN_TEXT(1), DECISION(2),    \
                                                       DECIDED(3), ERROR(4))))                 \
    ROW(hf_txn_give_up,                                                                        \
        play_status(play, hf_txn_give_up(CLIENT(0), TXN_TEXT(1), OUT(2, flags[0]), ERROR(3)))) \
    ROW(hf_key_outcome_name, hf_key_outcome_name((enum hf_key_outcome)play_byte(play, 0)))     \
    ROW(hf_key_new, play_made(play, KIND_KEY, 0,                                               \
                              hf_key_new(CLIENT(1), TEXT(2), play_key_options(play, 3),        \
                                         MADE_AT(4, hf_key), ERROR(5))))                       \
    ROW(hf_key_free, hf_key_free(TAKE(KEY, 0)))                                                \
    ROW(hf_key_detach, hf_key_detach(TAKE(KEY, 0)))                                            \
    ROW(hf_key_acquire,                                                                        \
        play_status(play, hf_key_acquire(KEY(0), WAIT_MS(1), INFO(2), ERROR(3))))              \
    ROW(hf_key_begin, play_status(play, hf_key_begin(KEY(0), INFO(1), ERROR(2))))              \
    ROW(hf_key_poll, play_status(play, hf_key_poll(KEY(0), INFO(1), ERROR(2))))                \
    ROW(hf_key_cancel, play_status(play, hf_key_cancel(KEY(0), ERROR(1))))                     \
    ROW(hf_key_lock, hf_key_lock(KEY(0)))                                                      \
    ROW(hf_key_keepalive, play_status(play, hf_key_keepalive(KEY(0), ERROR(1))))               \
    ROW(hf_key_update,                                                                         \
        play_status(play, hf_key_update(KEY(0), BYTES(1), IF(2), INFO(3), ERROR(4))))          \
    ROW(hf_key_update_file,                                                                    \
        play_status(play, hf_key_update_file(KEY(0), FILE_AT(1), IF(2), INFO(3), ERROR(4))))   \
    ROW(hf_key_remove, play_status(play, hf_key_remove(KEY(0), IF(1), INFO(2), ERROR(3))))     \
    ROW(hf_key_change,                                                                         \
        play_status(play, hf_key_change(CLIENT(0), TEXT(1), BYTES(2),                          \
                                        play_key_change_options(play, 3), INFO(4), ERROR(5)))) \
    ROW(hf_key_change_many,                                                                    \
        play_status(play, hf_key_change_many(CLIENT(0), play_key_writes(play, 1),              \
                                             NAME_COUNT(1), WAIT_MS(2), NULL, ERROR(3))))      \
    ROW(hf_try_many, play_status(play, hf_try_many(play_tries(play, 0), 2, ERROR(3))))         \
    ROW(hf_key_release, play_status(play, hf_key_release(KEY(0), DECISION(1), ERROR(2))))      \
    ROW(hf_key_adopt, play_made(play, KIND_KEY, 0,                                             \
                                hf_key_adopt(CLIENT(1), LEASE(2), play_key_options(play, 3),   \
                                             MADE_AT(4, hf_key), ERROR(5))))                   \
    ROW(hf_key_get,                                                                            \
        play_made_data(play, hf_key_get(CLIENT(0), TEXT(1), SIZE_MAX_OF(2), OUT(3, data),      \
                                        OUT(4, size), INFO(5), ERROR(6))))                     \
    ROW(hf_key_get_file,                                                                       \
        play_status(play, hf_key_get_file(CLIENT(0), TEXT(1), FILE_AT(2), INFO(3), ERROR(4)))) \
    ROW(hf_txn_begin, play_made(play, KIND_TXN, 0,                                             \
                                hf_txn_begin(CLIENT(1), play_txn_options(play, 2),             \
                                             MADE_AT(3, hf_txn), ERROR(4))))                   \
    ROW(hf_txn_free, hf_txn_free(TAKE(TXN, 0)))                                                \
    ROW(hf_txn_id, hf_txn_id(TXN(0)))                                                          \
    ROW(hf_txn_acquire, play_made_keys(play, TXN(0), NAME_COUNT(1),                            \
                                       hf_txn_acquire(TXN(0), NAMES(1), NAME_COUNT(1),         \
                                                      play_key_options(play, 2), WAIT_MS(3),   \
                                                      OUT(4, made_many[0]), ERROR(5))))        \
    ROW(hf_txn_update,                                                                         \
        play_status(play, hf_txn_update(TXN(0), play_txn_changes(play, 1), 2, ERROR(4))))      \
    ROW(hf_txn_commit, play_status(play, hf_txn_commit(TXN(0), DECIDED(1), ERROR(2))))         \
    ROW(hf_txn_rollback, play_status(play, hf_txn_rollback(TXN(0), DECIDED(1), ERROR(2))))

#define STORE(i) ((struct hf_store *)play_handle(play, KIND_STORE, i))
#define STORE_CALLS(ROW)                                                                       \
    ROW(hf_store_is_url, hf_store_is_url(TEXT(0)))                                             \
    ROW(hf_store_url_absolute,                                                                 \
        play_status(play, hf_store_url_absolute(play_url(play, 0), OUT(1, url[0]), ERROR(2)))) \
    ROW(hf_store_url_split, play_status(play, hf_store_url_split(TEXT(0), OUT(1, url[0]),      \
                                                                 OUT(2, made), ERROR(3))))     \
    ROW(hf_store_check_present,                                                                \
        play_status(play, hf_store_check_present(play_url(play, 0), ERROR(1))))                \
    ROW(hf_store_call_name, hf_store_call_name((enum hf_store_call)play_byte(play, 0)))        \
    ROW(hf_store_open, play_made(play, KIND_STORE, 0,                                          \
                                 hf_store_open(play_url(play, 1), play_store_options(play, 2), \
                                               MADE_AT(3, hf_store), ERROR(4))))               \
    ROW(hf_store_close, hf_store_close(TAKE(STORE, 0)))                                        \
    ROW(hf_client_open_on, play_made(play, KIND_CLIENT, 0,                                     \
                                     hf_client_open_on(STORE(1), play_client_options(play, 2), \
                                                       MADE_AT(3, hf_client), ERROR(4))))      \
    ROW(hf_client_store,                                                                       \
        play_status(play, hf_store_get_file(hf_client_store(CLIENT(0)), TEXT(1), FILE_AT(2),   \
                                            play_get_options(play, 3),                         \
                                            REPORT(4, hf_object_info), ERROR(5))))             \
    ROW(hf_store_get,                                                                          \
        play_made_data(play, hf_store_get(STORE(0), TEXT(1), SIZE_MAX_OF(2),                   \
                                          play_get_options(play, 3), OUT(4, data),             \
                                          OUT(5, size), REPORT(6, hf_object_info), ERROR(7)))) \
    ROW(hf_store_get_file,                                                                     \
        play_status(play, hf_store_get_file(STORE(0), TEXT(1), FILE_AT(2),                     \
                                            play_get_options(play, 3),                         \
                                            REPORT(4, hf_object_info), ERROR(5))))             \
    ROW(hf_store_put,                                                                          \
        play_status(play, hf_store_put(STORE(0), TEXT(1), BYTES(2), play_put_options(play, 3), \
                                       REPORT(4, hf_object_info), ERROR(5))))                  \
    ROW(hf_store_put_file,                                                                     \
        play_status(play, hf_store_put_file(STORE(0), TEXT(1), FILE_AT(2),                     \
                                            play_put_options(play, 3),                         \
                                            REPORT(4, hf_object_info), ERROR(5))))             \
    ROW(hf_store_delete,                                                                       \
        play_status(play, hf_store_delete(STORE(0), TEXT(1), play_delete_options(play, 2),     \
                                          ERROR(3))))                                          \
    ROW(hf_store_delete_many,                                                                  \
        play_status(play, hf_store_delete_many(STORE(0), NAMES(1), NULL, NAME_COUNT(1),        \
                                               play_delete_options(play, 2), each_deleted,     \
                                               NULL, ERROR(3))))                               \
    ROW(hf_store_check_key,                                                                    \
        play_status(play, hf_store_check_key(TEXT(0), play_byte(play, 1) & 1,                  \
                                             play_byte(play, 1) & 2, ERROR(2))))               \
    ROW(hf_store_list,                                                                         \
        play_status(play, hf_store_list(STORE(0), TEXT(1), play_list_options(play, 2),         \
                                        each_entry, NULL, ERROR(3))))                          \
    ROW(hf_store_copy,                                                                         \
        play_status(play, hf_store_copy(STORE(0), TEXT(1), STORE(2), TEXT(3),                  \
                                        play_copy_options(play, 4),                            \
                                        REPORT(5, hf_store_copy_report), ERROR(6))))           \
    ROW(hf_store_copy_all,                                                                     \
        play_status(play, hf_store_copy_all(STORE(0), TEXT(1), STORE(2), TEXT(3),              \
                                            play_copy_options(play, 4),                        \
                                            REPORT(5, hf_store_copy_report), ERROR(6))))       \
    ROW(hf_finding_name, hf_finding_name((enum hf_finding)play_byte(play, 0)))                 \
    ROW(hf_store_probe,                                                                        \
        play_status(play, hf_store_probe(STORE(0), play_probe_options(play, 1),                \
                                         REPORT(2, hf_store_probe_report), ERROR(3))))         \
    ROW(hf_scrub_kind_name, hf_scrub_kind_name((enum hf_scrub_kind)play_byte(play, 0)))        \
    ROW(hf_scrub_kind_text, hf_scrub_kind_text((enum hf_scrub_kind)play_byte(play, 0)))        \
    ROW(hf_store_scrub,                                                                        \
        play_status(play, hf_store_scrub(STORE(0), play_scrub_options(play, 1),                \
                                         REPORT(2, hf_store_scrub_report), ERROR(3))))         \
    ROW(hf_store_upgrade,                                                                      \
        play_status(play, hf_store_upgrade(STORE(0), play_upgrade_options(play, 1),            \
                                           REPORT(2, hf_store_upgrade_report), ERROR(3))))     \
    ROW(hf_store_clock_name, hf_store_clock_name((enum hf_store_clock)play_byte(play, 0)))     \
    ROW(hf_store_clock,                                                                        \
        play_status(play,                                                                      \
                    hf_store_clock(STORE(0), REPORT(1, hf_store_clock_report), ERROR(2))))     \
    ROW(hf_store_restored,                                                                     \
        play_status(play, hf_store_restored(STORE(0), play_restored_options(play, 1),          \
                                            REPORT(2, hf_store_restored_report), ERROR(3))))   \
    ROW(hf_store_repair_epoch,                                                                 \
        play_status(play,                                                                      \
                    hf_store_repair_epoch(STORE(0), TEXT(1), each_epoch, NULL, ERROR(2))))     \
    ROW(hf_namespace_create,                                                                   \
        play_status(play, hf_namespace_create(STORE(0), TEXT(1), play_placement(play, 2),      \
                                              ERROR(3))))                                      \
    ROW(hf_namespace_placement,                                                                \
        play_status(play, hf_namespace_placement(STORE(0), TEXT(1), REPORT(2, hf_placement),   \
                                                 ERROR(3))))

#define INDEX(i)  ((struct hf_index *)play_handle(play, KIND_INDEX, i))
#define CURSOR(i) ((struct hf_index_cursor *)play_handle(play, KIND_CURSOR, i))
#define RECORD(i) ((struct hf_index_record *)play_handle(play, KIND_RECORD, i))
#define FORMAT(i) ((enum hf_index_format)(play_byte(play, i) % (HF_INDEX_FORMAT_COUNT + 1)))
#define QUERY(i)  play_query(play, i)
#define INDEX_CALLS(ROW)                                                                       \
    ROW(hf_index_made_name, hf_index_made_name((enum hf_index_made)play_byte(play, 0)))        \
    ROW(hf_index_create,                                                                       \
        play_made(play, KIND_INDEX, 0,                                                         \
                  hf_index_create(CLIENT(1), TEXT(2), play_index_options(play, 3),             \
                                  (enum hf_index_made *)OUT(4, word), MADE_AT(5, hf_index),    \
                                  ERROR(6))))                                                  \
    ROW(hf_index_open,                                                                         \
        play_made(play, KIND_INDEX, 0,                                                         \
                  hf_index_open(CLIENT(1), TEXT(2), MADE_AT(3, hf_index), ERROR(4))))          \
    ROW(hf_index_close, hf_index_close(TAKE(INDEX, 0)))                                        \
    ROW(hf_index_list, play_status(play, hf_index_list(CLIENT(0), each_name, NULL, ERROR(1)))) \
    ROW(hf_index_describe,                                                                     \
        play_status(play, hf_index_describe(INDEX(0), REPORT(1, hf_index_info), ERROR(2))))    \
    ROW(hf_index_field_name, hf_index_field_name(INDEX(0), (size_t)play_byte(play, 1) - 1))    \
    ROW(hf_index_find_field,                                                                   \
        play_status(play, hf_index_find_field(INDEX(0), TEXT(1), OUT(2, size), ERROR(3))))     \
    ROW(hf_index_put, play_status(play, hf_index_put(INDEX(0), play_values(play, 1),           \
                                                     play_value_count(play, 1), ERROR(2))))    \
    ROW(hf_index_put_many, play_status(play, hf_index_put_many(INDEX(0), play_rows(play, 1),   \
                                                               play_value_count(play, 1),      \
                                                               OUT(2, size), ERROR(3))))       \
    ROW(hf_index_put_records,                                                                  \
        play_status(play,                                                                      \
                    hf_index_put_records(INDEX(0), play_records(play, 1),                      \
                                         play_value_count(play, 1), OUT(2, size), ERROR(3))))  \
    ROW(hf_index_format_name, hf_index_format_name((enum hf_index_format)play_byte(play, 0)))  \
    ROW(hf_index_format_of_path,                                                               \
        hf_index_format_of_path(TEXT(0), (enum hf_index_format *)OUT(1, word)))                \
    ROW(hf_index_load,                                                                         \
        play_status(play,                                                                      \
                    hf_index_load(INDEX(0), FILE_AT(1), FORMAT(2), play_load_options(play, 3), \
                                  REPORT(4, hf_index_load_report), ERROR(5))))                 \
    ROW(hf_index_get,                                                                          \
        play_made(play, KIND_RECORD, 0,                                                        \
                  hf_index_get(INDEX(1), TEXT(2), MADE_AT(3, hf_index_record), ERROR(4))))     \
    ROW(hf_index_get_many,                                                                     \
        play_status(play, hf_index_get_many(INDEX(0), NAMES(1), NAME_COUNT(1), each_got, NULL, \
                                            ERROR(2))))                                        \
    ROW(hf_index_delete, play_status(play, hf_index_delete(INDEX(0), NAMES(1), NAME_COUNT(1),  \
                                                           TEXT(2), OUT(3, size), ERROR(4))))  \
    ROW(hf_index_record_free, hf_index_record_free(TAKE(RECORD, 0)))                           \
    ROW(hf_index_record_value, hf_index_record_value(RECORD(0), TEXT(1), OUT(2, size)))        \
    ROW(hf_index_record_text,                                                                  \
        hf_index_record_text(RECORD(0), FORMAT(1), play_byte(play, 2) & 1, OUT(3, size)))      \
    ROW(hf_index_header,                                                                       \
        play_made_data(play,                                                                   \
                       hf_index_header(INDEX(0), FORMAT(1), (char **)OUT(2, data), ERROR(3)))) \
    ROW(hf_index_cursor_open,                                                                  \
        play_made(play, KIND_CURSOR, 0,                                                        \
                  hf_index_cursor_open(INDEX(1), QUERY(2), MADE_AT(3, hf_index_cursor),        \
                                       ERROR(4))))                                             \
    ROW(hf_index_cursor_next,                                                                  \
        play_status(play,                                                                      \
                    hf_index_cursor_next(CURSOR(0), MADE_AT(1, hf_index_record), ERROR(2))))   \
    ROW(hf_index_cursor_progress,                                                              \
        play_status(play, hf_index_cursor_progress(CURSOR(0), REPORT(1, hf_index_progress),    \
                                                   ERROR(2))))                                 \
    ROW(hf_index_cursor_close, hf_index_cursor_close(TAKE(CURSOR, 0)))                         \
    ROW(hf_index_count,                                                                        \
        play_status(play, hf_index_count(INDEX(0), QUERY(1), OUT(2, number), ERROR(3))))       \
    ROW(hf_index_export,                                                                       \
        play_status(play, hf_index_export(INDEX(0), QUERY(1), FILE_AT(2), FORMAT(3),           \
                                          REPORT(4, hf_index_progress), ERROR(5))))            \
    ROW(hf_index_end_name, hf_index_end_name((enum hf_index_end)play_byte(play, 0)))           \
    ROW(hf_index_compile,                                                                      \
        play_status(play, hf_index_compile(INDEX(0), play_compile_options(play, 1),            \
                                           REPORT(2, hf_index_compile_report), ERROR(3))))     \
    ROW(hf_index_drop,                                                                         \
        play_status(play, hf_index_drop(CLIENT(0), TEXT(1), NULL,                              \
                                        REPORT(2, hf_index_drop_report), ERROR(3))))           \
    ROW(hf_index_status,                                                                       \
        play_status(play, hf_index_status(INDEX(0), play_status_options(play, 1),              \
                                          REPORT(2, hf_index_stats), ERROR(3))))

#define MEMBER(i) ((struct hf_elect_member *)play_handle(play, KIND_MEMBER, i))
#define WORK(i)   play_work(play, i)
#define ELECT_CALLS(ROW)                                                                      \
    ROW(hf_elect_rank,                                                                        \
        play_status(play, hf_elect_rank(WORK(0), NAMES(1), NAME_COUNT(1), TEXT(2),            \
                                        OUT(3, size), OUT(4, number), ERROR(5))))             \
    ROW(hf_elect_order, play_status(play, hf_elect_order(WORK(0), NAMES(1), NAME_COUNT(1),    \
                                                         play_places(play, 2), ERROR(3))))    \
    ROW(hf_elect_starts_in_ms,                                                                \
        hf_elect_starts_in_ms(SIZE_MAX >> (play_byte(play, 0) & 63), WAIT_MS(1), WAIT_MS(2))) \
    ROW(hf_cascade_target, hf_cascade_target(play_cascade(play, 0), play_byte(play, 1)))      \
    ROW(hf_cascade_added,                                                                     \
        hf_cascade_added(play_cascade(play, 0), UINT64_MAX >> (play_byte(play, 1) & 63)))     \
    ROW(hf_cascade_completed,                                                                 \
        play_status(play, hf_cascade_completed(play_cascade(play, 0), play_byte(play, 1),     \
                                               ERROR(2))))                                    \
    ROW(hf_elect_join,                                                                        \
        play_made(play, KIND_MEMBER, 0,                                                       \
                  hf_elect_join(CLIENT(1), TEXT(2), play_elect_options(play, 3),              \
                                MADE_AT(4, hf_elect_member), ERROR(5))))                      \
    ROW(hf_elect_leave, hf_elect_leave(TAKE(MEMBER, 0)))                                      \
    ROW(hf_elect_detach, hf_elect_detach(TAKE(MEMBER, 0)))                                    \
    ROW(hf_elect_name, hf_elect_name(MEMBER(0)))                                              \
    ROW(hf_elect_keep, play_status(play, hf_elect_keep(MEMBER(0), ERROR(1))))                 \
    ROW(hf_elect_look, play_status(play, hf_elect_look(MEMBER(0), ERROR(1))))                 \
    ROW(hf_elect_changes,                                                                     \
        play_status(play, hf_elect_changes(MEMBER(0), each_change, NULL, ERROR(1))))          \
    ROW(hf_elect_rank_own,                                                                    \
        play_status(play, hf_elect_rank_own(MEMBER(0), WORK(1), OUT(2, size), OUT(3, number), \
                                            ERROR(4))))                                       \
    ROW(hf_elect_members, play_status(play, hf_elect_members(CLIENT(0), TEXT(1), WAIT_MS(2),  \
                                                             each_member, NULL, ERROR(3))))

#define SWEEPER(i) ((struct hf_sweeper *)play_handle(play, KIND_SWEEPER, i))
#define SWEEP_CALLS(ROW)                                                                       \
    ROW(hf_sweep_stop_name, hf_sweep_stop_name((enum hf_sweep_stop)play_byte(play, 0)))        \
    ROW(hf_sweep_stop_text, hf_sweep_stop_text((enum hf_sweep_stop)play_byte(play, 0)))        \
    ROW(hf_sweep, play_status(play, hf_sweep(CLIENT(0), play_sweep_options(play, 1),           \
                                             REPORT(2, hf_sweep_report), ERROR(3))))           \
    ROW(hf_sweeper_start, play_made(play, KIND_SWEEPER, 0,                                     \
                                    hf_sweeper_start(CLIENT(1), play_sweeper_options(play, 2), \
                                                     MADE_AT(3, hf_sweeper), ERROR(4))))       \
    ROW(hf_sweeper_stop, hf_sweeper_stop(TAKE(SWEEPER, 0)))                                    \
    ROW(hf_sweeper_report,                                                                     \
        play_status(play,                                                                      \
                    hf_sweeper_report(SWEEPER(0), REPORT(1, hf_sweep_report), ERROR(2))))      \
    ROW(hf_sweep_sees_others, hf_sweep_sees_others(CLIENT(0)))                                 \
    ROW(hf_sweep_status,                                                                       \
        play_status(play, hf_sweep_status(CLIENT(0), play_byte(play, 0) & 64,                  \
                                          REPORT(1, hf_sweep_due), REPORT(2, hf_sweep_report), \
                                          REPORT(3, hf_sweep_report), ERROR(4))))              \
    ROW(hf_sweep_namespaces,                                                                   \
        play_status(play, hf_sweep_namespaces(CLIENT(0), play_byte(play, 0) & 64, each_name,   \
                                              NULL, ERROR(1))))

#define MERGE_CALLS(ROW)                                                                       \
    ROW(hf_merge_format_name, hf_merge_format_name((enum hf_merge_format)play_byte(play, 0)))  \
    ROW(hf_merge_coding_name, hf_merge_coding_name((enum hf_merge_coding)play_byte(play, 0)))  \
    ROW(hf_merge_format_parse,                                                                 \
        play_status(play, hf_merge_format_parse(TEXT(0), (enum hf_merge_format *)OUT(1, word), \
                                                ERROR(2))))                                    \
    ROW(hf_merge_coding_parse,                                                                 \
        play_status(play, hf_merge_coding_parse(TEXT(0), (enum hf_merge_coding *)OUT(1, word), \
                                                ERROR(2))))                                    \
    ROW(hf_merge,                                                                              \
        play_status(play, hf_merge(play_paths(play, 0), NAME_COUNT(0),                         \
                                   play_output_path(play, 1), play_merge_options(play, 2),     \
                                   REPORT(3, hf_merge_report), ERROR(4))))                     \
    ROW(hf_merge_files,                                                                        \
        play_status(play,                                                                      \
                    hf_merge_files(play_merge_inputs(play, 0), NAME_COUNT(0),                  \
                                   play_merge_output(play, 1), play_merge_options(play, 2),    \
                                   REPORT(3, hf_merge_report), ERROR(4))))

#define COMPACT(i) ((struct hf_compact *)play_handle(play, KIND_COMPACT, i))
#define READER(i)  ((struct hf_compact_reader *)play_handle(play, KIND_READER, i))
#define WORKER(i)  ((struct hf_compact_worker *)play_handle(play, KIND_WORKER, i))
#define CHUNK(i)   play_chunk(play, i)
#define COMPACT_CALLS(ROW)                                                                     \
    ROW(hf_compact_policy_name,                                                                \
        hf_compact_policy_name((enum hf_compact_policy)play_byte(play, 0)))                    \
    ROW(hf_compact_policy_parse,                                                               \
        play_status(play, hf_compact_policy_parse(                                             \
                              TEXT(0), (enum hf_compact_policy *)OUT(1, word), ERROR(2))))     \
    ROW(hf_chunk_state_name, hf_chunk_state_name((enum hf_chunk_state)play_byte(play, 0)))     \
    ROW(hf_compact_end_name, hf_compact_end_name((enum hf_compact_end)play_byte(play, 0)))     \
    ROW(hf_compact_event_name,                                                                 \
        hf_compact_event_name((enum hf_compact_event_kind)play_byte(play, 0)))                 \
    ROW(hf_fsck_kind_name, hf_fsck_kind_name((enum hf_fsck_kind)play_byte(play, 0)))           \
    ROW(hf_fsck_kind_text, hf_fsck_kind_text((enum hf_fsck_kind)play_byte(play, 0)))           \
    ROW(hf_merger_goes_on, hf_merger_goes_on(NULL, play_byte(play, 0)))                        \
    ROW(hf_compact_open,                                                                       \
        play_made(play, KIND_COMPACT, 0,                                                       \
                  hf_compact_open(CLIENT(1), TEXT(2), play_compact_options(play, 3),           \
                                  MADE_AT(4, hf_compact), ERROR(5))))                          \
    ROW(hf_compact_close, hf_compact_close(TAKE(COMPACT, 0)))                                  \
    ROW(hf_compact_create,                                                                     \
        play_status(play, hf_compact_create(COMPACT(0), play_settings(play, 1), ERROR(2))))    \
    ROW(hf_compact_get_settings,                                                               \
        play_status(play, hf_compact_get_settings(COMPACT(0), REPORT(1, hf_compact_settings),  \
                                                  ERROR(2))))                                  \
    ROW(hf_compact_set, play_status(play, hf_compact_set(COMPACT(0), play_settings(play, 1),   \
                                                         play_settings(play, 2), ERROR(3))))   \
    ROW(hf_compact_pause,                                                                      \
        play_status(play, hf_compact_pause(COMPACT(0), TEXT(1), TEXT(2), ERROR(3))))           \
    ROW(hf_compact_resume, play_status(play, hf_compact_resume(COMPACT(0), ERROR(1))))         \
    ROW(hf_compact_ingest,                                                                     \
        play_status(play, hf_compact_ingest(COMPACT(0), play_paths(play, 1), NAME_COUNT(1),    \
                                            play_ingest_options(play, 2),                      \
                                            REPORT(3, hf_compact_ingest_report), ERROR(4))))   \
    ROW(hf_compact_ingest_objects,                                                             \
        play_status(play,                                                                      \
                    hf_compact_ingest_objects(COMPACT(0), NAMES(1), NAME_COUNT(1),             \
                                              play_ingest_options(play, 2),                    \
                                              REPORT(3, hf_compact_ingest_report), ERROR(4)))) \
    ROW(hf_compact_chunks,                                                                     \
        play_status(play,                                                                      \
                    hf_compact_chunks(COMPACT(0), (enum hf_chunks)(play_byte(play, 1) % 4),    \
                                      each_chunk, play, ERROR(2))))                            \
    ROW(hf_compact_quarantine,                                                                 \
        play_status(play, hf_compact_quarantine(COMPACT(0), CHUNK(1), TEXT(2), ERROR(3))))     \
    ROW(hf_compact_unquarantine,                                                               \
        play_status(play, hf_compact_unquarantine(COMPACT(0), CHUNK(1), ERROR(2))))            \
    ROW(hf_compact_undelete, play_status(play, hf_compact_undelete(COMPACT(0), CHUNK(1),       \
                                                                   OUT(2, number), ERROR(3)))) \
    ROW(hf_compact_reader_open,                                                                \
        play_made(play, KIND_READER, 0,                                                        \
                  hf_compact_reader_open(COMPACT(1), play_reader_options(play, 2),             \
                                         MADE_AT(3, hf_compact_reader), ERROR(4))))            \
    ROW(hf_compact_reader_next,                                                                \
        play_status(play,                                                                      \
                    hf_compact_reader_next(READER(0), REPORT(1, hf_chunk_info), ERROR(2))))    \
    ROW(hf_compact_reader_rewind, hf_compact_reader_rewind(READER(0)))                         \
    ROW(hf_compact_reader_count, hf_compact_reader_count(READER(0)))                           \
    ROW(hf_compact_reader_check,                                                               \
        play_status(play, hf_compact_reader_check(READER(0), ERROR(1))))                       \
    ROW(hf_compact_reader_fetch,                                                               \
        play_status(play, hf_compact_reader_fetch(READER(0), CHUNK(1), FILE_AT(2), ERROR(3)))) \
    ROW(hf_compact_reader_export,                                                              \
        play_status(play,                                                                      \
                    hf_compact_reader_export(READER(0), play_merge_output(play, 1),            \
                                             play_export_options(play, 2),                     \
                                             REPORT(3, hf_compact_export_report), ERROR(4))))  \
    ROW(hf_compact_reader_rows,                                                                \
        play_status(play,                                                                      \
                    hf_compact_reader_rows(READER(0), play_on_row(play, 1), NULL,              \
                                           play_export_options(play, 2),                       \
                                           REPORT(3, hf_compact_export_report), ERROR(4))))    \
    ROW(hf_compact_reader_detach,                                                              \
        play_status(play, hf_compact_reader_detach(TAKE(READER, 0), NULL, NULL, ERROR(1))))    \
    ROW(hf_compact_reader_close, hf_compact_reader_close(TAKE(READER, 0)))                     \
    ROW(hf_compact_pin,                                                                        \
        play_made(play, KIND_LOCK, 0,                                                          \
                  hf_compact_pin(COMPACT(1), play_chunks(play, 2), NAME_COUNT(2), WAIT_MS(3),  \
                                 MADE_AT(4, hf_lock), ERROR(5))))                              \
    ROW(hf_compact_plan,                                                                       \
        play_status(play, hf_compact_plan(COMPACT(0), play_byte(play, 0) & 64, each_group,     \
                                          NULL, REPORT(1, hf_compact_plan_report), ERROR(2)))) \
    ROW(hf_compact_should_start,                                                               \
        play_status(play,                                                                      \
                    hf_compact_should_start(COMPACT(0), OUT(1, flags[0]),                      \
                                            REPORT(2, hf_compact_plan_report), ERROR(3))))     \
    ROW(hf_compact_run,                                                                        \
        play_status(play, hf_compact_run(COMPACT(0), play_run_options(play, 1),                \
                                         REPORT(2, hf_compact_totals), ERROR(3))))             \
    ROW(hf_compact_worker_start,                                                               \
        play_made(play, KIND_WORKER, 0,                                                        \
                  hf_compact_worker_start(COMPACT(1), play_worker_options(play, 2),            \
                                          MADE_AT(3, hf_compact_worker), ERROR(4))))           \
    ROW(hf_compact_worker_stop, hf_compact_worker_stop(WORKER(0)))                             \
    ROW(hf_compact_worker_wait,                                                                \
        play_status(play, hf_compact_worker_wait(WORKER(0), WAIT_MS(1),                        \
                                                 REPORT(2, hf_compact_totals), ERROR(3))))     \
    ROW(hf_compact_worker_free, hf_compact_worker_free(TAKE(WORKER, 0)))                       \
    ROW(hf_compact_get_status,                                                                 \
        play_status(play, hf_compact_get_status(COMPACT(0), play_overview_options(play, 1),    \
                                                REPORT(2, hf_compact_status), ERROR(3))))      \
    ROW(hf_compact_drop,                                                                       \
        play_status(play, hf_compact_drop(COMPACT(0), play_drop_options(play, 1),              \
                                          REPORT(2, hf_compact_drop_report), ERROR(3))))       \
    ROW(hf_compact_fsck,                                                                       \
        play_status(play, hf_compact_fsck(CLIENT(0), TEXT(1), play_fsck_options(play, 2),      \
                                          REPORT(3, hf_fsck_report), ERROR(4))))

#define WATCH(i) ((struct hf_watch *)play_handle(play, KIND_WATCH, i))
#define LOOK(i)  play_look_options(play, i)
#define OBSERVE_CALLS(ROW)                                                                     \
    ROW(hf_event_name, hf_event_name((enum hf_event_kind)play_byte(play, 0)))                  \
    ROW(hf_lease_state_name, hf_lease_state_name((enum hf_lease_state)play_byte(play, 0)))     \
    ROW(hf_mode_name, hf_mode_name((enum hf_mode)play_byte(play, 0)))                          \
    ROW(hf_proof_name, hf_proof_name((enum hf_proof)play_byte(play, 0)))                       \
    ROW(hf_change_name, hf_change_name((enum hf_change)play_byte(play, 0)))                    \
    ROW(hf_txn_state_name, hf_txn_state_name((enum hf_txn_state)play_byte(play, 0)))           \
    ROW(hf_client_stats,                                                                       \
        play_status(play, hf_client_stats(CLIENT(0), REPORT(1, hf_stats), ERROR(2))))          \
    ROW(hf_client_choose_events,                                                               \
        play_status(play, hf_client_choose_events(CLIENT(0), play_byte(play, 1), ERROR(2))))   \
    ROW(hf_locks_list, play_status(play, hf_locks_list(CLIENT(0), TEXT(1), LOOK(2),            \
                                                       each_lease, NULL, ERROR(3))))           \
    ROW(hf_locks_show,                                                                         \
        play_status(play, hf_locks_show(CLIENT(0), TEXT(1), REPORT(2, hf_table_info),          \
                                        each_lease, each_audit, NULL, ERROR(3))))              \
    ROW(hf_locks_timeline,                                                                     \
        play_status(play, hf_locks_timeline(CLIENT(0), TEXT(1), REPORT(2, hf_timeline_info),   \
                                            each_hold, NULL, ERROR(3))))                       \
    ROW(hf_watch_new,                                                                          \
        play_made(play, KIND_WATCH, 0,                                                         \
                  hf_watch_new(CLIENT(1), TEXT(2), LOOK(3), MADE_AT(4, hf_watch), ERROR(5))))  \
    ROW(hf_watch_free, hf_watch_free(TAKE(WATCH, 0)))                                          \
    ROW(hf_watch_look,                                                                         \
        play_status(play, hf_watch_look(WATCH(0), each_lease_change, NULL, ERROR(1))))         \
    ROW(hf_lock_blocker, play_status(play, hf_lock_blocker(play_any_lock(play, 0),             \
                                                           REPORT(1, hf_blocker), ERROR(2))))  \
    ROW(hf_lock_blockers, play_status(play, hf_lock_blockers(play_any_lock(play, 0),           \
                                                             each_blocker, NULL, ERROR(1))))   \
    ROW(hf_key_describe,                                                                       \
        play_status(play, hf_key_describe(CLIENT(0), TEXT(1), INFO(2),                         \
                                          REPORT(3, hf_key_status), ERROR(4))))                \
    ROW(hf_key_txn,                                                                            \
        play_status(play, hf_key_txn(CLIENT(0), TEXT(1), OUT(2, url[0]), ERROR(3))))           \
    ROW(hf_keys_list, play_status(play, hf_keys_list(CLIENT(0), TEXT(1), LOOK(2), each_key,    \
                                                     NULL, ERROR(3))))                         \
    ROW(hf_txn_show,                                                                           \
        play_status(play, hf_txn_show(CLIENT(0), TXN_TEXT(1), each_txn, NULL, ERROR(2))))      \
    ROW(hf_txns_list,                                                                          \
        play_status(play, hf_txns_list(CLIENT(0), (enum hf_txn_state)(play_byte(play, 1) % 5), \
                                       LOOK(2), each_txn, NULL, ERROR(3))))

/* After the others, so that recorded inputs still mean the same calls. */
#define ADOPT_CALLS(ROW)                                                                       \
    ROW(hf_compact_adopt,                                                                      \
        play_status(play, hf_compact_adopt(COMPACT(0), NAMES(1), NAME_COUNT(1),                \
                                           play_adopt_options(play, 2),                        \
                                           REPORT(3, hf_compact_adopt_report), ERROR(4))))     \
    ROW(hf_compact_release,                                                                    \
        play_status(play, hf_compact_release(COMPACT(0), TEXT(1),                              \
                                             REPORT(2, hf_compact_release_report), ERROR(3)))) \
    ROW(hf_compact_paths,                                                                      \
        play_status(play, hf_compact_paths(COMPACT(0), each_path, NULL, ERROR(1))))            \
    ROW(hf_compact_discard,                                                                    \
        play_status(play, hf_compact_discard(COMPACT(0), TEXT(1), ERROR(2))))

/* Names that are not calls. */
#define OTHER_STEPS(ROW) ROW(time_passes, play_pass_time(play, 0))

#define ALL_CALLS(ROW) \
    BASE_CALLS(ROW)    \
    LOCK_CALLS(ROW)    \
    FENCED_CALLS(ROW)  \
    KEY_CALLS(ROW)     \
    STORE_CALLS(ROW)   \
    INDEX_CALLS(ROW)   \
    ELECT_CALLS(ROW)   \
    SWEEP_CALLS(ROW)   \
    MERGE_CALLS(ROW)   \
    COMPACT_CALLS(ROW) \
    OBSERVE_CALLS(ROW) \
    OTHER_STEPS(ROW)   \
    ADOPT_CALLS(ROW)

#endif
