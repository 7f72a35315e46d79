/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_inbox_name.c: parses arbitrary bytes as the name of an object of an index, for every
 * number of digits. An accepted name must give a key and its shard. An entry of Holdfast must
 * have no other name. The entry of another program must have a name that Holdfast would look
 * for. */
#include "base/check.h"
#include "base/evidence.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "index/name.h"

#define INDEX "x"

static struct schema schema_of_digits(unsigned digits)
{
    const struct view fields[] = { VIEW("key"), VIEW("time") };
    struct schema schema;
    check(schema_new(&(struct schema_spec){ fields, 2, fields[0], fields[1], digits, true,
                                            false },
                     &schema, NULL) == HF_OK);
    return schema;
}

/* Its key, time and nonce make the same name again. */
static void our_name_holds(const struct schema *schema, const struct entry_name *name,
                           struct view key, struct view rest)
{
    const struct record record = { .key = key, .time = name->time };
    char again[KEY_BYTES_MAX + 1];
    struct view leaf = view_first(rest, rest.size - strlen(LAYOUT_SHARD));
    check(leaf.size > NONCE_SIZE);
    const char *nonce = leaf.data + leaf.size - NONCE_SIZE;
    check(entry_key(VIEW(INDEX), schema, &record, nonce, again));
    check(view_equal(view_from(view_of(again), strlen(LAYOUT_INDEX_FOLDER INDEX "/")), rest));
}

static void foreign_name_holds(const struct schema *schema, struct view key, struct view rest)
{
    static char keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1];
    bool bare = view_find(key, '\0') == key.size && utf8_is_text(key);
    size_t count = foreign_keys(VIEW(INDEX), schema, key, keys), found = 0;
    check(count <= FOREIGN_NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct view name = view_from(view_of(keys[i]), strlen(LAYOUT_INDEX_FOLDER INDEX "/"));
        found += view_equal(name, rest);
    }
    check(found == 1 || !bare);
}

static void name_holds(struct view rest, unsigned digits)
{
    struct schema schema = schema_of_digits(digits);
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct entry_name name = entry_read(rest, digits, &space);
    struct view key = buffer_view(&space);
    bool known = name.kind == ENTRY_OURS || name.kind == ENTRY_FOREIGN;
    size_t number;
    check(known == (name.hashed || key.size > 0) && !(name.hashed && key.size > 0));
    check(!space.failed && key.size <= INDEX_ESCAPED_MAX);
    if (known || name.shard.text[0])
        check(shard_number(view_of(name.shard.text), digits, &number) &&
              number < shard_count(digits));
    if (key.size > 0)
        check(strcmp(name.shard.text, shard_of_key(key, digits).text) == 0);
    if (name.kind == ENTRY_OURS && !name.hashed)
        our_name_holds(&schema, &name, key, rest);
    if (name.kind == ENTRY_FOREIGN && !name.hashed)
        foreign_name_holds(&schema, key, rest);
    buffer_release(&space);
}

/* A key has one name, and the name gives the key. */
static void key_holds(struct view key)
{
    struct key_name name = key_name_of(key);
    struct buffer back = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    bool hashed;
    check(name.size <= INDEX_ESCAPED_MAX);
    if (key_of_name((struct view){ name.text, name.size }, &back, &hashed))
        check(!hashed && view_equal(buffer_view(&back), key));
    else
        check(hashed);
    buffer_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size };
    if (size == 0 || size > KEY_BYTES_MAX - strlen(LAYOUT_INDEX_FOLDER INDEX "/"))
        return 0;
    for (unsigned digits = 1; digits <= INDEX_DIGITS_MAX; digits++)
        name_holds(input, digits);
    if (size <= INDEX_KEY_BYTES_MAX)
        key_holds(input);
    return 0;
}
