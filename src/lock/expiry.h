/* expiry.h: the expiry index: which tables had a lease that ends in a given hour.
 *
 *     <ns>/.lease-index/<YYYYMMDDHH>/<table>
 *
 * A hint for the sweeper, never proof of anything: whether a lease is over is judged by what its
 * table says. So the calendar of whoever writes is good enough here. The keeper writes an entry
 * for each table whose lease it holds for longer than half of its ttl, once an hour of the end, so
 * that a brief lock costs none; one that dies before that is found by whoever touches it, or by a
 * full sweep. A lease that is left to whoever has its text (hf_lock_detach) has no keeper: it is
 * entered then, if it is long. docs/design.md section 9. */
#ifndef LOCK_EXPIRY_H
#define LOCK_EXPIRY_H

#include "lock/client.h"

/* An hour, as a number since 1970 and as text. In the simulator they are shorter
 * (client->hour). */
#define HOUR_SPAN      SPAN_S(3600)
#define HOUR_TEXT_SIZE 10

/* A lease without a keeper is long from here on: as long as the idle sweeper waits for the store to
 * be idle. A shorter one is over before a sweep could be there, and costs no entry. */
#define EXPIRY_TTL_LONG SPAN_S(300)

struct hour {
    int64_t number;
};
const char *hour_text(struct hour hour, char text[HOUR_TEXT_SIZE + 1]);
bool hour_parse(struct view text, struct hour *ret_hour);

/* Whether that of now is known: not before a store that has dates has told one. A machine whose
 * calendar is years ahead would find every hour over. */
bool hour_is_known(const struct hf_client *client, const struct evidence *evidence);

/* The hour of now: by the store's date where it has one, else by this machine's calendar. Not
 * known: the first of all, so that none is over. */
struct hour hour_now(const struct hf_client *client, const struct evidence *evidence);

/* The hour in which a span from now ends. Not known: as this machine's calendar guesses. */
struct hour hour_after(const struct hf_client *client, const struct evidence *evidence,
                       struct span span);

/* The hour in which a lease ends, never before now. */
struct hour hour_of_lease(const struct hf_client *client, const struct lease *lease,
                          const struct evidence *evidence);

/* Whether tables of this key are in the index at all: those of a namespace are. */
bool expiry_has(const struct hf_client *client, struct view table_key);

/* "<ns>/.lease-index/<hour>/<table>", and back: the key of the table. False when it is none. */
bool expiry_key(const struct hf_client *client, struct view table_key, struct hour hour,
                char ret_key[KEY_BYTES_MAX + 1]);
bool expiry_parse(const struct hf_client *client, struct view entry_key, struct hour *ret_hour,
                  char ret_table[KEY_BYTES_MAX + 1]);

/* What an entry says. One that waits for a stub to be purged names its ETag. */
struct expiry_entry {
    struct etag stub; /* empty: of a lease */
};
bool expiry_decode(struct view bytes, struct expiry_entry *ret_entry);

/* Writes an entry; its bytes are new each time. `stub` may be NULL. */
enum hf_status expiry_write(struct hf_client *client, struct view table_key, struct hour hour,
                            const struct etag *stub, struct mono_time deadline,
                            struct hf_error *error);

#endif
