/* SPDX-License-Identifier: Apache-2.0 */
/* expiry.c: the hours, keys and entries of the expiry index. The index is only a hint: a wrong or
 * missing entry delays a sweep, but never ends a lease. */
#include "lock/expiry.h"

#include "base/instant.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "lock/client_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Hours --------------------------------------------------------------------------- */

/* The calendar form ends with the last four-digit year. The shorter hours used in tests have
 * larger numbers. Beyond the calendar, an hour is written as a letter and nine hexadecimal digits.
 * Both forms sort by time. */
#define HOURS_OF_CALENDAR ((INSTANT_S_MAX + 1) / 3600)
#define HOUR_NUMBER_MAX   INT64_C(0xfffffffff)

static struct hour hour_at(const struct hf_client *client, int64_t us)
{
    int64_t number = us > 0 ? us / client->hour.us : 0;
    return (struct hour){ number < HOUR_NUMBER_MAX ? number : HOUR_NUMBER_MAX };
}

const char *hour_text(struct hour hour, char text[HOUR_TEXT_SIZE + 1])
{
    if (hour.number >= HOURS_OF_CALENDAR) {
        uint64_t number = (uint64_t)hour.number & HOUR_NUMBER_MAX;
        snprintf(text, HOUR_TEXT_SIZE + 1, "x%09" PRIx64, number);
        return text;
    }
    struct date date = date_of_days(hour.number / 24);
    unsigned of_day = (unsigned)(hour.number % 24);
    snprintf(text, HOUR_TEXT_SIZE + 1, "%04u%02u%02u%02u", date.year % 10000, date.month % 100,
             date.day % 100, of_day);
    return text;
}

/* The number that these digits represent. The caller has checked that they are digits. */
static uint32_t digits(struct view text, size_t at, size_t count)
{
    uint32_t number = 0;
    for (size_t i = at; i < at + count; i++)
        number = number * 10 + (uint32_t)(text.data[i] - '0');
    return number;
}

static bool parse_calendar(struct view text, int64_t *ret_number)
{
    if (!text_is_decimal(text, HOUR_TEXT_SIZE))
        return false;
    struct date date = { digits(text, 0, 4), digits(text, 4, 2), digits(text, 6, 2) };
    if (date.year < 1970 || date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31)
        return false;
    *ret_number = days_of_date(date) * 24 + digits(text, 8, 2);
    return true;
}

static bool parse_behind_calendar(struct view text, int64_t *ret_number)
{
    int64_t number = 0;
    for (size_t i = 1; i < text.size; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return false;
        number = number * 16 + digit;
    }
    *ret_number = number;
    return true;
}

bool hour_parse(struct view text, struct hour *ret_hour)
{
    char again[HOUR_TEXT_SIZE + 1];
    struct hour hour;
    if (text.size != HOUR_TEXT_SIZE)
        return false;
    bool known = text.data[0] == 'x' ? parse_behind_calendar(text, &hour.number)
                                     : parse_calendar(text, &hour.number);
    /* An impossible date, or upper-case digits, would be written back differently. */
    if (!known || !view_equal(view_of(hour_text(hour, again)), text))
        return false;
    *ret_hour = hour;
    return true;
}

/* Microseconds since 1970, by the store's clock if it is known, otherwise by the wall clock. */
static int64_t wall_time_us(const struct hf_client *client, const struct evidence *evidence)
{
    bool told = client->clock.kind == STORE_CLOCK_DATE && evidence->time_known;
    return told ? evidence->earliest.us : evidence->wall.us;
}

bool hour_is_known(const struct hf_client *client, const struct evidence *evidence)
{
    return client->clock.kind != STORE_CLOCK_DATE || evidence->time_known;
}

struct hour hour_now(const struct hf_client *client, const struct evidence *evidence)
{
    if (!hour_is_known(client, evidence))
        return (struct hour){ 0 };
    return hour_at(client, wall_time_us(client, evidence));
}

struct hour hour_after(const struct hf_client *client, const struct evidence *evidence,
                       struct span span)
{
    return hour_at(client, wall_time_us(client, evidence) + span.us);
}

struct hour hour_of_lease(const struct hf_client *client, const struct lease *lease,
                          const struct evidence *evidence)
{
    enum lease_proof proof;
    struct mono_time end = lease_provable_at(&client->space.settings, lease, evidence, &proof);
    struct span left = mono_since(end, evidence->now);
    return hour_after(client, evidence, left.us > 0 ? left : SPAN_US(0));
}

/* ---- Keys ---------------------------------------------------------------------------- */

/* Removes "<ns>" and the given text from the start of a key. */
static bool cut_namespace(const struct hf_client *client, struct view follows, struct view *key)
{
    struct view ns = view_of(client->space.ns);
    if (!view_starts_with(*key, ns) || !view_starts_with(view_from(*key, ns.size), follows))
        return false;
    *key = view_from(*key, ns.size + follows.size);
    return true;
}

bool expiry_has(const struct hf_client *client, struct view table_key)
{
    char key[KEY_BYTES_MAX + 1];
    return expiry_key(client, table_key, (struct hour){ 0 }, key);
}

bool expiry_key(const struct hf_client *client, struct view table_key, struct hour hour,
                char ret_key[KEY_BYTES_MAX + 1])
{
    char key[KEY_BYTES_MAX + 1], text[HOUR_TEXT_SIZE + 1];
    struct view table = table_key;
    if (!cut_namespace(client, VIEW("/"), &table) || !table_key_is_ours(table_key) ||
        table_key_is_of_chunks(table_key) || table_key_is_of_shard(table_key))
        return false;
    int size = snprintf(key, sizeof key, "%s" LAYOUT_EXPIRY_FOLDER "%s/%.*s", client->space.ns,
                        hour_text(hour, text), VIEW_ARGS(table));
    if (size < 0 || (size_t)size >= sizeof key)
        return false;
    memcpy(ret_key, key, (size_t)size + 1);
    return true;
}

bool expiry_parse(const struct hf_client *client, struct view entry_key, struct hour *ret_hour,
                  char ret_table[KEY_BYTES_MAX + 1])
{
    char key[KEY_BYTES_MAX + 1];
    struct view table = entry_key;
    struct hour hour;
    if (!cut_namespace(client, VIEW(LAYOUT_EXPIRY_FOLDER), &table) ||
        !hour_parse(view_cut(&table, '/'), &hour))
        return false;
    int size = snprintf(key, sizeof key, "%s/%.*s", client->space.ns, VIEW_ARGS(table));
    if (size < 0 || (size_t)size >= sizeof key || !expiry_has(client, view_of(key)))
        return false;
    memcpy(ret_table, key, (size_t)size + 1);
    *ret_hour = hour;
    return true;
}

/* ---- Entries ------------------------------------------------------------------------- */

#define ENTRY_BYTES_MAX ((size_t)4096)

static bool encode_expiry(const struct etag *stub, struct view nonce, struct buffer *text)
{
    buffer_append(text, VIEW("{ "));
    if (stub) {
        buffer_append(text, VIEW("\"stub\": "));
        json_write_string(text, etag_view(stub));
        buffer_append(text, VIEW(", "));
    }
    return buffer_print(text, "\"write\": \"%.*s\" }\n", VIEW_ARGS(nonce));
}

bool expiry_decode(struct view bytes, struct expiry_entry *ret_entry)
{
    struct json_reader reader = json_read(bytes);
    struct buffer stub = BUFFER_INIT(ENTRY_BYTES_MAX);
    struct expiry_entry entry = { 0 };
    struct view name, raw;
    bool named = false;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("stub")) && !named)
            named = json_take_string(&reader, &stub);
        else
            json_skip(&reader, &raw);
    }
    bool read = json_end(&reader) && (!named || etag_set(&entry.stub, buffer_view(&stub)));
    buffer_release(&stub);
    if (read)
        *ret_entry = entry;
    return read;
}

enum hf_status expiry_write(struct hf_client *client, struct view table_key, struct hour hour,
                            const struct etag *stub, struct mono_time deadline,
                            struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1], nonce[NONCE_SIZE + 1];
    struct buffer text = BUFFER_INIT(ENTRY_BYTES_MAX);
    if (!expiry_key(client, table_key, hour, key))
        return error_set(error, HF_INVALID, "tables with this key are not in the expiry index");
    env_random_hex(client->env, NONCE_SIZE, nonce);
    if (!encode_expiry(stub, view_of(nonce), &text)) {
        buffer_release(&text);
        return error_no_memory(error);
    }
    struct put_call put = {
        .key = view_of(key), .body = buffer_view(&text), .quiet = true, .deadline = deadline
    };
    enum hf_status status = store_put(client->store, &put);
    clock_learn(&client->clock, &put.stamp);
    if (status != HF_OK && error)
        *error = put.error;
    buffer_release(&text);
    return status;
}
