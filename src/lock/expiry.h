/* SPDX-License-Identifier: Apache-2.0 */
/* expiry.h: the expiry index, which lists the tables that had a lease ending in a given hour.
 *
 *   <ns>/.lease-index/<YYYYMMDDHH>/<table>
 *
 * The index is a hint for the sweeper and proves nothing. Only the table shows whether a lease has
 * ended, so the writer's wall clock is good enough here. If a lease has been held for longer than
 * half of its ttl, the keeper writes an entry for its table, one per hour in which such a lease
 * ends. A brief lock therefore needs no entry. A lease whose holder dies earlier is found by the
 * next client that touches it, or by a full sweep. A detached lease (hf_lock_detach) has no keeper:
 * if its ttl is long, its entry is written when it is detached. See docs/design.md, section 9. */
#ifndef LOCK_EXPIRY_H
#define LOCK_EXPIRY_H

#include "lock/client.h"

/* An hour, as a number since 1970 and as text. Hours are shorter in the simulator
 * (client->hour). */
#define HOUR_SPAN      SPAN_S(3600)
#define HOUR_TEXT_SIZE 10

/* A detached lease of at least this ttl gets an entry. The idle sweeper waits just as long, so a
 * shorter lease has expired before a sweep can start. */
#define EXPIRY_TTL_LONG SPAN_S(300)

struct hour {
    int64_t number;
};
const char *hour_text(struct hour hour, char text[HOUR_TEXT_SIZE + 1]);
bool hour_parse(struct view text, struct hour *ret_hour);

/* Whether the current hour is known. On a store that sends dates, it is unknown until the first
 * date arrives. To a machine whose wall clock is years ahead, every hour would seem to have
 * passed. */
bool hour_is_known(const struct hf_client *client, const struct evidence *evidence);

/* The current hour, by the store's date if it sends one, otherwise by the wall clock. If the hour
 * is unknown, returns the earliest possible hour, so that no hour counts as past. */
struct hour hour_now(const struct hf_client *client, const struct evidence *evidence);

/* The hour in which a span that starts now ends; by the wall clock if the current hour is
 * unknown. */
struct hour hour_after(const struct hf_client *client, const struct evidence *evidence,
                       struct span span);

/* The hour in which a lease ends, never before now. */
struct hour hour_of_lease(const struct hf_client *client, const struct lease *lease,
                          const struct evidence *evidence);

/* Whether the index covers the table with this key. It covers only the tables of namespaces. */
bool expiry_has(const struct hf_client *client, struct view table_key);

/* Convert a table's key to its entry's key, "<ns>/.lease-index/<hour>/<table>", and back. False if
 * the key has another form. */
bool expiry_key(const struct hf_client *client, struct view table_key, struct hour hour,
                char ret_key[KEY_BYTES_MAX + 1]);
bool expiry_parse(const struct hf_client *client, struct view entry_key, struct hour *ret_hour,
                  char ret_table[KEY_BYTES_MAX + 1]);

/* An entry. If it is for a stub that is to be purged, it contains the stub's ETag. */
struct expiry_entry {
    struct etag stub; /* empty: for a lease */
};
bool expiry_decode(struct view bytes, struct expiry_entry *ret_entry);

/* Writes an entry, with different bytes each time. `stub` may be NULL. */
enum hf_status expiry_write(struct hf_client *client, struct view table_key, struct hour hour,
                            const struct etag *stub, struct mono_time deadline,
                            struct hf_error *error);

#endif
