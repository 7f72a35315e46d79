/* api_calls.h: the public calls as the fuzzer makes them, one row each: a name, and what is done.
 * A number is that of the byte from which an argument is drawn (api_play.h).
 * tests/api_docs_test.py sees to it that no call is left out. */
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
    ROW(hf_key_outcome_name, hf_key_outcome_name((enum hf_key_outcome)play_byte(play, 0)))     \
    ROW(hf_key_new, play_made(play, KIND_KEY, 0,                                               \
                              hf_key_new(CLIENT(1), TEXT(2), play_key_options(play, 3),        \
                                         MADE_AT(4, hf_key), ERROR(5))))                       \
    ROW(hf_key_free, hf_key_free(TAKE(KEY, 0)))                                                \
    ROW(hf_key_detach, hf_key_detach(TAKE(KEY, 0)))                                            \
    ROW(hf_key_acquire,                                                                        \
        play_status(play, hf_key_acquire(KEY(0), WAIT_MS(1), INFO(2), ERROR(3))))              \
    ROW(hf_key_lock, hf_key_lock(KEY(0)))                                                      \
    ROW(hf_key_keepalive, play_status(play, hf_key_keepalive(KEY(0), ERROR(1))))               \
    ROW(hf_key_update,                                                                         \
        play_status(play, hf_key_update(KEY(0), BYTES(1), IF(2), INFO(3), ERROR(4))))          \
    ROW(hf_key_update_file,                                                                    \
        play_status(play, hf_key_update_file(KEY(0), FILE_AT(1), IF(2), INFO(3), ERROR(4))))   \
    ROW(hf_key_remove, play_status(play, hf_key_remove(KEY(0), IF(1), INFO(2), ERROR(3))))     \
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
    ROW(hf_txn_commit, play_status(play, hf_txn_commit(TXN(0), OUT(1, decision), ERROR(2))))   \
    ROW(hf_txn_rollback, play_status(play, hf_txn_rollback(TXN(0), OUT(1, decision), ERROR(2))))

/* What is not a call. */
#define OTHER_STEPS(ROW) ROW(time_passes, play_pass_time(play, 0))

#define ALL_CALLS(ROW) \
    BASE_CALLS(ROW)    \
    LOCK_CALLS(ROW)    \
    FENCED_CALLS(ROW)  \
    KEY_CALLS(ROW)     \
    OTHER_STEPS(ROW)

#endif
